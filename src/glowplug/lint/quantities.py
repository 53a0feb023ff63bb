"""Kubernetes quantities (`500m`, `64Gi`, `1e3`) as whole numbers."""

from __future__ import annotations

import re
from typing import Final

_QUANTITY: Final = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?\d{1,2})?", re.ASCII
)
_FACTORS: Final = {
    **{letter: 1000 ** (power + 1) for power, letter in enumerate("kMGTPE")},
    **{f"{letter}i": 1024 ** (power + 1) for power, letter in enumerate("KMGTPE")},
}
_LONGEST: Final = 40


def quantity(text: str, *, milli: bool = False) -> int | None:
    """A Kubernetes quantity as a whole number, rounded up; with `milli` in thousandths. None for what is no quantity."""
    found = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        return None
    number, suffix = found.groups()
    numerator, factor = _as_fraction(number)
    scale = 1000 if milli else 1
    if suffix == "m":
        factor *= 1000
    elif suffix and suffix[0] in "eE" and suffix not in _FACTORS:
        exponent = int(suffix[1:])
        numerator, factor = (numerator * 10**exponent, factor) if exponent >= 0 else (numerator, factor * 10**-exponent)
    elif suffix:
        numerator *= _FACTORS[suffix]
    return -(-numerator * scale // factor)


def _as_fraction(number: str) -> tuple[int, int]:
    whole, _, part = number.partition(".")
    sign = -1 if whole.startswith("-") else 1
    digits = (whole.lstrip("+-") or "0") + part
    return sign * int(digits), 10 ** len(part)
