"""What a store is, in prose. Every back end and every decorator keeps these promises; one conformance suite holds them to it.

- An object is bytes under a path. Paths are relative to the store's address, made of `[A-Za-z0-9._-]` parts joined by `/`
  (`store/paths.py`; anything else raises BadInputError). No path is another one's directory: `a` and `a/b` cannot both be objects.
- An object appears whole or not at all, and a reader never sees a mixture of two versions.
- `get_range` gives the bytes of the range that the object has: fewer than asked for where it ends sooner, none where it ends
  before the range begins, and never more. They are of one version. A server that gives something else than the range (all of
  the object, other bytes) is UnavailableError, `no-ranges` where it does not know ranges at all; what it sends is not kept.
- `version` is an opaque token of one content (an ETag). Two equal tokens mean equal content.
- `put_new` stores only where nothing was; `put_if` only where the version is still the given one. Of several that try at
  once exactly one succeeds, the others raise ConflictError. A store without conditional writes raises ConflictError-free
  AccessDeniedError with code `read-only-store` for both: it is read-only, and says so.
- `put` stores unconditionally; it is for immutable objects named by their content.
- A write whose answer was lost may have happened. Callers decide by reading again.
- Everything that waits takes a `Deadline` and ends by it, retries included: UnavailableError, with the code `timeout`, or with
  that of the fault that was being waited out when the deadline passed.
- Failures are NotFoundError, ConflictError, AccessDeniedError, UnavailableError (throttled, refused, slow), each with the code
  that names the cause, or IntegrityError where the back end itself finds a checksum wrong. `no-bucket`, `wrong-region`,
  `no-credentials` and `access-denied` are AccessDeniedError: no answer to what was asked, and no use in trying again; so
  NotFoundError always means that this object is not there. Nothing else is raised for a foreseeable fault.
- A store object may be used from several threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from glowplug.core.clock import Deadline


@dataclass(frozen=True)
class Meta:
    """What a listing knows of an object. `modified` is in seconds since the epoch."""

    path: str
    size: int
    modified: float
    version: str


@dataclass(frozen=True)
class Object:
    """A small object, read whole."""

    data: bytes
    meta: Meta


class Store(Protocol):
    """See the module's text for the promises."""

    @property
    def url(self) -> str:
        """The address as people write it, without credentials."""
        ...

    def get(self, path: str, deadline: Deadline, *, max_bytes: int = 1 << 20) -> Object:
        """Read a small object. Raises NotFoundError; IntegrityError (`archive-limit`) beyond `max_bytes`."""
        ...

    def get_range(self, path: str, start: int, length: int, deadline: Deadline) -> bytes:
        """The bytes from `start` on, at most `length` (1 or more) of them, held in memory. One request.

        b"" where the object ends before `start`. Raises NotFoundError; BadInputError for a range that is none.
        """
        ...

    def stream(self, path: str, deadline: Deadline, *, chunk_bytes: int = 1 << 20) -> Iterator[bytes]:
        """Read a large object in order, piece by piece. Raises as `get`, also in the middle."""
        ...

    def head(self, path: str, deadline: Deadline) -> Meta | None:
        """What is known of an object, None where there is none."""
        ...

    def list(self, prefix: str, deadline: Deadline) -> Iterator[Meta]:
        """All objects below `prefix` (whole path parts; "" is everything), in no promised order."""
        ...

    def put(self, path: str, source: bytes | Path, deadline: Deadline) -> None:
        """Store an immutable object."""
        ...

    def put_new(self, path: str, data: bytes, deadline: Deadline) -> str:
        """Store where nothing is; returns the version."""
        ...

    def put_if(self, path: str, data: bytes, version: str, deadline: Deadline) -> str:
        """Replace exactly `version`; returns the new one. Raises ConflictError, also where the object is gone."""
        ...

    def delete(self, path: str, deadline: Deadline) -> None:
        """Remove; an absent object is not an error."""
        ...
