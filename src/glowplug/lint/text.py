"""Findings for people, in the manner of ruff: place, severity, rule and message, the line with carets, a hint, and a closing line.

Bold and colours are always in it; the writer drops them where no terminal reads. Credentials in an excerpt are stars.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final

from glowplug.core import redact
from glowplug.core.printable import one_line
from glowplug.lint import secrets
from glowplug.lint.rule import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from glowplug.lint.document import Summary
    from glowplug.lint.findings import Finding
    from glowplug.lint.run import Report
    from glowplug.manifests.source import Source, Span

_WIDTH: Final = 110
_BEFORE: Final = 30
_COLOURS: Final = {Severity.ERROR: "1;31", Severity.WARNING: "1;33", Severity.INFO: "1;36"}


def text(report: Report, summary: Summary, *, unsafe: bool = False) -> str:
    """All findings and the closing line."""
    hidden = _Hidden(report) if report.findings else None
    blocks = ["\n".join(_block(one, hidden, unsafe=unsafe)) for one in report.findings if hidden]
    return "\n\n".join([*blocks, closing(summary)])


def closing(summary: Summary) -> str:
    """The last line: how many of what, where; and what can be done about it."""
    number = summary.errors + summary.warnings + summary.infos
    where = _number(summary.files, "file")
    hidden = f" ({_number(summary.ignored, 'finding')} ignored by annotations)" if summary.ignored else ""
    fixed = f"{summary.fixed} fixed, " if summary.fixed else ""
    if not number:
        engines = "" if summary.workloads or not summary.files else "; there is no pod with an engine"
        return f"{fixed}no findings in {where}{engines}{hidden}"
    severities = ((summary.errors, "error"), (summary.warnings, "warning"), (summary.infos, "info"))
    counts = ", ".join(_number(count, name) for count, name in severities if count)
    lines = [f"{fixed}{'left' if fixed else 'found'} {counts} in {where}{hidden}"]
    if summary.fixable or summary.unsafe_fixable:
        more = f"{summary.unsafe_fixable} more with --unsafe-fixes" if summary.unsafe_fixable else ""
        these = f"{summary.fixable} fixable with --fix" if summary.fixable else ""
        lines.append(f"[*] {', '.join(part for part in (these, more) if part)}")
    return "\n".join(lines)


def _number(count: int, name: str) -> str:
    plural = name if name == "info" or count == 1 else f"{name}s"
    return f"{count} {plural}"


def _block(one: Finding, hidden: _Hidden, *, unsafe: bool) -> list[str]:
    star = f"{_styled('[*]', '36')} " if one.fixable(unsafe=unsafe) else ""
    severity = _styled(one.severity.value, _COLOURS[one.severity])
    head = f"{_styled(one_line(one.file), '1')}:{one.line}:{one.column}:"
    gutter = " " * len(str(one.line))
    lines = [f"{head} {severity} {_styled(one.rule, '1')} {star}{one_line(one.message)}"]
    if one.object:
        lines.append(_styled(f"{gutter} | {one_line(one.object)}", "90"))
    lines += _excerpt(one, hidden, gutter)
    if one.hint:
        lines.append(f"{_styled(f'{gutter} =', '90')} hint: {one_line(one.hint)}")
    return lines


def _excerpt(one: Finding, hidden: _Hidden, gutter: str) -> list[str]:
    """The first line of the place, with carets below what is meant of it."""
    source, span = one.place.source, one.place.span
    begin, end = _line(source, span.start)
    shown, sure = hidden.line(source, begin, end)
    first, last = span.start - begin, min(max(span.end, span.start + 1), max(end, span.start + 1)) - begin
    cut = max(0, first - _BEFORE) if len(shown) > _WIDTH else 0
    piece = shown[cut : cut + _WIDTH]
    left, right = "…" if cut else "", "…" if cut + _WIDTH < len(shown) else ""
    cells = [_cell(character) for character in piece]
    lines = [f"{_styled(f'{one.line} |', '90')} {left}{''.join(cells)}{right}"]
    if sure:
        blank = _columns(cells[: first - cut]) + len(left)
        carets = max(1, _columns(cells[first - cut : last - cut]))
        to = f" … to line {one.end_line}" if one.end_line > one.line else ""
        marked = _styled("^" * carets + to, _COLOURS[one.severity])
        lines.append(f"{_styled(f'{gutter} |', '90')} {' ' * blank}{marked}")
    return lines


def _line(source: Source, offset: int) -> tuple[int, int]:
    """From where to where the line of an offset goes, without its end and without a byte order mark."""
    text_ = source.text
    begin = max(text_.rfind("\n", 0, offset), text_.rfind("\r", 0, offset)) + 1
    ends = [place for place in (text_.find("\n", offset), text_.find("\r", offset)) if place >= 0]
    begin += begin == 0 and offset > 0 and text_.startswith("\ufeff")
    return begin, min(ends, default=len(text_))


def _cell(character: str) -> str:
    return "    " if character == "\t" else one_line(character)


def _columns(cells: Iterable[str]) -> int:
    return sum(_wide(character) for cell in cells for character in cell)


def _wide(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _styled(text_: str, code: str) -> str:
    return f"\x1b[{code}m{text_}\x1b[0m"


class _Hidden:
    """What an excerpt must not show."""

    def __init__(self, report: Report) -> None:
        self._spans: dict[int, list[Span]] = {}
        for place in secrets.places(report.manifests) if report.manifests else ():
            self._spans.setdefault(id(place.source), []).append(place.span)

    def line(self, source: Source, begin: int, end: int) -> tuple[str, bool]:
        """The text of a line with stars for credentials; False where places in it are not where they were."""
        shown = source.text[begin:end]
        for span in self._spans.get(id(source), ()):
            start, stop = max(span.start, begin) - begin, min(span.end, end) - begin
            if start < stop:
                shown = f"{shown[:start]}{'*' * (stop - start)}{shown[stop:]}"
        cleaned = redact.value("", shown)
        return cleaned, cleaned == shown
