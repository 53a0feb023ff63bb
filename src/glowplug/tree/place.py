"""Files of a verified tree into a live one.

The destination is a cache root that an engine, or a second restore, may be using at this moment. So each file appears whole
(moved, or copied under a temporary name and renamed), never as a hard link (a node's read-only copy would be written through
it), never through a symlink, with its mtime in nanoseconds. The caller's order is kept: what others need first, the files by
which an engine recognises an entry last; a process killed anywhere in between leaves files nobody looks at, not an entry that
lacks something.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from glowplug.core.atomic import TEMPORARY_PREFIX
from glowplug.tree import paths
from glowplug.tree.index import scan
from glowplug.tree.workspace import workspace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from glowplug.tree.model import File

_FICLONE: Final = 0x40049409
_CHUNK: Final = 1 << 20
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Placed:
    """`kept` were there with the same bytes, `conflicts` are there with other bytes and were left. `bytes` were written."""

    written: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    bytes: int = 0


def place(
    source: str | os.PathLike[str],
    files: Sequence[File],
    destination: str | os.PathLike[str],
    *,
    move: bool = False,
    replace: bool = False,
) -> Placed:
    """Put `files` (as they are below `source`) below `destination`, in the order given.

    With `move` they are renamed, which is for trees that are ours alone; across file systems they are copied all the same.
    With `replace`, files with other bytes are replaced, otherwise left and named. Raises OSError; NotADirectoryError or ELOOP
    where the destination has a link in the way. Nothing is flushed: see `sync`.
    """
    root = Path(destination)
    with contextlib.ExitStack() as stack:
        here = stack.enter_context(paths.Walker(source))
        there = stack.enter_context(paths.Walker(root))
        scratch = -1
        if not move:
            private = stack.enter_context(workspace(root))
            scratch = os.open(private, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            stack.callback(os.close, scratch)
        mover = _Mover(here, there, scratch, move=move)
        written: list[str] = []
        kept: list[str] = []
        conflicts: list[str] = []
        count = 0
        for item in files:
            present = _compare(there, item)
            if present == _SAME:
                kept.append(item.path)
            elif present == _OTHER and not replace:
                conflicts.append(item.path)
            else:
                mover.put(item)
                written.append(item.path)
                count += item.size
    return Placed(tuple(written), tuple(kept), tuple(conflicts), count)


def copy_tree(source: str | os.PathLike[str], destination: str | os.PathLike[str]) -> Placed:
    """Copy all regular files below `source` (reflink, else bytes) below `destination`, which is made where it is missing.

    Modes and mtimes stay; files there with other bytes are replaced. Raises OSError.
    """
    Path(destination).mkdir(mode=paths.DIRECTORY_MODE, parents=True, exist_ok=True)
    index = scan(source)
    return place(source, list(index.files.values()), destination, replace=True)


def sync(path: str | os.PathLike[str], seconds: float = float("inf")) -> bool:
    """Flush the file system that holds `path`, once for everything written; False where it takes longer than `seconds`.

    It goes on in the background then. One syncfs is cheaper than an fsync per file, and enough: what is not flushed when the
    machine stops is not trusted afterwards by anyone who checks digests.
    """
    worker = threading.Thread(target=_syncfs, args=(os.fspath(path),), daemon=True)
    worker.start()
    worker.join(None if seconds == float("inf") else seconds)
    return not worker.is_alive()


_ABSENT: Final = "absent"
_SAME: Final = "same"
_OTHER: Final = "other"


def _compare(there: paths.Walker, item: File) -> str:
    parent, name = there.parent(item.path, make=True)
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return _ABSENT
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.ELOOP, "not a regular file is in the way", item.path)
    if status.st_size != item.size:
        return _OTHER
    descriptor = os.open(name, _READ, dir_fd=parent)
    digest = hashlib.sha256()
    with os.fdopen(descriptor, "rb", buffering=0) as handle:
        while True:
            data = handle.read(_CHUNK)
            if not data:
                break
            digest.update(data)
    return _SAME if digest.hexdigest() == item.sha256 else _OTHER


class _Mover:
    """Renames or copies single files; remembers what the file systems cannot do."""

    def __init__(self, here: paths.Walker, there: paths.Walker, scratch: int, *, move: bool) -> None:
        self._here = here
        self._there = there
        self._scratch = scratch
        self._rename = move
        self._clone = True

    def put(self, item: File) -> None:
        source_parent, source_name = self._here.parent(item.path)
        parent, name = self._there.parent(item.path, make=True)
        if self._rename:
            try:
                os.rename(source_name, name, src_dir_fd=source_parent, dst_dir_fd=parent)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                self._rename = False
            else:
                return
        descriptor = os.open(source_name, _READ, dir_fd=source_parent)
        try:
            self._copy(descriptor, item, parent, name)
        finally:
            os.close(descriptor)

    def _copy(self, source: int, item: File, parent: int, name: str) -> None:
        """Copy under a temporary name and rename; in the workspace, or beside where that is on another file system."""
        for folder in [self._scratch, parent] if self._scratch >= 0 else [parent]:
            temporary = f"{TEMPORARY_PREFIX}{os.urandom(8).hex()}"
            target = os.open(temporary, _WRITE, 0o600, dir_fd=folder)
            try:
                self._bytes(source, target)
                os.fchmod(target, item.mode)
                os.utime(target, ns=(item.mtime_ns, item.mtime_ns))
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=parent)
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                if error.errno != errno.EXDEV or folder == parent:
                    raise
                self._scratch = -1
            else:
                return
            finally:
                os.close(target)

    def _bytes(self, source: int, target: int) -> None:
        if self._clone:
            try:
                fcntl.ioctl(target, _FICLONE, source)
            except OSError:
                self._clone = False
            else:
                return
        offset = 0
        while True:
            count = os.sendfile(target, source, offset, 1 << 30)
            if not count:
                return
            offset += count


def _syncfs(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        import ctypes  # in a pod nothing is flushed

        syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None:
            os.fsync(descriptor)
        else:
            syncfs(descriptor)
    finally:
        os.close(descriptor)
