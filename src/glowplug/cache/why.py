"""Differences as data: why a start does not find what is there, and how two keys differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from glowplug.cache.lookup import Found, keys, look_up, nearest_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from glowplug.cache.format import Manifest, Part
    from glowplug.core.clock import Deadline
    from glowplug.core.documents.fingerprint import Key
    from glowplug.store.contract import Store


@dataclass(frozen=True)
class FieldDifference:
    """A field (as in `Key.flat`) and its two values, None where one side does not have it."""

    field: str
    mine: str | None
    theirs: str | None


@dataclass(frozen=True)
class Neighbour:
    """A key of the same domain and what keeps it from fitting."""

    key_digest: str
    differences: tuple[FieldDifference, ...]


@dataclass(frozen=True)
class Why:
    """`found`: the store offers something for exactly this key. Otherwise `reason` is the one of a start."""

    found: bool
    reason: str
    neighbours: tuple[Neighbour, ...] = ()


@dataclass(frozen=True)
class PartDifference:
    """A part that only one of two keys has, or that differs. `what`: added, removed or changed, from the first to the second."""

    what: str
    kind: str
    name: str


def compare(mine: Key, theirs: Key) -> tuple[FieldDifference, ...]:
    """Each field in which two keys differ, sorted by name."""
    one, other = mine.flat(), theirs.flat()
    return tuple(FieldDifference(name, one.get(name), other.get(name)) for name in mine.differences(theirs))


def why(store: Store, key: Key, deadline: Deadline, *, guards: Mapping[str, str] | None = None) -> Why:
    """What a start with this key would find, and up to eight keys that are close. Raises the store's errors."""
    answer = look_up(store, key, deadline, guards=guards)
    places = [place for place in keys(store, key.domain, deadline) if place.key_digest != key.digest()]
    close = tuple(
        Neighbour(other.digest(), compare(key, other)) for other in nearest_keys(store, key, places, deadline)
    )
    return Why(True, "", close) if isinstance(answer, Found) else Why(False, answer.reason, close)


def compare_parts(one: Manifest, other: Manifest) -> tuple[PartDifference, ...]:
    """How the parts of two manifests differ, by kind and name."""
    first, second = _by_name(one), _by_name(other)
    rows = [PartDifference("removed", *name) for name in first.keys() - second.keys()]
    rows += [PartDifference("added", *name) for name in second.keys() - first.keys()]
    rows += [PartDifference("changed", *name) for name in first.keys() & second.keys() if first[name] != second[name]]
    return tuple(sorted(rows, key=lambda row: (row.kind, row.name, row.what)))


def _by_name(manifest: Manifest) -> dict[tuple[str, str], set[str]]:
    names: dict[tuple[str, str], set[str]] = {}
    for part in manifest.parts:
        names.setdefault(_name(part), set()).add(part.sha256)
    return names


def _name(part: Part) -> tuple[str, str]:
    return part.kind, part.name
