"""Canonical JSON and the digests made of it.

A digest must be the same wherever it is computed, so the form is fixed: UTF-8, keys sorted by code point, no white space, no
floats (`json` implementations print them differently). `docs/format.md` states it for readers in other languages.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Final, Union

_DIGEST: Final = re.compile(r"[0-9a-f]{64}\Z")

_PLAIN: Final = frozenset((str, int, bool, type(None)))

Json = Union[None, bool, int, str, "list[Json]", "dict[str, Json]"]


def encode(value: object) -> bytes:
    """The canonical bytes of a JSON value.

    Raises TypeError for a float or anything JSON has no word for, ValueError for text that is not Unicode.
    """
    _refuse(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode("utf-8")


def digest(value: object) -> str:
    """SHA-256 of the canonical bytes, 64 lower-case hex digits."""
    return hashlib.sha256(encode(value)).hexdigest()


def is_digest(text: str) -> bool:
    """Whether this is 64 lower-case hex digits."""
    return bool(_DIGEST.match(text))


def _refuse(value: object) -> None:
    if type(value) in _PLAIN or isinstance(value, (int, str)):
        return
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"canonical JSON has string keys only, not {type(key).__name__}")
            if type(item) not in _PLAIN:
                _refuse(item)
        return
    if isinstance(value, (list, tuple)):
        for item in value:
            if type(item) not in _PLAIN:
                _refuse(item)
        return
    raise TypeError(f"canonical JSON has no {type(value).__name__}")
