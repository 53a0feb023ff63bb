"""A read-only tree copied into a fresh directory, each file compared with its digest as it is copied.

For what lies unpacked on a node already: a reflink where the file system has them, else bytes, never a hard link (the engine
would write through it). What is digested is the copy: that is what the engine will read, and its pages are in memory then.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
from typing import TYPE_CHECKING, Final

from glowplug.core.errors import AccessDeniedError, IntegrityError, NotFoundError, UnavailableError
from glowplug.tree import paths

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from glowplug.core.clock import Deadline
    from glowplug.core.errors import GlowplugError
    from glowplug.tree.model import File

_FICLONE: Final = 0x40049409
_CHUNK: Final = 1 << 20
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def duplicate(source: Path, files: Sequence[File], into: Path, deadline: Deadline) -> None:
    """Copy `files`, which lie below `source`, below `into`, a directory that this call makes; modes and mtimes are the table's.

    Raises NotFoundError (`blob-missing`) where the source lacks a file, IntegrityError where one is not what its digest says,
    AccessDeniedError and UnavailableError (`unavailable`, `timeout`) where the source cannot be read, OSError for faults of the
    destination. What is at `into` after an exception is to be thrown away.
    """
    into.mkdir(paths.DIRECTORY_MODE)
    try:
        here = paths.Walker(source)
    except OSError as error:
        raise _of_source(error, "the tree") from error
    with here, paths.Walker(into) as there:
        copying = _Copying(deadline)
        for item in sorted(files, key=lambda item: item.path):
            deadline.check("copying from the node")
            descriptor = _open(here, item)
            try:
                copying.file(descriptor, item, there)
            finally:
                os.close(descriptor)


def _open(walker: paths.Walker, item: File) -> int:
    try:
        parent, name = walker.parent(item.path)
        descriptor = os.open(name, _READ, dir_fd=parent)
    except OSError as error:
        raise _of_source(error, item.path) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size != item.size:
        os.close(descriptor)
        what = "as long as its table says" if stat.S_ISREG(status.st_mode) else "a regular file"
        raise IntegrityError(f"{item.path!r} is not {what}")
    return descriptor


def _of_source(error: OSError, path: str) -> GlowplugError:
    if error.errno == errno.ENOENT:
        return NotFoundError(f"{path!r} is not on this node any more", code="blob-missing")
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
        return IntegrityError(f"{path!r} is not a regular file")
    if error.errno in (errno.EACCES, errno.EPERM):
        return AccessDeniedError(f"{path!r} may not be read")
    return UnavailableError(f"{path!r} cannot be read: {error.strerror}")


class _Copying:
    """Single files; remembers whether the two file systems know reflinks."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._clone = True
        self._buffer = memoryview(bytearray(_CHUNK))

    def file(self, source: int, item: File, there: paths.Walker) -> None:
        parent, name = there.parent(item.path, make=True)
        target = os.open(name, _WRITE, 0o600, dir_fd=parent)
        try:
            digest = self._digest_of(target) if self._cloned(source, target) else self._copied(source, target, item)
            if digest != item.sha256:
                raise IntegrityError(f"{item.path!r} is not what its digest says")
            os.fchmod(target, item.mode)
            os.utime(target, ns=(item.mtime_ns, item.mtime_ns))
        finally:
            os.close(target)

    def _cloned(self, source: int, target: int) -> bool:
        if self._clone:
            try:
                fcntl.ioctl(target, _FICLONE, source)
            except OSError:
                self._clone = False
        return self._clone

    def _digest_of(self, descriptor: int) -> str:
        digest = hashlib.sha256()
        while True:
            count = os.readv(descriptor, [self._buffer])
            if not count:
                return digest.hexdigest()
            digest.update(self._buffer[:count])
            self._deadline.check("copying from the node")

    def _copied(self, source: int, target: int, item: File) -> str:
        digest = hashlib.sha256()
        left = item.size
        while left:
            try:
                count = os.readv(source, [self._buffer])
            except OSError as error:
                raise _of_source(error, item.path) from error
            if not count or count > left:
                raise IntegrityError(f"{item.path!r} is not as long as its table says")
            piece = self._buffer[:count]
            digest.update(piece)
            done = os.write(target, piece)
            while done < count:
                done += os.write(target, piece[done:])
            left -= count
            if left:
                self._deadline.check("copying from the node")
        return digest.hexdigest()
