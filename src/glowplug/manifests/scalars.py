"""Where each character of a scalar's text stands in the source.

A scalar is read a second time, the way libyaml reads it, with a place for every character of the result: escapes, doubled
quotes, folded lines, indentation. What comes out is compared with what libyaml had read; should they ever differ, no part
can be told from another, and the whole scalar is the place of all.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from glowplug.manifests.source import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

_BREAKS: Final = "\n\r\x85\u2028\u2029"
_SPACE: Final = re.compile(f"[ \t{_BREAKS}]+")
_BREAK: Final = re.compile(f"\r\n|[{_BREAKS}]")
_CONTENT: Final = re.compile(f"[^ {_BREAKS}]")
_HEADER: Final = re.compile(rf"[|>](?:([-+])([1-9])?|([1-9])([-+])?)?[ \t]*(?:#[^{_BREAKS}]*)?(?:\r\n|[{_BREAKS}]|$)")
_ESCAPES: Final = {
    **dict(zip('abtnvfre "/\\', '\a\b\t\n\v\f\r\x1b "/\\', strict=True)),
    "0": "\0",
    "\t": "\t",
    "N": "\x85",
    "_": "\xa0",
    "L": "\u2028",
    "P": "\u2029",
}
_DEEPEST: Final = 100
_LENGTHS: Final = {"x": 2, "u": 4, "U": 8}


class Layout:
    """The characters of a text and their places."""

    __slots__ = ("characters", "ends", "starts")

    def __init__(self) -> None:
        self.characters: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []

    def add(self, character: str, start: int, end: int) -> None:
        """One more character of the text."""
        self.characters.append(character)
        self.starts.append(start)
        self.ends.append(end)

    def part(self, start: int, end: int) -> Span:
        """Where characters `start` to `end` stand; an empty part stands before its right neighbour."""
        if start < end:
            return Span(self.starts[start], self.ends[end - 1])
        at = self.starts[start] if start < len(self.starts) else self.ends[-1]
        return Span(at, at)


def layout(source: str, span: Span, end: int, style: str, text: str) -> Layout | None:
    """Where the characters of a scalar's `text` stand; None for an empty text, or where it cannot be told. `span` is that of the
    scalar with its quotes or header, `end` where libyaml saw its end."""
    if not text:
        return None
    if style in ("|", ">"):
        return next((found for _, found in _blocks(source, span.start, end, style, text) if _reads(found, text)), None)
    quote = 1 if style else 0
    found = _flow(source, span.start + quote, span.end - quote, style)
    return found if _reads(found, text) else None


def simple(span: Span, style: str, text: str) -> int | None:
    """Where the text of a scalar without escapes and line ends begins, as it does in most; its characters stand one by one."""
    if style in ("|", ">"):
        return None
    quote = 1 if style else 0
    return span.start + quote if span.end - span.start == len(text) + 2 * quote else None


def block_end(source: str, start: int, end: int) -> int:
    """Where the last line of a block scalar ends, before its line end; libyaml's `end` lies behind blank lines."""
    return start + len(source[start:end].rstrip(" \t" + _BREAKS))


def indentation(source: str, span: Span, end: int, style: str, text: str) -> int | None:
    """How many spaces stand before each line of a block scalar; None for one without a line that tells."""
    return next(
        (indent for indent, found in _blocks(source, span.start, end, style, text) if _reads(found, text)), None
    )


def _reads(found: Layout, text: str) -> bool:
    return "".join(found.characters) == text


def _flow(source: str, at: int, end: int, quote: str) -> Layout:
    """A plain or quoted scalar, from behind its opening quote to before the closing one."""
    found = Layout()
    while at < end:
        character = source[at]
        space = _SPACE.match(source, at, end)
        if space:
            _fold(found, source, at, space.end())
            at = space.end()
        elif quote == "'" and character == "'":
            found.add("'", at, at + 2)
            at += 2
        elif quote == '"' and character == "\\":
            at = _escape(found, source, at, end)
        else:
            found.add(character, at, at + 1)
            at += 1
    return found


def _escape(found: Layout, source: str, at: int, end: int) -> int:
    mark = source[at + 1 : at + 2]
    line_end = _BREAK.match(source, at + 1, end)
    if line_end:
        # A line that goes on: blanks that follow are none of the text, blank lines are.
        space = _SPACE.match(source, line_end.end(), end)
        stop = space.end() if space else line_end.end()
        for one in _BREAK.finditer(source, line_end.end(), stop):
            found.add(_read(one.group()), one.start(), one.end())
        return stop
    if mark in _LENGTHS:
        stop = at + 2 + _LENGTHS[mark]
        found.add(_by_number(source[at + 2 : stop]), at, stop)
        return stop
    found.add(_ESCAPES.get(mark, mark), at, at + 2)
    return at + 2


def _by_number(digits: str) -> str:
    try:
        return chr(int(digits, 16))
    except (ValueError, OverflowError):
        return ""


def _fold(found: Layout, source: str, start: int, end: int) -> None:
    """White space between words: as it is within a line; over lines one space, or the blank lines between. The characters that
    are left share all of its place."""
    breaks = list(_BREAK.finditer(source, start, end))
    if not breaks:
        for at in range(start, end):
            found.add(source[at], at, at + 1)
        return
    left = [_read(one.group()) for one in breaks]
    if left[0] == "\n":
        breaks, left = (breaks[1:], left[1:]) if len(left) > 1 else (breaks, [" "])
    stops = [*(one.end() for one in breaks[:-1]), end]
    for character, begin, stop in zip(left, [start, *stops], stops, strict=False):
        found.add(character, begin, stop)


def _blocks(source: str, start: int, end: int, style: str, text: str) -> Iterator[tuple[int, Layout]]:
    """The ways to read a block scalar, each with its indentation."""
    header = _HEADER.match(source, start, end)
    if header:
        chomping = header[1] or header[4] or ""
        for indent in _indents(source, header.end(), end, text):
            yield indent, _block(source, header.end(), end, style, indent, chomping)


def _indents(source: str, start: int, end: int, text: str) -> list[int]:
    """The indentation that a block scalar may have: given by a digit, it counts from its parent's, which is not known here. But
    the first line with something but spaces shows how many of them are not text."""
    first = _CONTENT.search(source, start, end)
    if not first:
        # Only blank lines: those with spaces in their text tell.
        return list(range(1, min(max(map(len, _BREAK.split(source[start:end]))), _DEEPEST) + 2))
    line = max(source.rfind(one, start, first.start()) for one in _BREAKS) + 1
    spaces = first.start() - max(line, start)
    shown = _CONTENT.search(text)
    kept = 0
    if shown:
        kept = shown.start() - (max(text.rfind(one, 0, shown.start()) for one in _BREAKS) + 1)
    return [max(spaces - kept, 1)]


def _block(source: str, at: int, end: int, style: str, indent: int, chomping: str) -> Layout:
    """The lines of a block scalar, from behind its header."""
    found = Layout()
    leading: tuple[str, int, int] | None = None
    blank_before = False
    trailing, at, column = _blank_lines(source, at, end, indent)
    while column == indent and at < end:
        blank = source[at] in " \t"
        if leading and style == ">" and leading[0] == "\n" and not blank_before and not blank:
            if not trailing:
                found.add(" ", leading[1], leading[2])
            else:
                trailing[0] = (trailing[0][0], leading[1], trailing[0][2])
        elif leading:
            found.add(*leading)
        for one in trailing:
            found.add(*one)
        blank_before = blank
        line_end = _BREAK.search(source, at, end)
        stop = line_end.start() if line_end else end
        for position in range(at, stop):
            found.add(source[position], position, position + 1)
        leading = (_read(line_end.group()), stop, line_end.end()) if line_end else None
        trailing, at, column = _blank_lines(source, line_end.end() if line_end else end, end, indent)
    if leading and chomping != "-":
        found.add(*leading)
    if chomping == "+":
        for one in trailing:
            found.add(*one)
    return found


def _blank_lines(source: str, at: int, end: int, indent: int) -> tuple[list[tuple[str, int, int]], int, int]:
    """Line ends of blank lines, and where the next line's text begins, in which column."""
    breaks: list[tuple[str, int, int]] = []
    while True:
        column = 0
        while at < end and column < indent and source[at] == " ":
            at += 1
            column += 1
        line_end = _BREAK.match(source, at, end)
        if not line_end:
            return breaks, at, column
        breaks.append((_read(line_end.group()), at, line_end.end()))
        at = line_end.end()


def _read(line_end: str) -> str:
    return line_end if line_end in "\u2028\u2029" else "\n"
