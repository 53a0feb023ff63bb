"""From the entries of a tree to the parts that are handed to `publish`: each whole entry, and the support that goes with it.

The one place that decides this, for a start that publishes what it made and for a person who publishes a directory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.cache.bundle import NewPart
from glowplug.cache.format import ENTRY, SUPPORT
from glowplug.observe.new import support_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from glowplug.engines.adapter import Entry
    from glowplug.observe.new import Tree


def of_entries(
    entries: Iterable[Entry], tree: Tree, root: Path, observed: Mapping[str, int] | None = None
) -> list[NewPart]:
    """The parts of those `entries` of `tree` (which lies at `root`) that are whole. `observed` as in `format.Part`."""
    said = dict(observed or {})
    parts: list[NewPart] = []
    for entry in entries:
        if entry.incomplete:
            continue
        support = support_of(entry, tree)
        parts.append(_part(ENTRY, entry.name, entry.files, tree, root, said, index=entry.index_files))
        if support:
            parts.append(_part(SUPPORT, f"{entry.name}/support", support, tree, root, said, of=entry.name))
    return parts


def _part(
    kind: str,
    name: str,
    paths: tuple[str, ...],
    tree: Tree,
    root: Path,
    observed: Mapping[str, int],
    *,
    of: str = "",
    index: tuple[str, ...] = (),
) -> NewPart:
    files = tuple(tree.index.files[path] for path in sorted(paths))
    return NewPart(kind, name, root, files, of=of, index=index, observed=observed)
