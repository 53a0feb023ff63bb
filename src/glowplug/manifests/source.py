"""A text and the places in it. Offsets count characters of `text`; lines and columns begin at 1."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from glowplug.core.errors import BadInputError

LARGEST: Final = 64 << 20
"""Bytes of one input: forty times a thousand Deployments."""

_OTHER_ENCODINGS: Final = ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))
_LINE_END: Final = re.compile(r"\r\n?|\n")


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

    def line(self, offset: int) -> Span:
        """The line that holds an offset, without its end and without a byte order mark."""
        starts = self._line_starts
        number = bisect.bisect_right(starts, offset)
        begin, end = starts[number - 1], starts[number] if number < len(starts) else len(self.text)
        if number < len(starts):
            end -= 2 if self.text.startswith("\r\n", end - 2) else 1
        begin += begin == 0 and offset > 0 and self.text.startswith("\ufeff")
        return Span(begin, max(begin, end))

    def cut(self, span: Span) -> str:
        """What stands there."""
        return self.text[span.start : span.end]

    @cached_property
    def _line_starts(self) -> list[int]:
        """Lines end at LF, CR and CRLF, as editors count; YAML 1.1's NEL, LS and PS are no line ends to a person."""
        return [0, *(found.end() for found in _LINE_END.finditer(self.text))]


@dataclass(frozen=True)
class Place:
    """A span of a source."""

    source: Source
    span: Span

    @property
    def text(self) -> str:
        """What stands there."""
        return self.source.cut(self.span)


def read(name: str, data: bytes) -> Source:
    """The bytes of a file as a source. Raises BadInputError for what is no UTF-8 or larger than 64 MiB."""
    if len(data) > LARGEST:
        raise BadInputError(f"{name} has {len(data)} bytes; {LARGEST} are the most", code="bad-yaml")
    for mark, encoding in _OTHER_ENCODINGS:
        if data.startswith(mark):
            raise BadInputError(f"{name} is {encoding}", code="bad-yaml", hint="save it as UTF-8")
    try:
        return Source(name, data.decode())
    except UnicodeDecodeError as error:
        before = Source(name, data[: error.start].decode())
        line, column = before.position(len(before.text))
        message = f"{name}, line {line}, column {column}: byte 0x{data[error.start]:02x} is no UTF-8"
        raise BadInputError(message, code="bad-yaml", hint="save it as UTF-8") from None
