"""Compile output outside the cache root: what was not there before a start and is there after it.

Some artifacts escape the variables that place caches (docs/concepts.md). The adapters name the directories where they go;
here these are looked at by name, size and time only, and only so far: it is evidence for the verdict, not a copy.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST: Final = 20_000
_IGNORED: Final = (".lock", ".tmp")


class Outside:
    """Remembers the state of the given directories at construction."""

    def __init__(self, directories: Sequence[str]) -> None:
        self._directories = tuple(directories)
        self._before = self._stamps()

    def appeared(self) -> tuple[str, ...]:
        """Absolute paths of files that are new or other than before, sorted. Locks and temporary files do not count."""
        return tuple(sorted(path for path, stamp in self._stamps().items() if self._before.get(path) != stamp))

    def _stamps(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        waiting = [directory for directory in self._directories if directory.startswith("/")]
        while waiting and len(found) < _MOST:
            folder = waiting.pop()
            try:
                with os.scandir(folder) as items:
                    for item in items:
                        if item.is_dir(follow_symlinks=False):
                            waiting.append(item.path)
                        elif item.is_file(follow_symlinks=False) and not item.name.endswith(_IGNORED):
                            status = item.stat(follow_symlinks=False)
                            found[item.path] = (status.st_size, status.st_mtime_ns)
            except OSError:
                continue
        return found
