"""Kustomizations among files: they change others, which nothing here carries out, and their patches are only parts of objects.

So both are left out, and whoever reads the answer is told where the objects are as the cluster gets them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from glowplug.core.errors import BadInputError
from glowplug.manifests import values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from glowplug.manifests.source import Source
    from glowplug.manifests.values import Value

NAMES: Final = frozenset(("kustomization.yaml", "kustomization.yml", "Kustomization"))
_LISTS: Final = ("resources", "bases")
# With these alone the objects of its files are those that the cluster gets.
_PLAIN: Final = frozenset(("apiVersion", "kind", "metadata", *_LISTS))


def left_out(files: Sequence[tuple[Path, Source]]) -> tuple[set[Path], list[str]]:
    """Of these files, those that are kustomizations or patches of one, and what to tell."""
    out: set[Path] = set()
    notes = []
    there = {os.path.realpath(path) for path, _ in files}
    for path, source in files:
        document = _document(source) if path.name in NAMES else None
        if document is None:
            continue
        out.add(path)
        patches = {os.path.realpath(path.parent / name) for name in _patches(document)}
        out |= {other for other, _ in files if os.path.realpath(other) in patches}
        changes = {name for name, _ in document.items()} - _PLAIN
        if changes or not all(_is_among(path.parent / name, there) for name in _named(document, _LISTS)):
            notes.append(
                f"{path}: left out with its patches; what it says of other files is not seen in them: take what "
                f"`kustomize build {path.parent}` prints, through -"
            )
    return out, notes


def _document(source: Source) -> Value | None:
    try:
        documents = values.load(source)
    except BadInputError:
        return None  # told by whoever reads it next
    return documents[0] if len(documents) == 1 and documents[0].is_mapping else None


def _patches(document: Value) -> Iterator[str]:
    yield from _named(document, ("patchesStrategicMerge",))
    for name in ("patches", "patchesJson6902"):
        listed = document.get(name)
        for one in listed.elements() if listed is not None else ():
            path = one.get("path")
            if path is not None and path.text:
                yield path.text


def _named(document: Value, names: Iterable[str]) -> Iterator[str]:
    """File names of a list; a patch may stand in it itself, on several lines."""
    for name in names:
        listed = document.get(name)
        for one in listed.elements() if listed is not None else ():
            if one.text and "\n" not in one.text and "\0" not in one.text:
                yield one.text


def _is_among(path: Path, there: set[str]) -> bool:
    """Whether a file, or the kustomization of a directory, is among those that were read."""
    return any(os.path.realpath(one) in there for one in (path, *(path / name for name in NAMES)))
