"""Namespaces that live exactly as long as a pipe is open.

The starter holds one end of the first process's standard input. When the starter ends, however it ends, the kernel closes it, the
first process reads the end of it and exits, and with the first process of a PID namespace the kernel ends all others; with the
last process go mounts, links and addresses. No clean-up code has to run for that.

The two sides speak in lines: the first process says that it is there, the starter prepares what only it can (a link into the new
network namespace) and answers; then the first process does its work and reaps, as every first process must.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent.parent
_UNSHARE = (
    "unshare",
    "--net",
    "--mount",
    "--uts",
    "--ipc",
    "--pid",
    "--fork",
    "--kill-child",
    "--propagation",
    "private",
)
_SETTINGS = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "PYTHONPATH": str(CHECKOUT),
    "PYTHONDONTWRITEBYTECODE": "1",
}
_PASSED = ("HOME", "XDG_CACHE_HOME", "GLOWPLUG_LAB_CACHE", "TMPDIR")
_HERE = "here"


def environment() -> dict[str, str]:
    """Of every process of a cluster that is our own: it finds `lab`, the system's commands, Go and the cache, and no more."""
    passed = {name: os.environ[name] for name in _PASSED if name in os.environ}
    own = _SETTINGS["PATH"]
    return passed | _SETTINGS | {"PATH": f"{own}:{os.environ.get('PATH', own)}"}


def module(name: str, *arguments: str) -> list[str]:
    """The command that runs `main` of one of these modules. (`-m` would load it twice, since the package imports it.)"""
    code = f"import sys; from lab.cluster import {name}; sys.exit({name}.main(*sys.argv[1:]))"
    return [sys.executable, "-c", code, *arguments]


class Space:
    """New namespaces, in which `argv` is the first process; what it prints goes where ours goes."""

    def __init__(self, argv: Sequence[str]) -> None:
        # In a session of its own: a signal for the starter's group must not take away what the starter ends in its own order.
        self._process = subprocess.Popen(
            [*_UNSHARE, *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self.pid = self._process.pid
        """A process in the new network namespace, as we number processes; the new mounts and processes are its child's."""

    def wait_for_first(self) -> None:
        """Return when the first process runs. Raises ChildProcessError when it ended instead."""
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != _HERE:
            raise ChildProcessError("the first process of the namespaces ended at once")

    def tell(self, line: str) -> None:
        """What the first process waits for."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def wait(self) -> int:
        """The first process's exit status, once all of the namespaces have ended."""
        return self._process.wait()

    def end(self) -> None:
        """End the namespaces; safe to call twice."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def listen() -> str:
    """In the first process: say that we are there, and return what the starter says; from now on we end when it does."""
    print(_HERE, flush=True)
    os.dup2(2, 1)
    line = sys.stdin.readline().strip()
    if not line:
        raise SystemExit(0)
    threading.Thread(target=_end_with_starter, daemon=True).start()
    return line


def reap(services: Mapping[int, str]) -> int:
    """In the first process: stay, as every orphan's parent, until one of the services ends; returns an exit status."""
    while True:
        pid, status = os.wait()
        if pid in services:
            code = os.waitstatus_to_exitcode(status)
            print(f"{services[pid]} ended with status {code}", file=sys.stderr, flush=True)
            return code if code > 0 else 1


def _end_with_starter() -> None:
    sys.stdin.read()
    os._exit(0)
