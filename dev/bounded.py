"""Runs a command within a time limit and leaves nothing of it running, whatever it started and however it ends.

`.ci/run` uses it. A test that hangs leaves servers and engines in sessions of their own, out of reach of `kill -- -pgid`; so this
process becomes the subreaper of all its descendants (Linux), to which orphans are handed, and ends those that are left. Orphans
that end by themselves are reaped at once: the first process of a PID namespace cannot end while one of its own is a zombie. Exit
status: the command's, 128+N after signal N, 124 after the limit.

    python3 dev/bounded.py SECONDS COMMAND…
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

_PR_SET_CHILD_SUBREAPER = 36
_LOOK_SECONDS = 0.05
_PATIENCE = 10.0
"""Seconds between SIGTERM and SIGKILL: lab/guarded.py removes its directories within that time."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; the returned status is as the module says."""
    if len(arguments) < 2:
        print("usage: bounded.py SECONDS COMMAND…", file=sys.stderr)
        return 2
    limit = float(arguments[0])
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _interrupt)
    status = 124
    try:
        process = subprocess.Popen(arguments[1:], stdin=subprocess.DEVNULL)
        ended = _wait(process.pid, limit)
        if ended is None:
            print(f"error: ended after the limit of {limit:.0f} s", file=sys.stderr, flush=True)
        else:
            status = process.returncode = ended
        end_descendants()
    except _InterruptedError as interrupt:
        end_descendants()
        status = 128 + interrupt.number
    return status if status >= 0 else 128 - status


def _wait(command: int, limit: float) -> int | None:
    """The exit code of that child, negative after a signal; None when it still runs after `limit` seconds. Reaps all others.

    (Popen's own waiting would take away nothing but its child, and is therefore not used.)
    """
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        pid, ended = os.waitpid(-1, os.WNOHANG)
        if pid == command:
            return os.waitstatus_to_exitcode(ended)
        if pid == 0:
            time.sleep(_LOOK_SECONDS)
    return None


class _InterruptedError(Exception):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _interrupt(number: int, _: FrameType | None) -> None:
    raise _InterruptedError(number)


def end_descendants(patience: float = _PATIENCE) -> None:
    """SIGTERM to every descendant of this process, SIGKILL to those that are left after `patience` seconds."""
    for number, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, patience)):
        for pid in _descendants():
            _send(pid, number)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            running = _descendants()
            _reap()
            if not running:
                return
            time.sleep(0.05)


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            after_name = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if after_name[0] != "Z":
            children.setdefault(int(after_name[1]), []).append(int(entry.name))
    found, open_ = [], [os.getpid()]
    while open_:
        below = children.get(open_.pop(), [])
        found += below
        open_ += below
    return found


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
