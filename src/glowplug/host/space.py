"""How much may still be written to a directory: bytes and inodes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class Space:
    """What an ordinary user may still write, and how much there is in all. Inodes are None on file systems that do not count
    them.
    """

    bytes: int
    inodes: Optional[int]
    total_bytes: int = 0
    total_inodes: Optional[int] = None


def free(path: str) -> Space:
    """Space at a path; one that does not exist yet counts as its nearest existing parent. Raises OSError."""
    while not os.path.lexists(path) and os.path.dirname(path) not in ("", path):  # noqa: PTH120 - text, not the file system
        path = os.path.dirname(path)  # noqa: PTH120
    found = os.statvfs(path)
    counted = bool(found.f_files)
    return Space(
        found.f_bavail * found.f_frsize,
        found.f_favail if counted else None,
        found.f_blocks * found.f_frsize,
        found.f_files if counted else None,
    )
