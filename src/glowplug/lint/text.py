"""Findings for people, in the manner of ruff: place, severity, rule and message, the line with carets, a hint, and a closing line.

Bold and colours are always in it; the writer drops them where no terminal reads. Credentials in an excerpt are stars. For a
terminal of some width messages are wrapped and excerpts cut; without one a message is a line, which programs can look for.
"""

from __future__ import annotations

import bisect
import functools
import textwrap
import unicodedata
from typing import TYPE_CHECKING, Final

from glowplug.core import redact
from glowplug.core.printable import one_line
from glowplug.lint import secrets
from glowplug.lint.rule import Severity
from glowplug.manifests.source import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from glowplug.lint.document import Summary
    from glowplug.lint.findings import Finding
    from glowplug.lint.run import Report
    from glowplug.manifests.source import Source

_WIDTH: Final = 110
_BEFORE: Final = 30
_NARROWEST: Final = 40
_NEAR: Final = 500
_COLOURS: Final = {Severity.ERROR: "1;31", Severity.WARNING: "1;33", Severity.INFO: "1;36"}


def text(report: Report, summary: Summary, *, unsafe: bool = False, width: int | None = None) -> str:
    """All findings and the closing line. `width`: the columns of the terminal that shows it, None for none."""
    hidden = _Hidden(report) if report.findings else None
    blocks = ["\n".join(_block(one, hidden, width, unsafe=unsafe)) for one in report.findings if hidden]
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


def _block(one: Finding, hidden: _Hidden, width: int | None, *, unsafe: bool) -> list[str]:
    star = f"{_styled('[*]', '36')} " if one.fixable(unsafe=unsafe) else ""
    severity = _styled(one.severity.value, _COLOURS[one.severity])
    head = f"{_styled(one_line(one.file), '1')}:{one.line}:{one.column}:"
    gutter = " " * len(str(one.line))
    plain = f"{one_line(one.file)}:{one.line}:{one.column}: {one.severity.value} {one.rule} {'[*] ' if star else ''}"
    first, *rest = _wrapped(one_line(one.message), len(plain), f"{gutter}   ", width)
    lines = [f"{head} {severity} {_styled(one.rule, '1')} {star}{first}", *rest]
    if one.object:
        lines.append(_styled(f"{gutter} | {one_line(one.object)}", "90"))
    lines += _excerpt(one, hidden, gutter, width)
    if one.hint:
        first, *rest = _wrapped(one_line(one.hint), len(f"{gutter} = hint: "), f"{gutter}   ", width)
        lines += [f"{_styled(f'{gutter} =', '90')} hint: {first}", *rest]
    return lines


def _wrapped(words: str, begun: int, indent: str, width: int | None) -> list[str]:
    """The lines of a sentence whose first one has `begun` columns already; those below it are indented."""
    if width is None:
        return [words]
    lines = textwrap.wrap(
        words,
        max(width, _NARROWEST),
        initial_indent=" " * begun,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [lines[0][begun:], *lines[1:]] if lines else [""]


def _excerpt(one: Finding, hidden: _Hidden, gutter: str, width: int | None) -> list[str]:
    """The first line of the place, with carets below what is meant of it."""
    source, span = one.place.source, one.place.span
    line = source.line(span.start)
    shown, sure = hidden.line(source, line)
    first, last = (
        span.start - line.start,
        min(max(span.end, span.start + 1), max(line.end, span.start + 1)) - line.start,
    )
    room = _WIDTH if width is None else max(width - len(f"{gutter} | ……"), _NARROWEST)
    # Of a line that holds a whole file only what is near.
    low, high = max(0, min(first, len(shown)) - _NEAR), first + _NEAR
    before, behind = low > 0, high < len(shown)
    every = [_cell(character) for character in shown[low:high]]
    first, last = first - low, last - low
    cut = _fitting(every[:first][::-1], min(_BEFORE, room // 3)) if _columns(every) > room else first
    cut = first - min(cut, first)
    cells = every[cut : cut + _fitting(every[cut:], room)]
    left, right = "…" if cut or before else "", "…" if cut + len(cells) < len(every) or behind else ""
    lines = [f"{_styled(f'{one.line} |', '90')} {left}{''.join(cells)}{right}"]
    if sure:
        blank = _columns(cells[: first - cut]) + len(left)
        carets = max(1, _columns(cells[first - cut : last - cut]))
        to = f" … to line {one.end_line}" if one.end_line > one.line else ""
        marked = _styled("^" * carets + to, _COLOURS[one.severity])
        lines.append(f"{_styled(f'{gutter} |', '90')} {' ' * blank}{marked}")
    return lines


def _fitting(cells: Sequence[str], room: int) -> int:
    """How many of these cells, from the first on, find room."""
    if _columns(cells) <= room:
        return len(cells)
    used = 0
    for number, cell in enumerate(cells):
        used += _columns((cell,))
        if used > room:
            return number
    return len(cells)


@functools.lru_cache(maxsize=1024)
def _cell(character: str) -> str:
    return "    " if character == "\t" else one_line(character)


def _columns(cells: Iterable[str]) -> int:
    text_ = "".join(cells)
    return len(text_) if text_.isascii() else sum(map(_wide, text_))


def _wide(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _styled(text_: str, code: str) -> str:
    return f"\x1b[{code}m{text_}\x1b[0m"


class _Hidden:
    """What an excerpt must not show. Findings are many and so are secrets, so that each line is cleaned once, and only of those
    that stand in it."""

    def __init__(self, report: Report) -> None:
        found: dict[int, list[Span]] = {}
        for place in secrets.hidden(report.manifests) if report.manifests else ():
            found.setdefault(id(place.source), []).append(place.span)
        self._spans = {of: _merged(spans) for of, spans in found.items()}
        self._lines: dict[tuple[int, int], tuple[str, bool]] = {}

    def line(self, source: Source, line: Span) -> tuple[str, bool]:
        """The text of a line with stars for credentials; False where places in it are not where they were."""
        key = (id(source), line.start)
        if key not in self._lines:
            self._lines[key] = self._cleaned(source, line)
        return self._lines[key]

    def _cleaned(self, source: Source, line: Span) -> tuple[str, bool]:
        shown = _starred(source.cut(line), line.start, self._within(id(source), line))
        shown = _starred(shown, 0, [Span(*found) for found in redact.tokens(shown)])
        cleaned = redact.value("", shown)
        return cleaned, cleaned == shown

    def _within(self, of: int, line: Span) -> Iterator[Span]:
        spans = self._spans.get(of, [])
        for place in range(bisect.bisect_right(spans, line.start, key=lambda one: one.end), len(spans)):
            if spans[place].start >= line.end:
                return
            yield spans[place]


def _merged(spans: list[Span]) -> list[Span]:
    """The same characters in spans that follow each other."""
    merged: list[Span] = []
    for span in sorted(spans):
        if merged and span.start <= merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged


def _starred(shown: str, begin: int, spans: Iterable[Span]) -> str:
    """A text that begins at `begin`, with stars where these are."""
    pieces, done = [], 0
    for span in spans:
        start, stop = max(span.start - begin, 0), min(span.end - begin, len(shown))
        pieces += [shown[done:start], "*" * (stop - start)]
        done = stop
    return "".join((*pieces, shown[done:]))
