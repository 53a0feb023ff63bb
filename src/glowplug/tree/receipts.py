"""Which parts lie in a cache root already: a note for each part that was put in place.

Below `<cache root>/.glowplug/parts/`, one file a part with the table of its files. A container that is restarted in its pod keeps
its tree, and must neither fetch it again nor lay a store's entry over one that it compiled itself. A note is a hint, so it is
compared with the files, and a missing or damaged one only costs a fetch.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from typing import TYPE_CHECKING, Final

from glowplug.core import atomic, canonical
from glowplug.tree import paths
from glowplug.tree.model import File
from glowplug.tree.workspace import own_directory

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_FOLDER: Final = "parts"
_LARGEST: Final = 64 << 20
_TYPES: Final = [str, int, str, int, int]
"""Of a row: path, size, sha256, mode, mtime_ns. By hand, since three hundred files are read before an engine starts."""


def write(cache_root: Path, sha256: str, index: Sequence[str], files: Sequence[File]) -> None:
    """Note that all files of a part are in place. A note that cannot be written is not missed."""
    with contextlib.suppress(OSError):
        folder = own_directory(cache_root) / _FOLDER
        folder.mkdir(paths.DIRECTORY_MODE, exist_ok=True)
        if not folder.is_symlink():
            rows = [[item.path, item.size, item.sha256, item.mode, item.mtime_ns] for item in files]
            data = canonical.encode({"index": list(index), "files": rows})
            atomic.write_bytes(folder / f"{sha256}.json", data, durable=False)


def read(cache_root: Path, sha256: str) -> tuple[File, ...] | None:
    """The files of a part that was put in place, its index files first; None where nothing is known of it."""
    if not canonical.is_digest(sha256):
        return None
    path = cache_root / paths.OWN / _FOLDER / f"{sha256}.json"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as handle:
            value = json.loads(handle.read(_LARGEST))
        index = frozenset(value["index"])
        rows = value["files"]
        if any([type(field) for field in row] != _TYPES for row in rows):
            return None
        files = [File(*row) for row in rows]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    if any(paths.fault(item.path) for item in files):
        return None
    return tuple(sorted(files, key=lambda item: item.path not in index))


def in_tree(cache_root: Path) -> frozenset[str]:
    """Digests of all parts that were put in place here."""
    with contextlib.suppress(OSError):
        names = [note.name.removesuffix(".json") for note in (cache_root / paths.OWN / _FOLDER).iterdir()]
        return frozenset(name for name in names if canonical.is_digest(name))
    return frozenset()


def set_aside(cache_root: Path, digests: frozenset[str]) -> frozenset[str]:
    """Take parts out of the tree again: their files, except those that other parts here hold too; returns what was taken.

    For parts under suspicion: a start without them is evidence only if its tree lacks them. Index files go first, so that an
    entry is never there without what it needs. Raises OSError.
    """
    here = in_tree(cache_root)
    taken = {digest: read(cache_root, digest) or () for digest in sorted(here & digests)}
    if not taken:
        return frozenset()
    others = {item.path for digest in here - digests for item in read(cache_root, digest) or ()}
    ranked = sorted(((rank, item.path) for files in taken.values() for rank, item in enumerate(files)))
    with paths.Walker(cache_root) as walker:
        for _, path in ranked:
            if path not in others:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    parent, name = walker.parent(path)
                    os.unlink(name, dir_fd=parent)
    for digest in taken:
        (cache_root / paths.OWN / _FOLDER / f"{digest}.json").unlink(missing_ok=True)
    return frozenset(taken)


def all_there(cache_root: Path, files: Sequence[File]) -> bool:
    """Whether each of these is a regular file below the cache root, not reached through a link and not torn.

    An engine may write its files anew. But one of another length with the very mtime that it was put here with was touched by
    nobody: the machine stopped before its bytes were on the disk.
    """
    try:
        with paths.Walker(cache_root) as walker:
            return all(_is_there(walker, item) for item in files)
    except OSError:
        return False


def any_there(cache_root: Path, names: Sequence[str]) -> bool:
    """Whether anything lies at one of these paths below the cache root."""
    return any(os.path.lexists(cache_root / name) for name in names if not paths.fault(name))


def _is_there(walker: paths.Walker, item: File) -> bool:
    parent, name = walker.parent(item.path)
    status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    torn = status.st_size != item.size and (status.st_size == 0 or status.st_mtime_ns == item.mtime_ns)
    return stat.S_ISREG(status.st_mode) and not torn
