"""What `$(NAME)` and `$NAME` stand for in a container: the variable's text, or a stand-in where nobody knows it.

A stand-in is a word without meaning to a shell, marked as unknown (`engines/written.py`), so that a command line can be read on
around it and whoever asks for a value behind it gets none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from glowplug.engines.command import resolve_references
from glowplug.engines.shell import OpaqueError
from glowplug.engines.written import unknown, written

if TYPE_CHECKING:
    from glowplug.engines.room import Room
    from glowplug.lint.view import Variable
    from glowplug.manifests.values import Value


def stand_in(name: str) -> str:
    """The word that stands for what nobody knows."""
    return unknown(f"%{name}%")


class _References(Mapping[str, str]):
    """Every name has a text: nothing is looked up that was not referred to."""

    def __init__(self, variables: Mapping[str, Variable]) -> None:
        self._variables = variables

    def __getitem__(self, name: str) -> str:
        found = self._variables.get(name)
        return stand_in(name) if found is None or found.value is None else found.value

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)


def resolved(text: str, variables: Mapping[str, Variable], room: Room | None = None) -> str:
    """A word of `command` or `args`, or a variable's value, after kubelet's own references. Nobody knows what is longer than
    there is `room` for."""
    if "$" not in text:
        return text
    try:
        return resolve_references((text,), _References(variables), room)[0]
    except OpaqueError:
        return stand_in("TOO_LONG")


def written_in(value: Value) -> str:
    """A scalar's text, each character with its place."""
    return written(value.text, value)
