"""Comparing versions well enough for tables of behaviour: numbers by value, `0.21.0rc1` before `0.21.0`."""

from __future__ import annotations

import functools
import re
from typing import Final

_NUMBER: Final = re.compile(r"(\d+(?:\.\d+)*)(.*)")
_LONGEST: Final = 9
_LONGEST_VERSION: Final = 256
_NEW: Final = ((10**9,), 1)


def parts(version: str) -> tuple[tuple[int, ...], int]:
    """A value that sorts like the version; text that is none sorts after every version (an unknown one counts as
    new).
    """
    return _parts(version) if len(version) <= _LONGEST_VERSION else _NEW


@functools.lru_cache(maxsize=1024)
def _parts(version: str) -> tuple[tuple[int, ...], int]:
    match = _NUMBER.match(version.strip().lstrip("v"))
    if match is None or any(len(number) > _LONGEST for number in match.group(1).split(".")):
        return _NEW
    numbers = [int(number) for number in match.group(1).split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    rest = match.group(2).partition("+")[0]
    return (tuple(numbers), 0 if re.match(r"[.\-]?(?:a|b|rc|dev|alpha|beta)", rest) else 1)


def within(version: str, first: str, last: str) -> bool:
    """Whether a version lies between two checked ones; an empty `last` means still so."""
    value = parts(version)
    return parts(first) <= value and (not last or value <= parts(last))
