"""What operations mean, carried out on plain data: what the changed text has to say.

Nothing is changed in place: what lies beside the way to a change is shared with the data before, so that what aliases share
is never multiplied, and an alias's other uses keep what they had.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Path = tuple[str | int, ...]


def changed(data: Any, path: Path, change: Callable[[Any], Any]) -> Any:
    """The data with what lies at `path` changed."""
    if not path:
        return change(data)
    step, *rest = path
    if isinstance(step, str):
        return {**data, step: changed(data[step], tuple(rest), change)}
    return [*data[:step], changed(data[step], tuple(rest), change), *data[step + 1 :]]


def at(data: Any, path: Path) -> Any:
    """What lies there."""
    for step in path:
        data = data[step]
    return data


def put(key: str, value: Any) -> Callable[[Any], Any]:
    """A key gets a value. What is null so far becomes a mapping."""
    return lambda mapping: {**(mapping or {}), key: value}


def inserted(index: int, value: Any) -> Callable[[Any], Any]:
    """An element more. What is null so far becomes a list."""
    return lambda sequence: [*(sequence or [])[:index], value, *(sequence or [])[index:]]


def removed(step: str | int) -> Callable[[Any], Any]:
    """A key or an element less."""
    if isinstance(step, int):
        return lambda sequence: [*sequence[:step], *sequence[step + 1 :]]
    return lambda mapping: {key: value for key, value in mapping.items() if key != step}


def renamed(key: str, to: str) -> Callable[[Any], Any]:
    """A key under another name, in its old place."""
    return lambda mapping: {to if name == key else name: value for name, value in mapping.items()}


def same(one: Any, other: Any, known: set[tuple[int, int]] | None = None) -> bool:
    """Whether two values are the same to the last type: 1 is neither 1.0 nor true. What is shared is compared once."""
    known = set() if known is None else known
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return bool(one == other) or (math.isnan(one) and math.isnan(other))
    if not isinstance(one, dict | list):
        return bool(one == other)
    pair = (id(one), id(other))
    if pair in known:
        return True
    known.add(pair)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key], known) for key, value in one.items())
    return len(one) == len(other) and all(same(*both, known) for both in zip(one, other, strict=True))
