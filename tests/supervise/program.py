"""A stand-in for a program that calls torch.compile: a plain script without torch, for what is cheap to try a hundred times.

It behaves towards its cache as Inductor does: below TORCHINDUCTOR_CACHE_DIR it looks for `fxgraph/<graph>/…` and
`aotautograd/<graph>/…`; it opens what is there, and otherwise "compiles" for a while and writes them, after the support files that
they point to (`ab/<graph>.so`), each under a temporary name first. What else engines do well or badly is an option.
It prints `begun` at once, `hit G` or `miss G` for each graph, `ready`, and `answered` when somebody has asked for its health.
"""

from __future__ import annotations

import argparse
import http.server
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--graphs", default="g1")
    parser.add_argument("--later", default="", help="graphs that are compiled after ready")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds before those")
    parser.add_argument("--compile-seconds", type=float, default=0.02)
    parser.add_argument("--bytes", type=int, default=2000, help="of each support file")
    parser.add_argument("--mark", default="", help="text that goes into every artifact")
    parser.add_argument("--fail-on", default="", help="fail before ready when an artifact that is read holds this")
    parser.add_argument("--fail", action="store_true", help="fail before ready in any case")
    parser.add_argument("--die-by", type=int, default=0, help="end by this signal before ready")
    parser.add_argument("--unfinished", action="store_true", help="leave a temporary file beside the index")
    parser.add_argument("--port", type=int, default=0, help="answer GET on this port once ready")
    parser.add_argument("--stay", type=float, default=0.0, help="seconds to live after ready")
    parser.add_argument("--signals", default="", help="write the names of caught signals here; TERM and INT end it")
    parser.add_argument("--stubborn", action="store_true", help="ignore SIGTERM")
    parser.add_argument("--orphan", type=float, default=0.0, help="leave a child behind that holds stdout this long")
    parser.add_argument("--exit", type=int, default=0)
    return parser.parse_args()


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{os.getpid()}.{threading.get_ident()}.tmp"
    temporary.write_bytes(data)
    temporary.replace(path)


def support(root: Path, graph: str, given: argparse.Namespace) -> None:
    time.sleep(given.compile_seconds)
    write(root / "ab" / f"{graph}.so", given.mark.encode() + secrets.token_bytes(given.bytes))


def compiled(root: Path, graph: str, given: argparse.Namespace) -> None:
    found = [path for name in ("fxgraph", "aotautograd") for path in sorted((root / name / graph).glob("[!.]*"))]
    if not found:
        support(root, graph, given)
        for name in ("fxgraph", "aotautograd"):
            write(root / name / graph / "entry", f"{graph} {given.mark} ".encode() + secrets.token_bytes(64))
        print("miss", graph, flush=True)
        return
    for path in found:
        if given.fail_on and given.fail_on.encode() in path.read_bytes():
            print("cannot bear", path, file=sys.stderr, flush=True)
            sys.exit(9)
        path.read_bytes()
    if not (root / "ab" / f"{graph}.so").exists():
        support(root, graph, given)
    print("hit", graph, flush=True)


def serve(port: int) -> None:
    class Health(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            print("answered", flush=True)

        def log_message(self, *_: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Health)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def listen(path: str) -> None:
    def caught(number: int, _: object) -> None:
        with Path(path).open("a") as file:
            file.write(signal.Signals(number).name + "\n")
        if number in (signal.SIGTERM, signal.SIGINT):
            sys.exit(0)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT):
        signal.signal(number, caught)


def begin(given: argparse.Namespace) -> None:
    if given.signals:
        listen(given.signals)
    if given.stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("begun", flush=True)
    if given.orphan:
        subprocess.Popen(["sleep", str(given.orphan)], start_new_session=True)


def fail_if_asked(given: argparse.Namespace) -> None:
    if given.die_by:
        if given.die_by != signal.SIGKILL:
            signal.signal(given.die_by, signal.SIG_DFL)
        os.kill(os.getpid(), given.die_by)
    if given.fail:
        sys.exit(9)


def live(root: Path, given: argparse.Namespace) -> None:
    if given.port:
        serve(given.port)
    print("ready", flush=True)
    if given.later:
        time.sleep(given.pause)
        for graph in given.later.split(","):
            compiled(root, graph, given)
    end = time.monotonic() + given.stay
    while time.monotonic() < end:
        time.sleep(0.05)


def main() -> None:
    given = options()
    begin(given)
    root = Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR", "/nonexistent"))
    for graph in filter(None, given.graphs.split(",")):
        compiled(root, graph, given)
    if given.unfinished:
        (root / "fxgraph" / given.graphs / ".77.88.tmp").write_bytes(b"half")
    fail_if_asked(given)
    live(root, given)
    sys.exit(given.exit)


if __name__ == "__main__":
    main()
