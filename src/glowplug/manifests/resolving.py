"""What a plain scalar means to kubectl, whose parser (sigs.k8s.io/yaml, on go-yaml's second version) differs from PyYAML: `1e3`,
`0o17` and `08` are numbers, `y` and `n` booleans, `12:30` and dates are strings."""

from __future__ import annotations

import functools
import math
import re
from typing import Any, Final

_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_NUMERIC: Final = frozenset("0123456789+-.")
_INTEGER: Final = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_EXACT: Final = 10**21
_BASES: Final = (16, 2, 8, 10)
# Longer digits are no number that any field could have; Python would take its time with them.
_LONGEST_NUMBER: Final = 400


@functools.lru_cache(maxsize=8192)
def resolve(text: str) -> Any:
    """A plain scalar as kubectl reads it: bool, None, int, float, or the text itself."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMERIC or len(text) > _LONGEST_NUMBER:
        return text
    digits = text if text[0] == "." else text.replace("_", "")
    whole = _INTEGER.fullmatch(digits)
    if whole:
        sign, *parts = whole.groups()
        number = next(int(part, base) for part, base in zip(parts, _BASES, strict=True) if part is not None)
        number = -number if sign == "-" else number
        if -(2**63) <= number < 2**64:
            return number
        # Beyond 64 bits, what looks like a decimal becomes a float there, the rest stays text.
    if _FLOAT.fullmatch(digits):
        value = float(digits)
        return text if math.isinf(value) else value
    return text


def key_text(value: Any, written: str) -> str:
    """A key as JSON has it: `8` and `0x8` are "8", `on` is "true"."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return str(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT else written
