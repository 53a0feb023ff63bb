"""Where each character of a scalar's text stands in the source."""

from __future__ import annotations

from glowplug.manifests.source import Span


def part(source: str, span: Span, style: str, text: str, start: int, end: int) -> Span:
    """Where characters `start` to `end` of a scalar's `text` stand; `span` is that of the scalar with its quotes."""
    quote = 1 if style in ("'", '"') else 0
    if span.end - span.start == len(text) + 2 * quote and style not in ("|", ">"):
        return Span(span.start + quote + start, span.start + quote + end)
    return span


def block_end(source: str, start: int, end: int) -> int:
    """Where the last line of a block scalar ends, before its line end; libyaml's `end` lies behind blank lines."""
    return start + len(source[start:end].rstrip(" \t\r\n"))
