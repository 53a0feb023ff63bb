"""Text of others made safe for a terminal.

A name out of a store, a line of an engine, an argument: whatever was written by someone else may hold escape sequences that move
the cursor, change a window's title or hide a line. Shown as `\\x1b`, they do nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

# C0 without tab and line feed, DEL, C1; the line separators; the marks that reverse the direction of writing; half of a pair,
# which no terminal's encoding can hold.
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_BREAKS: Final[Mapping[int, str]] = {ord("\n"): "\\n", ord("\t"): "\\t"}


def printable(text: str) -> str:
    """`text` with its control characters as escapes; tabs and line ends stay."""
    return _UNSAFE.sub(_escaped, text)


def one_line(text: str) -> str:
    """As `printable`, with tabs and line ends as escapes too: for a name or value in a line of its own."""
    return printable(text).translate(_BREAKS)


def json_text(encoded: str) -> str:
    """A JSON text with the control characters that JSON permits in strings (DEL, C1 and others) as `\\uXXXX`: the same value."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found.group()):04x}", encoded)


def _escaped(found: re.Match[str]) -> str:
    number = ord(found.group())
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
