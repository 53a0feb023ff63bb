"""What commands that run until they are told to end have in common: where they listen, and how a signal ends them."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Final

from glowplug.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

UNDONE: Final = 3
"""The exit status of what was to be done once, and was not."""

_LOOK_SECONDS: Final = 0.2
_END_SECONDS: Final = 7.0
_ADDRESS: Final = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.-]*):(?P<port>[0-9]{1,5})", re.ASCII)
_TAINT: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_./-]{0,315}[A-Za-z0-9])?", re.ASCII)


def address(text: str) -> tuple[str, int]:
    """Host ("" for all) and port of `--listen`. Raises UsageError."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65535:
        raise UsageError(f"--listen: {text[:200]!r} is no address", hint="write :9090, or 127.0.0.1:9090")
    return found["host"].strip("[]"), int(found["port"])


def demand_taint(key: str) -> None:
    """Raise UsageError where `--taint` cannot be the key of a taint."""
    if not _TAINT.fullmatch(key):
        raise UsageError(f"--taint: {key[:400]!r} cannot be the key of a taint")


def ends_at_a_signal(stop: threading.Event) -> Callable[[], int]:
    """SIGTERM and SIGINT set `stop`, in process 1 too; what is returned gives the exit status that follows from which it was."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)  # before any thread: each inherits it, and one waits
    received: list[int] = []

    def wait() -> None:
        received.append(signal.sigwait(numbers))
        stop.set()

    threading.Thread(target=wait, name="signals", daemon=True).start()
    return lambda: 130 if signal.SIGINT in received else 0


def once(work: Callable[[], bool], stop: threading.Event, received: Callable[[], int]) -> int:
    """Do `work` once; the exit status. `stop` and `received` are those of `ends_at_a_signal`: a signal ends it, in process 1 too.

    `work` is told by `stop`. What hangs in the network after `_END_SECONDS` all the same is left behind with the process, since
    who wants us to end would kill us anyway. Raises what `work` does.
    """
    outcome: Future[bool] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again by who waits
            outcome.set_exception(error)

    threading.Thread(target=run, name="once", daemon=True).start()
    while not outcome.done() and not stop.is_set():
        wait([outcome], _LOOK_SECONDS)
    wait([outcome], _END_SECONDS)
    if not outcome.done():
        sys.stderr.flush()
        os._exit(received() or UNDONE)
    return received() or (0 if outcome.result() else UNDONE)
