"""Which of the given files were opened to be read: proof that an engine used a cache entry, also when it says nothing.

inotify's events are seen through bind mounts and mount namespaces, cost nothing while nothing happens, and need no
privilege. They say *opened*, not *used*: the verdict combines it with what changed. An engine that never looks and
writes the file anew opens it too, so an open counts when the file was read, closed without having been writable, or
not closed by a writer at all. inotify does not say who opened; where the kernel allows fanotify (CAP_SYS_ADMIN), only the
engine's own processes count. Our own reads would be seen too, so `stop()` is called before the tree is read again.
Linux has had inotify since 2.6.13; elsewhere, or where the limits on instances, watches or waiting events are reached,
`available` is False and the verdict does without.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import TYPE_CHECKING, Final, Optional

from glowplug.observe.fanotify import OpenersWatch, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_IN_ACCESS: Final = 0x1
_IN_CLOSE_WRITE: Final = 0x8
_IN_CLOSE_NOWRITE: Final = 0x10
_IN_OPEN: Final = 0x20
_IN_Q_OVERFLOW: Final = 0x4000
_READ: Final = _IN_ACCESS | _IN_CLOSE_NOWRITE
_IN_NONBLOCK: Final = 0x800
_IN_CLOEXEC: Final = 0x80000
_EVENT: Final = struct.Struct("iIII")


class OpenWatch:
    """Watches the directories that hold the given files, from construction until `stop`.

    `attributed`: only opens by the process given to `attach` and its descendants are reported.
    """

    def __init__(self, root: Path, paths: Iterable[str]) -> None:
        self.available = False
        self._openers: Optional[OpenersWatch] = None
        self._names: dict[int, str] = {}
        self._wanted = frozenset(paths)
        self._opened: set[str] = set()
        self._written: set[str] = set()
        self._read: set[str] = set()
        self._descriptor = -1
        if not self._wanted:
            return
        mask = _IN_OPEN | _IN_CLOSE_WRITE | _READ
        try:
            self._openers = OpenersWatch(root, self._wanted, mask, self._note)
        except (Unavailable, OSError):
            self._listen(root, mask)
        else:
            self.available = True

    @property
    def attributed(self) -> bool:
        """Whether it is known who opened."""
        return self._openers is not None

    def attach(self, pid: int) -> None:
        """The engine runs as this process. To be called at once after it was started."""
        if self._openers is not None:
            self._openers.attach(pid)

    def _listen(self, root: Path, mask: int) -> None:
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            self._descriptor = libc.inotify_init1(_IN_NONBLOCK | _IN_CLOEXEC)
        except (OSError, AttributeError):
            return
        if self._descriptor < 0:
            return
        folders = {path.rpartition("/")[0] for path in self._wanted}
        for folder in sorted(folders):
            watch = libc.inotify_add_watch(self._descriptor, os.fsencode(root / folder), mask)
            if watch >= 0:
                self._names[watch] = folder
        self.available = len(self._names) == len(folders)

    def opened(self) -> frozenset[str]:
        """The wanted paths opened for reading up to now."""
        while self._descriptor >= 0:
            try:
                data = os.read(self._descriptor, 1 << 16)
            except BlockingIOError:
                break
            self._take(data)
        if self._openers is not None and self._openers.overflowed:
            self.available = False
        return frozenset(self._read | (self._opened - self._written))

    def stop(self) -> frozenset[str]:
        """The wanted paths opened for reading up to now; nothing later is seen."""
        if self._openers is not None:
            self._openers.stop()
        result = self.opened()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        return result

    def _take(self, data: bytes) -> None:
        place = 0
        while place + _EVENT.size <= len(data):
            watch, mask, _cookie, length = _EVENT.unpack_from(data, place)
            name = data[place + _EVENT.size : place + _EVENT.size + length].rstrip(b"\0")
            place += _EVENT.size + length
            if mask & _IN_Q_OVERFLOW:
                self.available = False
            folder = self._names.get(watch)
            if folder is None or not name:
                continue
            path = f"{folder}/{os.fsdecode(name)}" if folder else os.fsdecode(name)
            self._note(path, mask)

    def _note(self, path: str, mask: int) -> None:
        if path not in self._wanted:
            return
        if mask & _IN_OPEN:
            self._opened.add(path)
        if mask & _READ:
            self._read.add(path)
        if mask & _IN_CLOSE_WRITE:
            self._written.add(path)
