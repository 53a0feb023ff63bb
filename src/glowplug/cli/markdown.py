"""Markdown for a terminal: headings in bold, blocks of code indented, prose wrapped. No more than rules are written in."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

_WIDTH: Final = 100
_ITEM: Final = re.compile(r"(\s*(?:[-*]|\d+\.) )(.*)", re.DOTALL)
_FENCE: Final = "```"


def terminal(text: str) -> str:
    """The text as lines of at most 100 characters, but for code and tables."""
    return "\n".join(_lines(text)).strip("\n")


def _lines(text: str) -> Iterator[str]:
    paragraph: list[str] = []
    code = False
    for line in [*text.splitlines(), ""]:
        if line.startswith(_FENCE):
            yield from _wrapped(paragraph)
            paragraph = []
            code = not code
        elif code:
            yield f"    {line}".rstrip()
        elif not line.strip() or line.startswith(("#", "|")):
            yield from _wrapped(paragraph)
            paragraph = []
            yield click.style(line.lstrip("# "), bold=True) if line.startswith("#") else line
        elif _ITEM.match(line):
            yield from _wrapped(paragraph)
            paragraph = [line]
        else:
            paragraph.append(line)
    yield from _wrapped(paragraph)


def _wrapped(paragraph: list[str]) -> Iterator[str]:
    if not paragraph:
        return
    item = _ITEM.match(paragraph[0])
    mark = item[1] if item else ""
    first = item[2] if item else paragraph[0]
    joined = " ".join([first, *(line.strip() for line in paragraph[1:])])
    yield from textwrap.wrap(
        joined,
        _WIDTH,
        initial_indent=mark,
        subsequent_indent=" " * len(mark),
        break_long_words=False,
        break_on_hyphens=False,
    )
