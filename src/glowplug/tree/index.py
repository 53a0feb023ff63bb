"""A directory read into an `Index`, and two indexes compared.

The directory is alive: an engine may be writing into it, or another process may plant links in it. So the walk holds directory
descriptors and opens with O_NOFOLLOW, a file that vanishes is not listed, and one that changes while it is read is read again.
One that never holds still is listed as it was read last: the packer compares bytes with the index and refuses it then.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import stat
import time
from typing import TYPE_CHECKING, Final

from glowplug.core.atomic import TEMPORARY_PREFIX
from glowplug.core.errors import ConflictError
from glowplug.tree import paths
from glowplug.tree.model import EMPTY, Difference, File, Index, Stamp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Callable

_READINGS: Final = 3
_BUFFER_BYTES: Final = 1 << 20
_HIDDEN_WRITE_NS: Final = 2 * 10**9
"""Time stamps of some file systems are as coarse as this; a younger file could be written again without a trace."""


def scan(
    root: str | os.PathLike[str],
    *,
    select: Callable[[str], bool] | None = None,
    previous: Index | None = None,
    known: Mapping[str, File] = EMPTY.files,
) -> Index:
    """The regular files below `root` for which `select(path)` holds, with their digests.

    A digest of `previous` is reused where device, inode, size, mtime and ctime are unchanged; one of `known`, which are files that
    the caller has put there itself a moment ago, where size and mtime are. A root that does not exist gives
    an empty index. `skipped` (sorted) names selected paths that are links, devices and the like, unreadable, or that could not
    travel in an archive. Raises OSError where the root itself cannot be read.
    """
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return EMPTY
    walk = _Walk(select, previous or EMPTY, known)
    walk.directory(descriptor, "")
    return Index(dict(sorted(walk.files.items())), tuple(sorted(walk.skipped)), walk.stamps)


def read_again(root: str | os.PathLike[str], files: Sequence[File]) -> tuple[File, ...]:
    """The same files as they are now. Raises ConflictError (`tree-changing`) where one of them is gone."""
    wanted = {item.path for item in files}
    found = scan(root, select=wanted.__contains__).files
    gone = sorted(wanted - found.keys())
    if gone:
        raise ConflictError(f"{gone[0]} went away while it was packed", code="tree-changing")
    return tuple(found.values())


def diff(before: Index, after: Index) -> Difference:
    """What differs, by digest; `rewritten` are files with the same bytes and another mtime. Sorted."""
    common = sorted(before.files.keys() & after.files.keys())
    changed = [path for path in common if before.files[path].sha256 != after.files[path].sha256]
    rewritten = [
        path
        for path in common
        if before.files[path].sha256 == after.files[path].sha256
        and before.files[path].mtime_ns != after.files[path].mtime_ns
    ]
    return Difference(
        added=tuple(sorted(after.files.keys() - before.files.keys())),
        changed=tuple(changed),
        removed=tuple(sorted(before.files.keys() - after.files.keys())),
        rewritten=tuple(rewritten),
    )


class _Walk:
    def __init__(self, select: Callable[[str], bool] | None, previous: Index, known: Mapping[str, File]) -> None:
        self.files: dict[str, File] = {}
        self.stamps: dict[str, Stamp] = {}
        self.skipped: list[str] = []
        self._select = select
        self._previous = previous
        self._known = known
        self._buffer = bytearray(_BUFFER_BYTES)

    def directory(self, descriptor: int, prefix: str) -> None:
        """Walk one directory; takes the descriptor over."""
        folders: list[tuple[str, str]] = []
        try:
            with os.scandir(descriptor) as found:
                for item in found:
                    path = prefix + item.name
                    if item.is_dir(follow_symlinks=False):
                        if path != paths.OWN:
                            folders.append((item.name, path))
                    elif item.name.startswith(TEMPORARY_PREFIX):
                        continue
                    elif (self._select is None or self._select(path)) and not self._just_put(path, item):
                        self._leaf(item.name, path, descriptor, regular=item.is_file(follow_symlinks=False))
            for name, path in folders:
                self._folder(name, path, descriptor)
        finally:
            os.close(descriptor)

    def _folder(self, name: str, path: str, above: int) -> None:
        if path.count("/") >= paths.DEEPEST:
            self._skip(path)
            return
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        except FileNotFoundError:
            return
        except OSError:
            self._skip(path)
            return
        self.directory(descriptor, path + "/")

    def _just_put(self, path: str, item: os.DirEntry[str]) -> bool:
        """List a file that was put here a moment ago, without opening it; False where it is another one."""
        known = self._known.get(path)
        if known is None:
            return False
        try:
            status = item.stat(follow_symlinks=False)
        except OSError:
            return False
        if not stat.S_ISREG(status.st_mode) or (status.st_size, status.st_mtime_ns) != (known.size, known.mtime_ns):
            return False
        # Without a stamp: should it be written at once, the clock of the file system could hide that from the next scan.
        mode = stat.S_IMODE(status.st_mode)
        self.files[path] = known if mode == known.mode else dataclasses.replace(known, mode=mode)
        return True

    def _leaf(self, name: str, path: str, above: int, *, regular: bool) -> None:
        if not regular or paths.fault(path):
            self._skip(path)
            return
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=above)
        except FileNotFoundError:
            return
        except OSError:
            self._skip(path)
            return
        try:
            self._file(descriptor, path)
        except OSError:  # unreadable in the middle: an NFS handle gone stale, a bad block
            self._skip(path)
        finally:
            os.close(descriptor)

    def _file(self, descriptor: int, path: str) -> None:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            self._skip(path)
            return
        stamp = stamp_of(before)
        if self._previous.stamps.get(path) == stamp and path in self._previous.files:
            known = self._previous.files[path]
            self.files[path] = File(path, known.size, known.sha256, stat.S_IMODE(before.st_mode), known.mtime_ns)
            self.stamps[path] = stamp
            return
        for reading in range(1, _READINGS + 1):
            started_ns = time.time_ns()
            size, digest = self._read(descriptor)
            after = os.fstat(descriptor)
            still = stamp_of(after) == stamp and size == after.st_size
            if still or reading == _READINGS:
                break
            stamp = stamp_of(after)
        self.files[path] = File(path, size, digest, stat.S_IMODE(after.st_mode), after.st_mtime_ns)
        if still and max(stamp.mtime_ns, stamp.ctime_ns) < started_ns - _HIDDEN_WRITE_NS:
            self.stamps[path] = stamp

    def _read(self, descriptor: int) -> tuple[int, str]:
        digest = hashlib.sha256()
        view = memoryview(self._buffer)
        offset = 0
        while True:
            count = os.preadv(descriptor, [view], offset)
            if not count:
                return offset, digest.hexdigest()
            digest.update(view[:count])
            offset += count

    def _skip(self, path: str) -> None:
        self.skipped.append(path.encode("utf-8", "backslashreplace").decode("utf-8"))


def stamp_of(status: os.stat_result) -> Stamp:
    """The stamp in an answer of `stat`."""
    return Stamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
