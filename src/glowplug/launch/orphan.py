"""A process beside the one that becomes the engine, and not its child: an engine may wait for all children that it has.

It is forked twice, so its parent is gone (where the engine is process 1, which gets all orphans, it is one of those). It has a
session of its own, so that a terminal's and a group's signals pass it by, and holds none of the engine's descriptors but stderr for
its lines. Nobody waits for it: not the kernel either, which at exec waits for each thread of a process, also for one that a disk
keeps in a system call.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

from glowplug.launch.telling import say

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_STANDARD: Final = 2
_MOST: Final = 256
"""Where there is no /proc, descriptors above it stay open."""


class Work(Protocol):
    """What such a process does. `name` is for the line where it fails."""

    name: str

    def run(self) -> None:
        """In the process, which ends with it."""
        ...

    def forked(self) -> None:
        """In this process, when that one is there or could not be had."""
        ...


def fork(*works: Work) -> None:
    """A process for each, all by way of one: forking takes longer than all else here. Raises OSError.

    The system may refuse one of several; its pipes have nobody at the other end then.
    """
    child = os.fork()
    if child == 0:
        _fork_again(works)
    for work in works:
        work.forked()
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)


def pipe() -> tuple[int, int]:
    """Both ends above the standard descriptors, of which some may be closed: `let_go` replaces those. Raises OSError."""
    read, write = os.pipe()
    return above_standard(read), above_standard(write)


def above_standard(descriptor: int) -> int:
    """The same with a number that no standard stream has. Raises OSError."""
    if descriptor > _STANDARD:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _STANDARD + 1)
    finally:
        os.close(descriptor)


def let_go(kept: Collection[int]) -> None:
    """Close all that is the engine's, for its other ends to see when it closes them: everything but these and stderr."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1):
        os.dup2(null, standard)
    try:
        found = [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208 - names are all that is needed
    except OSError:
        found = list(range(_MOST))
    for descriptor in found:
        if descriptor > _STANDARD and descriptor not in kept:
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _fork_again(works: Sequence[Work]) -> NoReturn:
    """It never comes back: a second process must never run the launcher's own code."""
    try:
        os.setsid()
        for work in works:
            if os.fork() == 0:
                _run(work)
    finally:
        os._exit(0)


def _run(work: Work) -> NoReturn:
    try:
        work.run()
    except BaseException as error:  # noqa: BLE001 - nothing may come back into the launcher's code
        with contextlib.suppress(BaseException):
            say(f"{work.name} failed: {type(error).__name__}: {error}")
    finally:
        os._exit(0)
