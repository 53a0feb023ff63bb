"""How much may still be written to a directory: bytes and inodes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class Space:
    """What an ordinary user may still write. `inodes` is None on file systems that do not count them."""

    bytes: int
    inodes: Optional[int]


def free(path: str) -> Space:
    """Space at a path; one that does not exist yet counts as its nearest existing parent. Raises OSError."""
    while not os.path.lexists(path) and os.path.dirname(path) not in ("", path):  # noqa: PTH120 - text, not the file system
        path = os.path.dirname(path)  # noqa: PTH120
    found = os.statvfs(path)
    return Space(found.f_bavail * found.f_frsize, found.f_favail if found.f_files else None)
