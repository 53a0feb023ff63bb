"""Which files a process opens below a directory, by inotify: proof of use that no log line can give or withhold.

A recording tool of the laboratory, by ctypes since the standard library has no inotify. It sees opens through bind
mounts and mount namespaces because inotify watches inodes. Directories made while it runs are added when their making
is reported, so opens in the first milliseconds of a new directory can be missed; on a cache hit no directory is new.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import threading
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Self

_IN_OPEN = 0x20
_IN_CREATE = 0x100
_IN_MOVED_TO = 0x80
_IN_ISDIR = 0x40000000
_IN_Q_OVERFLOW = 0x4000
_EVENT = struct.Struct("iIII")

_libc = ctypes.CDLL(None, use_errno=True)


class Opens:
    """A context manager; afterwards `counts` says how often each file below `root` was opened (paths relative)."""

    def __init__(self, root: Path) -> None:
        self.counts: Counter[str] = Counter()
        self.overflowed = False
        self._root = root
        self._paths: dict[int, Path] = {}
        self._stop_read, self._stop_write = os.pipe()
        self._descriptor: int = _libc.inotify_init1(os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._thread = threading.Thread(target=self._loop, daemon=True)

    def __enter__(self) -> Self:
        self._add(self._root)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.write(self._stop_write, b".")
        self._thread.join()
        for descriptor in (self._descriptor, self._stop_read, self._stop_write):
            os.close(descriptor)

    def _add(self, directory: Path) -> None:
        mask = _IN_OPEN | _IN_CREATE | _IN_MOVED_TO
        watch = _libc.inotify_add_watch(self._descriptor, os.fsencode(directory), mask)
        if watch < 0:
            return
        self._paths[watch] = directory
        try:
            children = [entry.path for entry in os.scandir(directory) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return
        for child in children:
            self._add(Path(child))

    def _loop(self) -> None:
        while True:
            ready, _, _ = select.select([self._descriptor, self._stop_read], [], [])
            if self._descriptor in ready:
                self._read(os.read(self._descriptor, 1 << 16))
            elif self._stop_read in ready:
                return

    def _read(self, events: bytes) -> None:
        offset = 0
        while offset < len(events):
            watch, mask, _, length = _EVENT.unpack_from(events, offset)
            offset += _EVENT.size
            name = events[offset : offset + length].rstrip(b"\0").decode(errors="surrogateescape")
            offset += length
            if mask & _IN_Q_OVERFLOW:
                self.overflowed = True
                continue
            directory = self._paths.get(watch)
            if directory is None or not name:
                continue
            if mask & _IN_ISDIR:
                if mask & (_IN_CREATE | _IN_MOVED_TO):
                    self._add(directory / name)
            elif mask & _IN_OPEN:
                self.counts[str((directory / name).relative_to(self._root))] += 1
