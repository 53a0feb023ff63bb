"""Changes to YAML that leave every other byte alone: comments, quotes, order, line ends, separators.

An operation says what is meant, in terms of values; `apply` finds the smallest change of the text, and then checks its own work:
the new text must parse to exactly the documents that the operations give when they are carried out on plain data. What cannot be
written so is refused (`CannotEditError`), never attempted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from glowplug.manifests.source import Source
    from glowplug.manifests.values import Value


@dataclass(frozen=True)
class Put:
    """A mapping's key gets a value: replaced in place where it is there (a scalar keeps its style of quotes where it can), else
    added after the key `after` (at the end where that is missing or ""). `value` is plain data and may carry notes
    (`manifests/writing.noted`), which become comments above. Written in the style of its surroundings: flow within flow."""

    mapping: Value
    key: str
    value: Any
    after: str = ""


@dataclass(frozen=True)
class Insert:
    """A sequence gets an element, before the one at `index` (None: at the end)."""

    sequence: Value
    value: Any
    index: int | None = None


@dataclass(frozen=True)
class Replace:
    """A value gives way to another."""

    value: Value
    to: Any


@dataclass(frozen=True)
class Splice:
    """Characters `start` to `end` of a scalar's text give way to others: one option of a shell script, one key of JSON."""

    value: Value
    start: int
    end: int
    to: str


@dataclass(frozen=True)
class Remove:
    """A key (with its value) or an element goes, with the comment that stands above it alone."""

    collection: Value
    key: str | int


@dataclass(frozen=True)
class Rename:
    """A key gets another name; its value stays."""

    mapping: Value
    key: str
    to: str


Operation = Put | Insert | Replace | Splice | Remove | Rename


class CannotEditError(Exception):
    """The text cannot be changed so without touching what else depends on it; the message says why (an anchor that others use)."""


def apply(source: Source, operations: Sequence[Operation]) -> str:
    """The changed text. Raises CannotEditError."""
    raise NotImplementedError
