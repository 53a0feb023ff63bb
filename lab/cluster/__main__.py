"""`python -m lab.cluster up [NODES]`, `load ARCHIVE`, `down`, `build`: a cluster at a prompt.

`up` returns when all nodes are Ready and prints what a shell needs to use the cluster; it goes on until `down`. `down` ends the
clusters of prompts, and removes what killed harnesses left; those of test runs that still go on are not its own.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from lab import cachedir
from lab.cluster import harness, inside, leftovers, spaces
from lab.kube import binaries

_USAGE = "usage: python -m lab.cluster up [NODES] | load ARCHIVE | down | build"
_EXPORTS = "exports"


def main(arguments: Sequence[str]) -> int:
    """Exit status 3 when the machine lacks something, 1 when a build, a start or an end failed."""
    try:
        match list(arguments):
            case ["up"]:
                return _up(2)
            case ["up", number] if number.isdecimal():
                return _up(int(number))
            case ["hold", number] if number.isdecimal():
                return _hold(int(number))
            case ["load", archive]:
                return _load(Path(archive))
            case ["down"]:
                return _down()
            case ["build"]:
                print(*harness.build().values(), sep="\n")
                return 0
            case _:
                print(_USAGE, file=sys.stderr)
                return 2
    except binaries.MissingError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 3
    except (binaries.BuildError, subprocess.CalledProcessError, OSError) as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1


def _up(nodes: int) -> int:
    for one in leftovers.found():
        if one.at_prompt and (one.base / _EXPORTS).exists():
            cachedir.say("a cluster is up already")
            print((one.base / _EXPORTS).read_text(), end="")
            return 0
    harness.build()
    holder = subprocess.Popen(
        [sys.executable, "-m", "lab.cluster", "hold", str(nodes)],
        env=os.environ | {"PYTHONPATH": str(spaces.CHECKOUT)},
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        with cachedir.step(f"starting a cluster of {nodes} nodes"):
            path = holder.stdout.readline().strip()
        if not path:
            return holder.wait() or 1
        print(Path(path).read_text(), end="", flush=True)
        holder.stdin.write("go on\n")
        holder.stdin.flush()
    except KeyboardInterrupt:
        holder.stdin.close()  # which the holder takes for our end, as it takes a SIGKILL of ours
        holder.wait()
        return 130
    return 0


def _hold(nodes: int) -> int:
    """Run a cluster until told to end; as long as who started us has not said "go on", until that one ends."""
    told = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def listen() -> None:
        if not sys.stdin.readline():
            os.kill(os.getpid(), signal.SIGTERM)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    threading.Thread(target=listen, daemon=True).start()
    try:
        with harness.up(nodes) as cluster:
            leftovers.claim_for_prompt(cluster.base)
            tools = Path(cluster.commands["kubectl"]).parent
            settings = {"KUBECONFIG": str(cluster.kubeconfig)} | cluster.s3.env()
            lines = [f"export {name}={shlex.quote(value)}" for name, value in settings.items()]
            exports = cluster.base / _EXPORTS
            beside = exports.with_suffix(".new")
            beside.touch(mode=0o600)
            beside.write_text("\n".join([*lines, f'export PATH={shlex.quote(str(tools))}:"$PATH"', ""]))
            beside.rename(exports)
            print(exports, flush=True)
            _let_go()
            told.wait()
    except KeyboardInterrupt:
        return 0
    return 0


def _let_go() -> None:
    """A terminal that was closed, and a pipe that is read no more, are nothing to whoever holds a cluster."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _load(archive: Path) -> int:
    """The image in that archive onto every node of the prompt's cluster."""
    base = next((one.base for one in leftovers.found() if one.at_prompt), None)
    nodes = {} if base is None else inside.running(base)
    if not nodes:
        print("lab: no cluster of this prompt is up: make cluster-up", file=sys.stderr)
        return 1
    names: list[str] = []
    for name, group in nodes.items():
        with cachedir.step(f"loading {archive.name} onto {name}"):
            names += inside.load(group, archive)
    print(*dict.fromkeys(names), sep="\n")
    return 0


def _down() -> int:
    ended = {one.name for one in leftovers.found() if one.at_prompt}
    removed, left = leftovers.clean(prompts=True)
    for name in removed:
        print(f"ended {name}" if name in ended else f"removed what {name} left", file=sys.stderr)
    for name in left:
        print(f"left alone: {name}, whose harness still runs", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
