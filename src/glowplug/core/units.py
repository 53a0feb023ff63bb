"""Sizes and durations as people write them.

GB is 10^9 and GiB is 2^30, always; the guide mixes them, so what is printed says which one it is.
"""

from __future__ import annotations

import re
from typing import Final

from glowplug.core.errors import UsageError

_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*\Z", re.ASCII)
_LONGEST: Final = 40  # characters, far more than a number of bytes or seconds has
_SIZES: Final = {
    "": 1,
    "b": 1,
    **{f"{p}b": 1000 ** (i + 1) for i, p in enumerate("kmgtp")},
    **{f"{p}ib": 1024 ** (i + 1) for i, p in enumerate("kmgtp")},
}
_DURATION: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)\s*\Z", re.ASCII)
_DURATIONS: Final = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_size(text: str) -> int:
    """Bytes of `67GB`, `64GiB` or `4294967296`. Raises UsageError (`bad-size`)."""
    match = _SIZE.match(text) if len(text) <= _LONGEST else None
    factor = _SIZES.get(match.group(2).lower()) if match else None
    if match is None or factor is None:
        raise UsageError(f"not a size: {_shown(text)!r}", code="bad-size")
    number = match.group(1)
    return int(number) * factor if number.isdigit() else int(float(number) * factor)


def parse_duration(text: str) -> float:
    """Seconds of `30s`, `10m`, `2h`, `30d` or a bare number of seconds. Raises UsageError (`bad-duration`)."""
    match = _DURATION.match(text) if len(text) <= _LONGEST else None
    if match is None:
        raise UsageError(f"not a duration: {_shown(text)!r}", code="bad-duration")
    return float(match.group(1)) * _DURATIONS[match.group(2)]


def format_size(size: int) -> str:
    """Decimal units with three digits: `15.3 MB`."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(value) < 999.5 or unit == "TB":
            return f"{size} B" if unit == "B" else f"{value:.3g} {unit}" if value < 100 else f"{value:.0f} {unit}"
        value /= 1000
    raise AssertionError("unreachable")


def format_seconds(seconds: float) -> str:
    """`38.7 s`, `210 ms`, `4 min 12 s`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def _shown(text: str) -> str:
    """A wrong value for an error's line: short, and without the password of an address that got to the wrong place."""
    from glowplug.core import redact  # json and hashlib, which a right value does not need

    return redact.value("", text[: 100 * _LONGEST])[:_LONGEST]
