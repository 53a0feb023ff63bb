"""A line of a program's output without what only terminals and loggers need."""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 16_384
_ANSI: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")


def plain(line: str) -> list[str]:
    """The visible states of a line, one for each carriage return (progress bars rewrite their line), without
    colours.
    """
    if len(line) > LONGEST:
        line = line[:LONGEST]
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    return [part for part in line.split("\r") if part.strip()] if "\r" in line else [line]
