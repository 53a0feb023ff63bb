"""A text and the places in it. Offsets count characters of `text`, as PyYAML's marks do; lines and columns begin at 1."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, order=True)
class Span:
    """From `start` up to but not including `end`."""

    start: int
    end: int


@dataclass(frozen=True)
class Source:
    """One input. `name` is what a person calls it (a path, `<stdin>`); `text` is all of it, line ends as they are."""

    name: str
    text: str

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column. The column counts characters, and a byte order mark is none."""
        line = bisect.bisect_right(self._line_starts, offset) - 1
        begin = self._line_starts[line]
        mark = 1 if begin == 0 and offset > 0 and self.text.startswith("\ufeff") else 0
        return line + 1, offset - begin - mark + 1

    def cut(self, span: Span) -> str:
        """What stands there."""
        return self.text[span.start : span.end]

    @cached_property
    def _line_starts(self) -> list[int]:
        """YAML 1.1 as libyaml reads it ends lines at LF, CR, CRLF, NEL, LS and PS; editors count the first three."""
        text = self.text
        starts = [0]
        at = 0
        while at < len(text):
            character = text[at]
            at += 1
            if character == "\n" or (character == "\r" and text[at : at + 1] != "\n"):
                starts.append(at)
        return starts


@dataclass(frozen=True)
class Place:
    """A span of a source."""

    source: Source
    span: Span

    @property
    def text(self) -> str:
        """What stands there."""
        return self.source.cut(self.span)
