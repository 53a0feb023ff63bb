"""Which of the given files were opened: proof that an engine used a cache entry, also when it says nothing about it.

inotify's IN_OPEN is seen through bind mounts and mount namespaces, costs nothing while nothing happens, and needs no
privilege. It says *opened*, not *used*: the verdict combines it with what changed. Our own reads would be seen too, so
`stop()` is called before the tree is read again. Linux has had inotify since 2.6.13; elsewhere, or where the limits on
instances or watches are reached, `available` is False and the verdict does without.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_IN_OPEN: Final = 0x20
_IN_NONBLOCK: Final = 0x800
_IN_CLOEXEC: Final = 0x80000
_EVENT: Final = struct.Struct("iIII")


class OpenWatch:
    """Watches the directories that hold the given files, from construction until `stop`."""

    def __init__(self, root: Path, paths: Iterable[str]) -> None:
        self.available = False
        self._names: dict[int, str] = {}
        self._wanted = frozenset(paths)
        self._opened: set[str] = set()
        self._descriptor = -1
        if not self._wanted:
            return
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            self._descriptor = libc.inotify_init1(_IN_NONBLOCK | _IN_CLOEXEC)
        except (OSError, AttributeError):
            return
        if self._descriptor < 0:
            return
        folders = {path.rpartition("/")[0] for path in self._wanted}
        for folder in sorted(folders):
            watch = libc.inotify_add_watch(self._descriptor, os.fsencode(root / folder), _IN_OPEN)
            if watch >= 0:
                self._names[watch] = folder
        self.available = len(self._names) == len(folders)

    def opened(self) -> frozenset[str]:
        """The wanted paths opened up to now."""
        while self._descriptor >= 0:
            try:
                data = os.read(self._descriptor, 1 << 16)
            except BlockingIOError:
                break
            self._take(data)
        return frozenset(self._opened)

    def stop(self) -> frozenset[str]:
        """The wanted paths opened up to now; nothing later is seen."""
        result = self.opened()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        return result

    def _take(self, data: bytes) -> None:
        place = 0
        while place + _EVENT.size <= len(data):
            watch, _mask, _cookie, length = _EVENT.unpack_from(data, place)
            name = data[place + _EVENT.size : place + _EVENT.size + length].rstrip(b"\0")
            place += _EVENT.size + length
            folder = self._names.get(watch)
            if folder is None or not name:
                continue
            path = f"{folder}/{os.fsdecode(name)}" if folder else os.fsdecode(name)
            if path in self._wanted:
                self._opened.add(path)
