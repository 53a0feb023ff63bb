"""A list of a manifest and what is to become of it: elements that stay, give way, go or come, as operations of an edit.

Collected first, because a list that loses all its elements goes with its key, and one that is not there comes with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from glowplug.manifests.edit import Insert, Operation, Put, Remove, Replace
from glowplug.manifests.writing import Noted, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from glowplug.manifests.values import Value


class Listing:
    """The list at `key` of a mapping; where it has to be made, it comes after the first of the keys `after` that is there.

    Mutable: it lives for one edit.
    """

    def __init__(self, owner: Value, key: str, after: tuple[str, ...] = ()) -> None:
        self._owner = owner
        self._key = key
        self._after = after
        self._sequence = owner.get(key)
        self.elements: tuple[Value, ...] = tuple(self._sequence.elements()) if self._sequence is not None else ()
        self._replaced: dict[int, Any] = {}
        self._removed: set[int] = set()
        self._first: list[Any] = []
        self._last: list[Any] = []
        self._between: list[tuple[int, Any]] = []

    def named(self, name: str) -> tuple[int, Value] | None:
        """The element of that name, the last one where there are several, as Kubernetes has it for variables."""
        found = [(index, one) for index, one in enumerate(self.elements) if _name(one) == name]
        return found[-1] if found else None

    def replace(self, index: int, value: Any) -> None:
        """An element gives way to another."""
        self._replaced[index] = value

    def remove(self, index: int) -> None:
        """An element goes."""
        self._removed.add(index)

    def add(self, *values: Any) -> None:
        """Elements at the end."""
        self._last += values

    def add_first(self, *values: Any) -> None:
        """Elements at the beginning."""
        self._first += values

    def add_before(self, names: Sequence[str], value: Any) -> None:
        """An element in front of the first of these that is there, at the end where none is."""
        found = (self.named(name) for name in names)
        index = next((one[0] for one in found if one is not None), None)
        if index is None:
            self._last.append(value)
        else:
            self._between.append((index, value))

    def operations(self) -> Iterator[Operation]:
        """The edit."""
        added = [*self._first, *(value for _, value in self._between), *self._last]
        left = len(self.elements) - len(self._removed)
        if not self.elements:
            if added:
                yield Put(self._owner, self._key, added, after=self._anchor())
            return
        if not left and not added:
            yield Remove(self._owner, self._key)
            return
        sequence = self._sequence
        if sequence is None:
            return
        for index, value in self._replaced.items():
            yield from _changed(self.elements[index], value)
        for index in sorted(self._removed):
            yield Remove(sequence, index)
        for value in self._first:
            yield Insert(sequence, value, 0)
        for index, value in self._between:
            yield Insert(sequence, value, index)
        for value in self._last:
            yield Insert(sequence, value)

    def _anchor(self) -> str:
        return next((key for key in self._after if self._owner.key(key) is not None), "")


def _changed(element: Value, to: Any) -> Iterator[Operation]:
    """Key by key where that can be: comments in the lines that stay are a person's."""
    bare, why = to, ""
    while isinstance(bare, Noted):
        bare, why = bare.value, why or bare.why
    there = {name for name, _ in element.items() if element.key(name) is not None}
    if why or not isinstance(bare, dict) or not there & bare.keys() or len(there) < len(list(element.items())):
        yield Replace(element, to)
        return
    for name, value in bare.items():
        found = element.get(name)
        if found is None or found.data != plain(value):
            yield Put(element, name, value)
    for name in sorted(there - bare.keys()):
        yield Remove(element, name)


def _name(element: Value) -> str:
    found = element.get("name")
    return found.text if found is not None else ""
