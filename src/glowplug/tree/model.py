"""The words of this package: a file, an index of a directory, what differs between two, the limits of an archive."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class File:
    """A regular file of a tree. `path` is relative, with `/`; `mtime_ns` is part of the artifact (ninja relies on it)."""

    path: str
    size: int
    sha256: str
    mode: int
    mtime_ns: int


@dataclass(frozen=True)
class Stamp:
    """What the file system says of a file's content: while all of it is unchanged, a digest taken before still holds."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


@dataclass(frozen=True)
class Index:
    """The regular files of a directory at a moment, by path. `skipped` names what is neither file nor directory, or unreadable.

    `stamps` lets a later scan reuse digests; it has no row for a file that was written so shortly before the scan that the
    clock of the file system could hide another write.
    """

    files: Mapping[str, File]
    skipped: tuple[str, ...] = ()
    stamps: Mapping[str, Stamp] = field(default_factory=dict, compare=False, repr=False)

    @property
    def bytes(self) -> int:
        """Sum of the sizes."""
        return sum(item.size for item in self.files.values())


EMPTY = Index({})


@dataclass(frozen=True)
class Difference:
    """From one index to a later one. `rewritten`: same bytes, other mtime (a true hit of an engine does that)."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


@dataclass(frozen=True)
class Limits:
    """What an archive may hold at most; beyond it is refused before it is written. Defaults as in docs/format.md."""

    unpacked_bytes: int = 8 * 2**30
    files: int = 200_000
    path_bytes: int = 1024
    ratio: int = 200
    table_bytes: int = field(default=64 * 2**20)


DEFAULT_LIMITS = Limits()
