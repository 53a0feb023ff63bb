"""Text that remembers where it was written, so that what was read of it can be pointed at.

A command line is taken apart here in many steps: kubelet's references, a shell's quotes and variables, wrappers, options.
Whoever has to point at one option in a file hands in `Written` instead of plain strings. It is a string in every respect; cutting
and joining keep, for each character, the place it came from. Plain strings go the same way and stay plain, at no cost.

`origin` is whatever the caller calls a text; it is never looked into.
"""

from __future__ import annotations

import bisect
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Range(NamedTuple):
    """Characters `start` to `end` of the text that the caller calls `origin`."""

    origin: Any
    start: int
    end: int


class Mark(NamedTuple):
    """Where `length` characters come from: one each where `range` has as many, else together (an escape, say).

    `host` is where a reference stands that brought them there from elsewhere. `known` is False for what stands for text that
    nobody knows.
    """

    length: int
    range: Optional[Range]
    host: Optional[Range] = None
    known: bool = True

    def cut(self, start: int, end: int) -> Mark:
        """The mark of some of these characters."""
        range_ = self.range
        if end - start == self.length:
            return self
        if range_ is not None and range_[2] - range_[1] == self.length:
            range_ = Range(range_[0], range_[1] + start, range_[1] + end)
        return Mark(end - start, range_, self.host, self.known)


class Spot(NamedTuple):
    """Where a word stands, quotes and all.

    `shared`: with other words, of which none can be changed alone (`$FLAGS`). `alone`: it is all of its text, as it is
    and not as a shell reads it.
    """

    range: Range
    shared: bool = False
    alone: bool = False


class Written(str):
    """A string with marks for its characters, and a spot where it is a word of a script."""

    # Not in __init__: strings are made in __new__, and every way to make one goes through `_made`.
    marks: tuple[Mark, ...]
    spot: Optional[Spot]
    ends: Optional[list[int]]
    """Behind which character each mark ends, once somebody has asked for a part."""

    def __getitem__(self, key: Any) -> str:
        if not isinstance(key, slice):
            return str.__getitem__(self, key)
        start, end, step = key.indices(len(self))
        return self.cut(start, max(start, end)) if step == 1 else str.__getitem__(self, key)

    def __add__(self, other: str) -> str:
        return joined((self, other))

    def __radd__(self, other: str) -> str:
        return joined((other, self))

    def cut(self, start: int, end: int) -> Written:
        """These characters; bounds are within the text."""
        return _made(str.__getitem__(self, slice(start, end)), self.between(start, end))

    def between(self, start: int, end: int) -> Sequence[Mark]:
        """The marks of these characters, none for no character."""
        if start >= end:
            return ()
        marks = self.marks
        # A script is mostly one piece, and asked for every word of it.
        return (marks[0].cut(start, end),) if len(marks) == 1 else tuple(self._between(start, end))

    def _between(self, start: int, end: int) -> Iterator[Mark]:
        if self.ends is None:
            self.ends = list(accumulate(mark[0] for mark in self.marks))
        first = bisect.bisect_right(self.ends, start)
        at = self.ends[first - 1] if first else 0
        for place in range(first, len(self.marks)):
            mark = self.marks[place]
            length = mark[0]
            if start <= at and at + length <= end:
                yield mark
            else:
                yield mark.cut(max(start - at, 0), min(end - at, length))
            at += length
            if at >= end:
                return

    def partition(self, sep: str) -> tuple[str, str, str]:
        """As `str.partition`."""
        at = self.find(sep)
        if at < 0:
            return self, "", ""
        return self[:at], sep, self[at + len(sep) :]

    def lstrip(self, chars: Optional[str] = None) -> str:
        """As `str.lstrip`."""
        return self[len(self) - len(str.lstrip(self, chars)) :]

    def rstrip(self, chars: Optional[str] = None) -> str:
        """As `str.rstrip`."""
        return self[: len(str.rstrip(self, chars))]

    def strip(self, chars: Optional[str] = None) -> str:
        """As `str.strip`."""
        return self.lstrip(chars).rstrip(chars)

    def split(self, sep: Optional[str] = None, maxsplit: Any = -1) -> list[Any]:
        """As `str.split`."""
        found: list[Any] = []
        at = 0
        for part in str.split(self, sep, maxsplit):
            at = self.index(part, at)
            found.append(self[at : at + len(part)])
            at += len(part)
        return found


def written(text: str, origin: Any) -> Written:
    """`text`, all of what is written at `origin`."""
    return _made(text, (Mark(len(text), Range(origin, 0, len(text))),))


def unknown(stand_in: str) -> Written:
    """A word that stands for text that nobody knows."""
    return _made(stand_in, (Mark(len(stand_in), None, known=False),))


def hosted(text: str, host: Range) -> Written:
    """`text`, brought to `host` by a reference there."""
    return _made(text, (Mark(mark.length, mark.range, host, mark.known) for mark in marks_of(text)))


def brought(text: str, reference: str) -> str:
    """The text of a variable that a reference brings to where it stands."""
    if not isinstance(text, Written) or not isinstance(reference, Written):
        return text
    host = hull(reference.marks)
    return hosted(text, host) if host else text


def instead(text: str, source: str, start: int, end: int) -> str:
    """`text`, which characters `start` to `end` of `source` stand for."""
    if not isinstance(source, Written):
        return text
    range_ = hull(source.between(start, end))
    return _made(text, (Mark(len(text), range_),)) if text and range_ else text


def joined(parts: Iterable[str]) -> str:
    """The parts one after another; plain where all of them are."""
    parts = [part for part in parts if part]
    if len(parts) == 1:
        return parts[0]
    text = "".join(parts)
    if not any(isinstance(part, Written) for part in parts):
        return text
    return _made(text, (mark for part in parts for mark in marks_of(part)))


def standing(text: str, spot: Optional[Spot]) -> str:
    """The same word with its spot."""
    if spot is None:
        return text
    word = _made(str(text), marks_of(text))
    word.spot = spot
    return word


def spot_of(text: str) -> Optional[Spot]:
    """Where a word stands: its own spot, else where its characters do."""
    if not isinstance(text, Written):
        return None
    if text.spot is not None:
        return text.spot
    range_ = hull(text.marks)
    return Spot(range_) if range_ else None


def marks_of(text: str) -> Iterable[Mark]:
    """The marks of any string."""
    return text.marks if isinstance(text, Written) else (Mark(len(text), None),) if text else ()


def is_known(text: str) -> bool:
    """Whether every character is."""
    return not isinstance(text, Written) or all(mark.known for mark in text.marks)


def hull(marks: Iterable[Mark]) -> Optional[Range]:
    """The least range around where characters stand (a reference, for what it brought), None where they stand in several texts."""
    around: Optional[Range] = None
    for mark in marks:
        range_ = mark.host or mark.range
        if range_ is None:
            continue
        if around is None:
            around = range_
        elif around.origin is range_.origin:
            around = Range(around.origin, min(around.start, range_.start), max(around.end, range_.end))
        else:
            return None
    return around


def _made(text: str, marks: Iterable[Mark]) -> Written:
    made = Written(text)
    made.marks = tuple(marks)
    made.spot = made.ends = None
    return made
