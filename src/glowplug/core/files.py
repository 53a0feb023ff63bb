"""Small files that somebody else may have put there: read in bounded time and size, or not at all.

A path that we did not make can be a pipe that never answers, a device without an end, or a link that leads elsewhere. What is
not a regular file is refused with OSError before a byte of it is read.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def read_small(path: Path, most: int, *, follow: bool = True) -> bytes:
    """The bytes of a regular file of `most` bytes at the most. Raises OSError (EFBIG for a larger one, EINVAL for no file)."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    with os.fdopen(descriptor, "rb") as handle:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        data = handle.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"larger than {most} bytes", str(path))
    return data
