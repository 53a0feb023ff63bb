"""Where characters of a command line stand in the manifest: in the item itself, in a script, or in the variable they came from.

A place inside a scalar is computed when somebody asks: most options are read and never pointed at.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, cast

from glowplug.engines.written import Range, Written, marks_of
from glowplug.manifests.source import Place

if TYPE_CHECKING:
    from glowplug.lint.view import Word
    from glowplug.manifests.source import Span
    from glowplug.manifests.values import Value


def place(range_: Range) -> Value | Place:
    """That range: the value itself where it is all of it."""
    value: Value = range_.origin
    if range_.start == 0 and range_.end == len(value.text) and range_.end:
        return value
    return Within(value, range_.start, range_.end)


class Within(Place):
    """The place of some characters of a scalar's text."""

    def __init__(self, value: Value, start: int, end: int) -> None:
        object.__setattr__(self, "source", value.source)
        object.__setattr__(self, "_characters", (value, start, end))

    @cached_property
    def span(self) -> Span:
        """Computed once."""
        value, start, end = self.__dict__["_characters"]
        return cast("Value", value).part(start, end)


def of_word(word: Word, start: int = 0, end: int | None = None) -> Value | Place:
    """Where characters `start` to `end` of the word's text stand; for what cannot be told apart, where the word does."""
    end = len(word.text) if end is None else end
    found = range_of(word.written, start, end)
    if found is None:
        # A reference to the unknown, or several places: then where the word has it.
        found = _own_range(word, start, end) or Range(word.value, word.start, word.end)
    return place(found)


def range_of(text: str, start: int, end: int) -> Range | None:
    """The range that these characters were written at, None where it is not one piece of one text."""
    if not isinstance(text, Written):
        return None
    if start >= end:
        return _between(text, start)
    found: Range | None = None
    for mark in text.between(start, end):
        if mark.range is None or not mark.known:
            return None
        if found is None:
            found = mark.range
        elif found.origin is mark.range.origin and found.end <= mark.range.start:
            found = Range(found.origin, found.start, mark.range.end)
        else:
            return None
    return found


def _between(text: Written, at: int) -> Range | None:
    """The empty place before character `at`."""
    before = range_of(text, at - 1, at) if at else None
    if before is not None:
        return Range(before.origin, before.end, before.end)
    after = range_of(text, at, at + 1) if at < len(text) else None
    return Range(after.origin, after.start, after.start) if after is not None else None


def _own_range(word: Word, start: int, end: int) -> Range | None:
    """Where these characters, or the references that brought them, stand in the word's own text."""
    first: int | None = None
    last = -1
    marks = word.written.between(start, end) if isinstance(word.written, Written) else marks_of("")
    for mark in marks:
        range_ = mark.host if mark.host and mark.host.origin is word.value else mark.range
        if range_ is None or range_.origin is not word.value:
            return None
        first = range_.start if first is None else min(first, range_.start)
        last = max(last, range_.end)
    return Range(word.value, first, last) if first is not None else None
