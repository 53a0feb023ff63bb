"""Parts on their way into a cache root: which of them are still to come, and how one that lies ready takes its place.

The same rules for what comes from a store and what comes from the node: a tree's own entry is never laid over, a part is there
only if all its files are, index files come last, and what was put in place is noted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from glowplug.tree import receipts
from glowplug.tree.place import Placed, place

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from glowplug.tree.model import File


class Part(Protocol):
    """What is asked of a part. `index`: the files by which the engine recognises the entry, () for support."""

    @property
    def sha256(self) -> str:
        """The digest of its blob, by which it is noted."""
        ...

    @property
    def index(self) -> tuple[str, ...]:
        """Paths."""
        ...


P = TypeVar("P", bound=Part)


def missing(cache_root: Path, parts: Sequence[P]) -> tuple[P, ...]:
    """Which of an entry's `parts` (the entry itself is the last) have to be brought.

    None where the tree has the entry, whether restored or of its own making.
    """
    entry = parts[-1]
    notes = {part.sha256: receipts.read(cache_root, part.sha256) for part in parts}
    if notes[entry.sha256] is None and receipts.any_there(cache_root, entry.index):
        return ()
    return tuple(part for part in parts if not _in_place(cache_root, notes[part.sha256]))


def put(source: Path, part: Part, files: Sequence[File], cache_root: Path, *, replace: bool) -> Placed:
    """Move the files of a part, which lie verified at `source`, into the tree, its index files last. Raises OSError."""
    index = frozenset(part.index)
    ordered = sorted(files, key=lambda item: item.path in index)
    placed = place(source, ordered, cache_root, move=True, replace=replace)
    receipts.write(cache_root, part.sha256, part.index, files)
    return placed


def _in_place(cache_root: Path, files: tuple[File, ...] | None) -> bool:
    return files is not None and receipts.all_there(cache_root, files)
