"""A literal block scalar (`|`) with other lines: those that stay, stay as they are written, its indicator and its blank lines too.

Ways to write it come in order of how little they change; which of them reads as meant is for its caller to find out.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_HEADER: Final = re.compile(r"\|(?:(?P<chomp>[-+])(?P<digit>[1-9])?|(?P<first>[1-9])(?P<then>[-+])?)?")
_LINE: Final = re.compile(r"([^\r\n]*)(\r\n?|\n|$)")
_OTHER_BREAKS: Final = "\x85\u2028\u2029"


def rewritten(written: str, text: str, meant: str, indent: int, parent: int, eol: str) -> Iterator[str]:
    """How the scalar that is `written` so, from its indicator to behind its last blank line, may be written with the text `meant`.

    Its lines begin at `indent`; a digit in its indicator counts from `parent`.
    """
    header = _HEADER.match(written)
    head = _LINE.match(written)
    if header is None or head is None or any(one in written or one in meant for one in _OTHER_BREAKS):
        return
    old = text.rstrip("\n").split("\n")
    raw = [(one[1], one[2]) for one in _LINE.finditer(written, head.end()) if one[0]]
    if len(raw) < len(old) or any(line[indent:] != logical for (line, _), logical in zip(raw, old, strict=False)):
        return
    body = meant.rstrip("\n")
    if not body:
        return
    lines = _lines(raw[: len(old)], old, body.split("\n"), indent, eol)
    ends = len(meant) - len(body)
    blank = "".join(line + end for line, end in raw[len(old) :])
    kept = [line + end for line, end in raw[len(old) :] if end][: max(ends - 1, 0)]
    exact = "".join(kept) + eol * (ends - 1 - len(kept))
    chomp = header["chomp"] or header["then"] or ""
    digit = header["digit"] or header["first"] or ""
    wanted = "-" if not ends else "" if ends == 1 else "+"
    below = str(indent - parent) if 0 < indent - parent < 10 else ""
    for sign, number in itertools.product(dict.fromkeys((chomp, wanted)), dict.fromkeys((digit, digit or below))):
        indicator = f"|{sign}{number}" if header["chomp"] else f"|{number}{sign}"
        rest = head[0][header.end() - header.start() :]
        for behind in dict.fromkeys((blank, exact) if sign == "+" else (blank,)):
            yield indicator + rest + _joined(lines, behind, eol)


def _lines(
    raw: Sequence[tuple[str, str]], old: list[str], new: list[str], indent: int, eol: str
) -> list[tuple[str, str]]:
    """Lines as they are written, with their ends: those before and behind the change as they were."""
    before = 0
    while before < min(len(old), len(new)) and old[before] == new[before]:
        before += 1
    behind = 0
    while behind < min(len(old), len(new)) - before and old[-1 - behind] == new[-1 - behind]:
        behind += 1
    fresh = [(" " * indent + line if line else "", eol) for line in new[before : len(new) - behind]]
    return [*raw[:before], *fresh, *raw[len(raw) - behind :]]


def _joined(lines: Sequence[tuple[str, str]], behind: str, eol: str) -> str:
    """The lines of a text; one that had no end in the file gets one where others follow it."""
    *first, (last, end) = lines
    text = "".join(line + (stop or eol) for line, stop in first)
    return text + last + (end or (eol if behind else "")) + behind
