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

from glowplug.cache import layout
from glowplug.core import atomic, canonical
from glowplug.core.documents import codec
from glowplug.core.errors import BadInputError
from glowplug.tree import paths
from glowplug.tree.model import File
from glowplug.tree.workspace import own_directory

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_FOLDER: Final = "parts"
_LARGEST: Final = 64 << 20


def write(cache_root: Path, sha256: str, files: Sequence[File]) -> None:
    """Note that all files of a part are in place. A note that cannot be written is not missed."""
    with contextlib.suppress(OSError):
        folder = own_directory(cache_root) / _FOLDER
        folder.mkdir(paths.DIRECTORY_MODE, exist_ok=True)
        if not folder.is_symlink():
            rows = [[item.path, item.size, item.sha256, item.mode, item.mtime_ns] for item in files]
            atomic.write_bytes(folder / f"{sha256}.json", canonical.encode(rows), durable=False)


def read(cache_root: Path, sha256: str) -> tuple[File, ...] | None:
    """The files of a part that was put in place, None where nothing is known of it."""
    path = cache_root / paths.OWN / _FOLDER / f"{sha256}.json"
    if not layout.is_digest(sha256):
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as handle:
            value = json.loads(handle.read(_LARGEST))
        names = ("path", "size", "sha256", "mode", "mtime_ns")
        files = tuple(codec.from_json(File, dict(zip(names, row, strict=True))) for row in value)
    except (OSError, ValueError, TypeError, RecursionError, BadInputError):
        return None
    return None if any(paths.fault(item.path) for item in files) else files


def all_there(cache_root: Path, files: Sequence[File]) -> bool:
    """Whether each of these is a regular file below the cache root, not reached through a link and not empty by accident."""
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
    return stat.S_ISREG(status.st_mode) and (status.st_size > 0 or item.size == 0)
