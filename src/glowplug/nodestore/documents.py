"""One small JSON document that somebody else wrote: whole and as its schema says, or not at all.

Before its types are looked at, its bytes are bounded, no name comes twice, no number is long enough to take minutes, and all of
it has a canonical form (no floating point, no half of a surrogate pair), so that digests of it can be taken.
"""

from __future__ import annotations

import errno
import json
import math
from typing import TYPE_CHECKING, Any, Final, TypeVar

from glowplug.core import canonical
from glowplug.core.documents import codec
from glowplug.core.documents.node import READER
from glowplug.core.errors import (
    AccessDeniedError,
    BadInputError,
    GlowplugError,
    IntegrityError,
    NotFoundError,
    UnavailableError,
)
from glowplug.core.files import read_small

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")

MOST_BYTES: Final = 1 << 20
_DIGITS: Final = 20
_DAMAGE: Final = frozenset({errno.EFBIG, errno.EINVAL, errno.ELOOP, errno.EISDIR, errno.ENXIO})
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR})


class NewerDocumentError(NotFoundError):
    """It asks for a newer glowplug than this one."""


def read(kind: type[T], schema: str, path: Path) -> T:
    """The document at `path`.

    Raises NotFoundError where there is none, NewerDocumentError, IntegrityError (`bad-document`) where it is damaged,
    AccessDeniedError, UnavailableError.
    """
    return parse(kind, schema, read_bytes(path, MOST_BYTES), path.name)


def read_bytes(path: Path, most: int) -> bytes:
    """A small file that is neither a link nor a pipe. Raises as `read`."""
    try:
        return read_small(path, most, follow=False)
    except OSError as error:
        raise of_reading(error, path.name) from error


def of_reading(error: OSError, name: str) -> GlowplugError:
    """Our error for one of the file system."""
    if error.errno in _ABSENT:
        return NotFoundError(f"{name} is not there")
    if error.errno in _DAMAGE:
        return IntegrityError(f"{name}: {error.strerror}", code="bad-document")
    if error.errno in (errno.EACCES, errno.EPERM):
        return AccessDeniedError(f"{name} may not be read")
    return UnavailableError(f"{name} cannot be read: {error.strerror}")


def parse(kind: type[T], schema: str, data: bytes, where: str) -> T:
    """The document in `data`. Raises IntegrityError (`bad-document`) and NewerDocumentError."""
    value = parse_json(data, where)
    if value.get("schema") != schema:
        raise IntegrityError(f"{where}: another kind of document", code="bad-document")
    reader = value.get("min_reader", 1)
    if isinstance(reader, int) and not isinstance(reader, bool) and reader > READER:
        raise NewerDocumentError(f"{where} needs a glowplug that reads version {reader}")
    try:
        canonical.encode(value)
        return codec.from_json(kind, value, where)
    except (BadInputError, TypeError, ValueError, RecursionError) as error:
        raise IntegrityError(f"{where}: {error}", code="bad-document") from None


def parse_json(data: bytes, where: str) -> dict[str, Any]:
    """The object in `data`. Raises IntegrityError (`bad-document`)."""
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_int=_short,
            parse_float=_finite,
            parse_constant=_finite,
        )
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # no half of a surrogate pair, in no name either
    except (ValueError, RecursionError) as error:
        raise IntegrityError(f"{where}: not JSON ({error})", code="bad-document") from None
    if not isinstance(value, dict):
        raise IntegrityError(f"{where}: not an object", code="bad-document")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two readers may take two different values of a name that comes twice."""
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a name comes twice")
    return value


def _finite(text: str) -> float:
    """Infinity and NaN are no JSON, and poison every sum that they come into."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is not finite")
    return number


def _short(text: str) -> int:
    """Converting a number of a million digits takes minutes, and Python before 3.9.14 does it."""
    if len(text) > _DIGITS:
        raise ValueError("a number is too long")
    return int(text)
