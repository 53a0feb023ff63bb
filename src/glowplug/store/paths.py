"""Which paths name an object: one grammar for every back end, checked before any of them is asked.

The contract promises `[A-Za-z0-9._-]` parts joined by `/`. Back ends disagree on anything beyond (percent encoding,
case, empty parts, `..`), and in a directory a path is a place on a disk: what is refused here can neither leave the
store's root nor touch the files that the store keeps for itself (`RESERVED`).
"""

from __future__ import annotations

import re
from typing import Final

from glowplug.core.errors import BadInputError

RESERVED: Final = ".glowplug-"
"""Path parts that begin so belong to the back end (locks, half-written files); they are never objects."""

_PART: Final = re.compile(r"[A-Za-z0-9._-]{1,255}", re.ASCII)
_LONGEST: Final = 1024  # bytes; S3's limit for a key, prefix included
_LARGEST: Final = 1 << 62  # bytes; beyond any object, and the sum of two still fits into 64 bits with a sign


def check(path: str) -> str:
    """`path`, when it names an object. Raises BadInputError (`bad-input`)."""
    parts = path.split("/")
    if len(path) <= _LONGEST and all(map(_allowed, parts)):
        return path
    raise BadInputError(f"not the path of an object: {path[:200]!r}")


def check_prefix(prefix: str) -> str:
    """`prefix` without a trailing slash; "" means everything. Raises BadInputError (`bad-input`)."""
    bare = prefix.removesuffix("/")
    return check(bare) if bare else ""


def check_range(start: int, length: int) -> None:
    """Raise BadInputError (`bad-input`) where these are no bytes of any object."""
    if not 0 <= start < _LARGEST or not 1 <= length < _LARGEST:
        raise BadInputError(f"not a range of bytes: {length} from {start}")


def _allowed(part: str) -> bool:
    return bool(_PART.fullmatch(part)) and part not in {".", ".."} and not part.startswith(RESERVED)
