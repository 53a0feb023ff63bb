"""Opened files with who opened them, where the kernel tells: fanotify, which needs CAP_SYS_ADMIN.

inotify says that a file was opened, not by whom: a backup, a scanner or another engine in the same cache root would prove a hit
that never was. fanotify names the process. Events are read at once by a thread, while the process can still be asked for its
ancestors; an opener that is gone by then and is not the engine itself does not count.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Final, Optional

if TYPE_CHECKING:
    from collections.abc import Mapping

_CLOEXEC: Final = 0x1
_NONBLOCK: Final = 0x2
_MARK_ADD: Final = 0x1
_ON_CHILD: Final = 0x08000000
_Q_OVERFLOW: Final = 0x4000
_AT_FDCWD: Final = -100
_EVENT: Final = struct.Struct("=IBBHQii")
_ANCESTORS: Final = 64


class Unavailable(OSError):  # noqa: N818 - a state, said to the caller alone
    """The kernel does not offer it to this process."""


class OpenersWatch:
    """Feeds `take(path, mask)` with the events of the engine's processes; masks are inotify's, bit for bit."""

    def __init__(self, root: Path, paths: frozenset[str], mask: int, take: Callable[[str, int], None]) -> None:
        """Raises Unavailable."""
        self._take = take
        self._files = _identities(root, paths)
        self._engine = 0
        self._thread: Optional[threading.Thread] = None
        self.overflowed = False
        libc = ctypes.CDLL(None, use_errno=True)
        try:
            libc.fanotify_mark.argtypes = [
                ctypes.c_int, ctypes.c_uint, ctypes.c_uint64, ctypes.c_int, ctypes.c_char_p,
            ]  # fmt: skip
            self._descriptor = libc.fanotify_init(_CLOEXEC | _NONBLOCK, os.O_RDONLY | os.O_CLOEXEC)
        except AttributeError:
            raise Unavailable("no fanotify in this C library") from None
        if self._descriptor < 0:
            raise Unavailable(ctypes.get_errno(), "fanotify_init")
        for folder in sorted({path.rpartition("/")[0] for path in paths}):
            name = os.fsencode(root / folder)
            if libc.fanotify_mark(self._descriptor, _MARK_ADD, mask | _ON_CHILD, _AT_FDCWD, name) != 0:
                number = ctypes.get_errno()
                os.close(self._descriptor)
                raise Unavailable(number, "fanotify_mark")
        self._wake, self._waker = os.pipe2(os.O_CLOEXEC)

    def attach(self, pid: int) -> None:
        """The engine runs now as `pid`: its events and its children's count from here on, earlier ones if they are its own."""
        self._engine = pid
        self._thread = threading.Thread(target=self._read, name="opens", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take what has happened up to now, and nothing more."""
        if self._descriptor < 0:
            return
        os.close(self._waker)
        if self._thread is not None:
            self._thread.join()
        os.close(self._wake)
        os.close(self._descriptor)
        self._descriptor = -1

    def _read(self) -> None:
        while True:
            ready, _, _ = select.select([self._descriptor, self._wake], [], [])
            try:
                data = os.read(self._descriptor, 1 << 16)
            except BlockingIOError:
                data = b""
            except OSError:
                # An event whose file could not be opened for us ends a read early; the others are still there.
                continue
            if data:
                self._events(data)
            elif self._wake in ready:
                return

    def _events(self, data: bytes) -> None:
        place = 0
        while place + _EVENT.size <= len(data):
            length, _version, _reserved, _metadata, mask, descriptor, pid = _EVENT.unpack_from(data, place)
            place += max(length, _EVENT.size)
            if mask & _Q_OVERFLOW:
                self.overflowed = True
            if descriptor < 0:
                continue
            try:
                status = os.fstat(descriptor)
            finally:
                os.close(descriptor)
            path = self._files.get((status.st_dev, status.st_ino))
            if path is not None and _descends(pid, self._engine):
                self._take(path, mask)


def _identities(root: Path, paths: frozenset[str]) -> Mapping[tuple[int, int], str]:
    found = {}
    for path in paths:
        try:
            status = (root / path).stat()
        except OSError:
            continue
        found[(status.st_dev, status.st_ino)] = path
    return found


def _descends(pid: int, ancestor: int) -> bool:
    """Whether a process is the ancestor, one of its descendants, or an orphan of its process group."""
    if pid == ancestor:
        return True
    if pid <= 0:
        return False
    try:
        if os.getpgid(pid) == ancestor:
            return True
    except OSError:
        return False
    for _ in range(_ANCESTORS):
        pid = _parent(pid)
        if pid == ancestor:
            return True
        if pid <= 1:
            return False
    return False


def _parent(pid: int) -> int:
    try:
        # The name in parentheses may hold anything, parentheses too.
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0
