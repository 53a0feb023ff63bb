"""JSON and numbers that strangers wrote, read the same way wherever it happens.

How deep Python follows a structure depends on how deep it is already, and how long a number it reads on its version: a text near
those limits would be JSON in one place and none in another, and its key would differ. These limits are our own, and far from
Python's; no program's option comes near them.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, Optional, Union

DEEPEST: Final = 100
"""Lists and objects inside of each other."""
_LONGEST: Final = 400
_DIGITS: Final = 9
_TELLING: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


def read(data: Union[str, bytes]) -> Any:
    """What a JSON text holds. Raises ValueError, and nothing else, for one that is none, too deep or has too long a number."""
    text = data if isinstance(data, str) else data.decode(json.detect_encoding(data), "surrogatepass")
    if text.count("[") + text.count("{") > DEEPEST and _is_deep(text):
        raise ValueError(f"more than {DEEPEST} levels")
    try:
        return json.loads(text, parse_int=_integer)
    except RecursionError:
        raise ValueError("more levels than there is room for") from None


def _is_deep(text: str) -> bool:
    depth = 0
    for found in _TELLING.finditer(text):
        sign = found.group()
        if sign in "[{":
            depth += 1
            if depth > DEEPEST:
                return True
        elif sign in "]}":
            depth -= 1
    return False


def _integer(text: str) -> int:
    if len(text) > _LONGEST:
        raise ValueError("a number of that length")
    return int(text)


def count(text: str) -> Optional[int]:
    """The whole number that up to nine plain digits are, None for anything else.

    `isdigit` alone holds for `²`, which is no number, and for as many digits as somebody likes.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None
