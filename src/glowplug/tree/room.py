"""Whether a disk has room for files before the first of them is written: bytes, and inodes where they are counted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from glowplug.core.errors import UnavailableError

if TYPE_CHECKING:
    from pathlib import Path

_BLOCK: Final = 4096
_FOLDERS: Final = 8


def check(folder: Path, size: int, files: int) -> None:
    """Raise UnavailableError (`no-space`) where `files` files of `size` bytes together would not fit below `folder`."""
    status = os.statvfs(folder)
    needed = size + (files + _FOLDERS) * _BLOCK
    inodes = files + _FOLDERS
    if status.f_bavail * status.f_frsize < needed or (status.f_files and status.f_favail < inodes):
        raise UnavailableError(
            f"{needed} bytes and {inodes} inodes are not free below {folder.parent}", code="no-space"
        )
