"""Record what real starts of a real vLLM print and write, as fixtures for adapters and verdict.

For each compile path (and for tensor parallel 2): cold, hit, hit, then the tree copied to a new node, whose home and
temporary directory are empty; also what a new node does with a tree that lost its support files, and a start that
does not compile. Per start a log and a JSON file: the cache tree before and after, and the files that
were opened meanwhile. Everything runs at the node's paths (/compile-cache, /node/home, /tmp), so only the engine's
and Python's places are shortened.

`python -m lab.record DIRECTORY [NAME…]` runs it; about 4 minutes a name on two cores.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lab import model, s3
from lab.node import CHECKOUT, Node, Site
from lab.recordings import FORMAT, NAMES, NEW_NODE, File, starts
from lab.vllm import CompilePath, Launch, cache_env, wait_until_ready
from lab.watch import Opens

_QUIET_SECONDS = 3.0
_INSIDE_ENTRY = "vllm/torch_compile_cache/**/inductor_cache"


@dataclass(frozen=True)
class _Scenario:
    """What is started, and what a new node lacks of the tree (glob patterns below the cache root)."""

    path: CompilePath
    tensor_parallel: int = 1
    arguments: tuple[str, ...] = ()
    lost_on_the_way: tuple[str, ...] = ()


_SCENARIOS = {
    **{path.value: _Scenario(path) for path in CompilePath},
    "aot-tp2": _Scenario(CompilePath.AOT, tensor_parallel=2),
    "aot-support-lost": _Scenario(CompilePath.AOT, lost_on_the_way=(_INSIDE_ENTRY, "inductor")),
    "vllm-compile-support-lost": _Scenario(CompilePath.VLLM_COMPILE, lost_on_the_way=(_INSIDE_ENTRY, "inductor")),
    "eager": _Scenario(CompilePath.AOT, arguments=("--enforce-eager",)),
}
assert set(_SCENARIOS) == set(NAMES)


def index(root: Path) -> list[File]:
    """Every regular file below `root`, sorted by path."""
    files = []
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink():
            status = path.stat()
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            name = path.relative_to(root).as_posix()
            files.append(File(name, status.st_size, digest, status.st_mtime_ns, status.st_mode & 0o7777))
    return files


def record(name: str, directory: Path, python: Path, server: s3.Server, site: Site) -> None:
    """Record all starts of one name into `directory/name`."""
    target = directory / name
    target.mkdir(parents=True, exist_ok=True)
    scenario = _SCENARIOS[name]
    first, second = site.node(f"{name}-first"), site.node(f"{name}-second")
    for start in starts(name):
        node = first
        if start in NEW_NODE:
            node = second
            node.copy_cache_from(first)
            for pattern in scenario.lost_on_the_way:
                for lost in node.cache.glob(pattern):
                    shutil.rmtree(lost)
        launch = Launch(
            python, "s3://models/tiny", _free_port(), scenario.path, scenario.tensor_parallel, scenario.arguments
        )
        _record_start(target, start, node, launch, server, {"name": name, "start": start})
    for node in (first, second):
        node.discard()


def _record_start(
    target: Path, start: str, node: Node, launch: Launch, server: s3.Server, head: Mapping[str, object]
) -> None:
    log = target / f"{start}.log"
    log.unlink(missing_ok=True)
    before = index(node.cache)
    env = launch.env(server.env()) | cache_env(node.site.cache_root)
    with Opens(node.cache) as opens, node.start(launch.argv(), log=log, env=env, patience=20) as process:
        ready = wait_until_ready(launch.health_url, process.poll)
        time.sleep(_QUIET_SECONDS)
        at_ready = _stats(node.cache)
        tokens = launch.complete()
        process.signal(signal.SIGTERM)
        deadline = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        status = process.poll()
    after = index(node.cache)
    outside = sorted(
        f"{place}/{path.relative_to(own)}"
        for place, own in node.places().items()
        if place != node.site.cache_root
        for path in own.rglob("*")
        if path.is_file()
    )
    shown = {key: value for key, value in env.items() if "KEY" not in key and key != "PATH"}
    document = {
        "schema": FORMAT,
        **head,
        "ready_seconds": round(ready, 2),
        "engine_init": _engine_init(log.read_text(errors="replace")),
        "argv": launch.argv(),
        "env": shown,
        "exit_status": status,
        "token_ids": tokens,
        "changed_after_ready": [asdict(one) for one in after if (one.path, one.size, one.mtime_ns) not in at_ready],
        "outside_cache_root": outside,
        "opened": {} if opens.overflowed else dict(sorted(opens.counts.items())),
        "before": [asdict(one) for one in before],
        "after": [asdict(one) for one in after],
    }
    text = json.dumps(document, indent=1) + "\n"
    text = re.sub(r"\{\n\s+(\"path\"[^{}]*?)\n\s+\}", lambda found: "{" + re.sub(r"\n\s+", " ", found[1]) + "}", text)
    (target / f"{start}.json").write_text(_shortened(text, launch.python))
    log.write_text(_shortened(log.read_text(errors="replace"), launch.python))
    print(f"{head['name']} {start}: ready {ready:.1f} s, {document['engine_init']}", file=sys.stderr, flush=True)


def _stats(root: Path) -> set[tuple[str, int, int]]:
    """Path, size and time of each file, without opening it: opens are being counted."""
    return {
        (path.relative_to(root).as_posix(), status.st_size, status.st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file() and (status := path.stat())
    }


def _engine_init(log: str) -> str | None:
    found = re.search(r"init engine .*? took [\d.]+ s(?: \(compilation: [\d.]+ s\))?", log)
    return found[0] if found else None


def _shortened(text: str, python: Path) -> str:
    """The text without places of this machine."""
    places = {
        str(python.parent.parent): "/engine",
        str(CHECKOUT): "/checkout",
        sys.base_prefix: "/python",
        str(Path.home()): "/root",
    }
    for place, name in places.items():
        text = text.replace(place, name)
    return re.sub(r"mq_connect_ip=[\d.]+", "mq_connect_ip=192.0.2.1", text)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def main(arguments: Sequence[str] | None = None) -> int:
    """Record into a directory."""
    parser = argparse.ArgumentParser(prog="python -m lab.record")
    parser.add_argument("directory", type=Path)
    parser.add_argument("names", nargs="*", default=list(NAMES), metavar="NAME")
    parser.add_argument("--python", type=Path, help="the engine's interpreter (default: lab.engine builds it)")
    options = parser.parse_args(arguments)
    python = options.python
    if python is None:
        from lab import engine

        python = engine.build()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    base = Path(tempfile.mkdtemp(prefix="glowplug-record-"))
    site = Site(base, keep=(python.parent.parent,))
    if not site.namespaces:
        print("recordings need mount namespaces: run as root", file=sys.stderr)
        return 3
    try:
        with s3.serve(["models"]) as server:
            model.make(base / "model")
            model.upload(base / "model", "s3://models/tiny", server.env())
            for name in options.names:
                record(name, options.directory, python, server, site)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
