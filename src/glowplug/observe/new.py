"""What a start left in the cache root that belongs to it, in parts: its entries, and the support that they need.

A tree may hold entries of other workloads too (several engines of one machine share a cache root). A start's own entries are
those that it made and those that it provably used. Support is content-addressed and shared; what an entry needs of it cannot
be told apart, so all of it that may travel goes with each entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from glowplug.engines.adapter import Reach

if TYPE_CHECKING:
    from typing import Optional

    from glowplug.engines.adapter import Adapter, Entry, Launch, Trace
    from glowplug.tree.model import Difference, Index


@dataclass(frozen=True)
class Tree:
    """A cache root seen through an adapter: index, entries, and the paths of the support that may travel."""

    index: Index
    entries: tuple[Entry, ...]
    support: tuple[str, ...]


def look(index: Index, adapter: Adapter, launch: Launch) -> Tree:
    """Sort the files of an index into entries and support. Temporary, node-local and unlisted files are neither."""
    entries = adapter.entries(index, launch)
    taken = {path for entry in entries for path in entry.files}
    support = tuple(
        path
        for path in sorted(index.files)
        if path not in taken and adapter.reach(path) is Reach.PORTABLE and not adapter.is_temporary(path)
    )
    return Tree(index, entries, support)


def own_entries(before: Tree, after: Tree, trace: Trace, opened: Optional[frozenset[str]]) -> tuple[Entry, ...]:
    """The entries that this start made or provably used, whole ones and others, in the order of the adapter."""
    known = {entry.name for entry in before.entries}
    return tuple(entry for entry in after.entries if entry.name not in known or _used(entry, trace, opened))


def support_of(entry: Entry, tree: Tree) -> tuple[str, ...]:
    """The support that goes with an entry: the shared kind, and what the engine keeps in this entry's own directory."""
    others = [f"/{other.name}/" for other in tree.entries if other.name != entry.name]
    return tuple(path for path in tree.support if not any(other in f"/{path}" for other in others))


def support_added(before: Tree, difference: Difference, after: Tree) -> tuple[str, ...]:
    """Support files that were not there before the start."""
    return tuple(path for path in after.support if path not in before.index.files or path in difference.changed)


def _used(entry: Entry, trace: Trace, opened: Optional[frozenset[str]]) -> bool:
    if opened and not opened.isdisjoint(entry.index_files):
        return True
    return any(f"/{entry.name}/" in f"{line}/" for line in (*trace.loaded, *trace.saved))
