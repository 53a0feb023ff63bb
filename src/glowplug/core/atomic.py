"""Files that are either whole or absent.

A file under its final name is complete, whatever happens: it is written beside, flushed, and renamed. The temporary name holds
random digits, not the process id: in two pods that share a directory process ids are equal.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

TEMPORARY_PREFIX = ".glowplug-tmp-"


def write_bytes(path: Path, data: bytes, *, mode: int = 0o644, durable: bool = True) -> None:
    """Replace `path` by `data` in one step. Raises OSError with the name `path`; nothing is left under a temporary name."""
    try:
        with replacing(path, mode=mode, durable=durable) as handle:
            handle.write(data)
    except OSError as error:
        error.filename = str(path)  # a disk that is full names nothing, the rest names the temporary file
        raise


@contextlib.contextmanager
def replacing(path: Path, *, mode: int = 0o644, durable: bool = True) -> Iterator[BinaryIO]:
    """A file to write to that takes the place of `path` when the block ends without an exception."""
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{os.urandom(8).hex()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            yield handle
            handle.flush()
            if durable:
                os.fsync(handle.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if durable:
        sync_directory(path.parent)


class ChangedError(Exception):
    """Somebody else has written the file since it was read."""


def rewrite(path: Path, data: bytes, *, before: bytes | None = None) -> None:
    """Other bytes for a file that a person keeps: a symbolic link stays one, and what it leads to is replaced in one step. The mode
    stays, and so do owner and group where this user may give files away. Further names of the file (hard links) keep the old
    bytes. Editors do not wait for the disk, and neither does this.

    `before`: what the new bytes were made of. Raises ChangedError where that is no longer what the file holds, OSError with the
    name `path`, also for what is no regular file.
    """
    try:
        target = path.resolve(strict=True)
        old = target.stat()
        if not stat.S_ISREG(old.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        with replacing(target, mode=stat.S_IMODE(old.st_mode), durable=False) as handle:
            # The owner first, since giving a file away takes bits of its mode, which the process's mask may have taken too.
            with contextlib.suppress(OSError):
                os.fchown(handle.fileno(), old.st_uid, old.st_gid)
            os.fchmod(handle.fileno(), stat.S_IMODE(old.st_mode))
            handle.write(data)
            # Last of all, since making the new bytes takes longer than a person takes to save the file.
            if before is not None and not _holds(target, before):
                raise ChangedError(str(path))
    except OSError as error:
        error.filename = str(path)
        raise


def _holds(path: Path, data: bytes) -> bool:
    with path.open("rb") as handle:
        return handle.read(len(data) + 1) == data


def sync_directory(path: Path) -> None:
    """Make a rename inside `path` survive a crash, where the file system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
