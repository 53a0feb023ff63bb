"""`file://`: a store in a directory, safe for many processes of one machine.

obstore's own local back end creates exclusively but cannot replace conditionally, hence this one. An object is a file;
it is written beside and renamed, so readers need no lock. Everything that changes a name holds an flock on one of 256
lock files, chosen by the path's digest: compare-and-swap is "lock, compare, rename". The kernel releases the lock of a
process that dies, whenever it dies; lock files stay, since removing one would let two processes hold "the" lock on two
inodes. On NFS an flock also works between machines where the server supports it; that is not tried here.

A version is the SHA-256 of the content for objects up to 1 MiB (manifests), so that it survives a copy of the
directory. For larger ones (blobs, never replaced) it names the inode, its time in nanoseconds and its size, since
reading gigabytes for a listing would be absurd: an object is never changed in place, so equal tokens still mean equal
content.

The directory itself is made at the first write if its parent is there; a missing parent is an error (`no-bucket`),
because it is usually a mount that is not mounted.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
from typing import TYPE_CHECKING, Final, TypeVar

from glowplug.core import atomic, bounded
from glowplug.core.errors import (
    AccessDeniedError,
    BadInputError,
    ConflictError,
    GlowplugError,
    IntegrityError,
    NotFoundError,
    UnavailableError,
)
from glowplug.store import paths
from glowplug.store.contract import Meta, Object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from glowplug.core.clock import Deadline

T = TypeVar("T")

LOCKS: Final = f"{paths.RESERVED}locks"
"""The directory of the lock files below a store's root."""

_HASHED_BYTES: Final = 1 << 20
_FIRST_POLL: Final = 0.001  # seconds between two tries for a lock, doubling
_LAST_POLL: Final = 0.02
_COPY_BYTES: Final = 1 << 20
# Nothing of that name, or something that is no file: a directory, a link (O_NOFOLLOW), a socket.
_NO_ENTRY: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO})
_DENIED: Final = frozenset({errno.EACCES, errno.EPERM})
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class DirectoryStore:
    """Objects as files below `root`, an absolute path. See the module's text."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def url(self) -> str:
        """`file:///…`."""
        return self._root.as_uri()

    def get(self, path: str, deadline: Deadline, *, max_bytes: int = 1 << 20) -> Object:
        """Read whole, from one inode."""
        place = self._place(path)

        def work() -> Object:
            with self._open(place, path) as descriptor:
                status = os.fstat(descriptor)
                if status.st_size > max_bytes:
                    raise IntegrityError(
                        f"{path} has {status.st_size} bytes, more than the {max_bytes} allowed", code="archive-limit"
                    )
                data = b"".join(_read(descriptor, status.st_size, path, _COPY_BYTES))
            return Object(data, Meta(path, len(data), status.st_mtime, _version(status, data)))

        return self._call(work, deadline, f"reading {path}")

    def get_range(self, path: str, start: int, length: int, deadline: Deadline) -> bytes:
        """Read from one inode."""
        place = self._place(path)
        paths.check_range(start, length)

        def work() -> bytes:
            with self._open(place, path) as descriptor:
                size = os.fstat(descriptor).st_size
                os.lseek(descriptor, min(start, size), os.SEEK_SET)
                return b"".join(_read(descriptor, max(0, min(length, size - start)), path, _COPY_BYTES))

        return self._call(work, deadline, f"reading {path}")

    def stream(self, path: str, deadline: Deadline, *, chunk_bytes: int = 1 << 20) -> Iterator[bytes]:
        """Read in order, from one inode."""
        place = self._place(path)
        doing = f"reading {path}"

        def produce() -> Iterator[bytes]:
            with self._translated(doing), self._open(place, path) as descriptor:
                yield from _read(descriptor, os.fstat(descriptor).st_size, path, chunk_bytes)

        return bounded.iterate(produce, deadline, doing)

    def head(self, path: str, deadline: Deadline) -> Meta | None:
        """Of the file, None where there is none."""
        place = self._place(path)

        def work() -> Meta | None:
            self._check_parent()
            return _meta(place, path)

        return self._call(work, deadline, f"looking at {path}")

    def list(self, prefix: str, deadline: Deadline) -> Iterator[Meta]:
        """Every file below the directory `prefix`; what is removed meanwhile is left out."""
        bare = paths.check_prefix(prefix)
        doing = f"listing {bare or self.url}"

        def produce() -> Iterator[Meta]:
            with self._translated(doing):
                self._check_parent()
                for path in _walk(self._root / bare, bare):
                    meta = _meta(self._root / path, path)
                    if meta is not None:
                        yield meta

        return bounded.iterate(produce, deadline, doing, ahead=1000)

    def put(self, path: str, source: bytes | Path, deadline: Deadline) -> None:
        """Replace whatever is there."""

        def anything(_: Path) -> None:
            return

        self._write(path, source, deadline, anything)

    def put_new(self, path: str, data: bytes, deadline: Deadline) -> str:
        """Under the lock: only where no file is."""

        def absent(place: Path) -> None:
            if os.path.lexists(place):
                raise ConflictError(f"{path} exists already")

        return self._write(path, data, deadline, absent)

    def put_if(self, path: str, data: bytes, version: str, deadline: Deadline) -> str:
        """Under the lock: only where the file's version is `version`."""

        def unchanged(place: Path) -> None:
            meta = _meta(place, path)
            if meta is None or meta.version != version:
                raise ConflictError(f"{path} was changed by somebody else")

        return self._write(path, data, deadline, unchanged)

    def delete(self, path: str, deadline: Deadline) -> None:
        """Remove the file; directories stay."""
        place = self._place(path)

        def work() -> None:
            self._check_parent()
            if os.path.lexists(place):
                with self._lock(path, deadline):
                    place.unlink(missing_ok=True)

        self._call(work, deadline, f"removing {path}", writing=True)

    def _write(self, path: str, source: bytes | Path, deadline: Deadline, allowed: Callable[[Path], None]) -> str:
        """Write beside, then lock, ask `allowed`, rename. Returns the version."""
        place = self._place(path)
        doing = f"writing {path}"

        def work() -> str:
            with _source_errors(source):
                pieces = iter([source]) if isinstance(source, bytes) else _pieces(source)
                first = next(pieces, b"")
            self._make_root()
            place.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.ExitStack() as held:
                with atomic.replacing(place) as handle:
                    handle.write(first)
                    for piece in pieces:
                        deadline.check(doing)
                        handle.write(piece)
                    handle.flush()
                    os.fsync(handle.fileno())  # not under the lock: it can take long
                    held.enter_context(self._lock(path, deadline))
                    allowed(place)
                    status = os.fstat(handle.fileno())
                return _version(status, source) if isinstance(source, bytes) else ""

        return self._call(work, deadline, doing, writing=True)

    def _place(self, path: str) -> Path:
        return self._root / paths.check(path)

    def _check_parent(self) -> None:
        if not self._root.is_dir() and not self._root.parent.is_dir():
            raise AccessDeniedError(
                f"{self.url}: {self._root.parent} does not exist",
                code="no-bucket",
                hint="mount or make the directory that is to hold the store",
            )

    def _make_root(self) -> None:
        self._check_parent()
        self._root.mkdir(exist_ok=True)

    @contextlib.contextmanager
    def _open(self, place: Path, path: str) -> Iterator[int]:
        self._check_parent()
        descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise NotFoundError(f"{path} is not in {self.url}")
            yield descriptor
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _lock(self, path: str, deadline: Deadline) -> Iterator[None]:
        locks = self._root / LOCKS
        locks.mkdir(exist_ok=True)
        name = hashlib.sha256(path.encode()).hexdigest()[:2]
        descriptor = os.open(locks / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            poll = _FIRST_POLL
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    deadline.check(f"waiting for the lock of {path}")
                    deadline.clock.sleep(poll)
                    poll = min(poll * 2, _LAST_POLL)
            deadline.check(f"waiting for the lock of {path}")
            yield
        finally:
            os.close(descriptor)

    def _call(self, work: Callable[[], T], deadline: Deadline, doing: str, *, writing: bool = False) -> T:
        def translated() -> T:
            with self._translated(doing, writing=writing):
                return work()

        return bounded.call(translated, deadline, doing)

    @contextlib.contextmanager
    def _translated(self, doing: str, *, writing: bool = False) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._fault(error, doing, writing=writing) from error

    def _fault(self, error: OSError, doing: str, *, writing: bool) -> GlowplugError:
        what = f"{doing} in {self.url}: {error.strerror or error}"
        if error.errno in _NO_ENTRY and not writing:
            return NotFoundError(what)
        if error.errno == errno.EROFS:
            return AccessDeniedError(
                what, code="read-only-store", hint="use a directory on a file system that can be written"
            )
        if error.errno in _DENIED:
            hint = "give this user write access to the directory" if writing else "give this user read access"
            return AccessDeniedError(what, code="read-only-store" if writing else "access-denied", hint=hint)
        if error.errno in _FULL:
            return UnavailableError(what, code="no-space")
        return UnavailableError(what)


def _version(status: os.stat_result, data: bytes) -> str:
    if status.st_size <= _HASHED_BYTES:
        return f"sha256-{hashlib.sha256(data).hexdigest()}"
    return f"file-{status.st_ino}-{status.st_mtime_ns}-{status.st_size}"


def _meta(place: Path, path: str) -> Meta | None:
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in _NO_ENTRY:
            return None
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        small = status.st_size <= _HASHED_BYTES
        data = b"".join(_read(descriptor, status.st_size, path, _COPY_BYTES)) if small else b""
    finally:
        os.close(descriptor)
    return Meta(path, status.st_size, status.st_mtime, _version(status, data))


def _read(descriptor: int, size: int, path: str, chunk_bytes: int) -> Iterator[bytes]:
    left = size
    while left:
        piece = os.read(descriptor, min(left, chunk_bytes))
        if not piece:
            raise IntegrityError(f"{path} is shorter than the {size} bytes that it should have")
        left -= len(piece)
        yield piece


def _walk(directory: Path, relative: str) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError as error:
        if error.errno in _NO_ENTRY:
            return
        raise
    for entry in entries:
        if entry.name.startswith(paths.RESERVED):
            continue
        path = f"{relative}/{entry.name}" if relative else entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(directory / entry.name, path)
        elif entry.is_file(follow_symlinks=False):
            yield path


def _pieces(source: Path) -> Iterator[bytes]:
    with source.open("rb") as handle:
        while piece := handle.read(_COPY_BYTES):
            yield piece


@contextlib.contextmanager
def _source_errors(source: bytes | Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadInputError(f"cannot read {source!s}: {error.strerror or error}") from error
