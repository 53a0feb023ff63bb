"""Trying again, within the caller's deadline, where trying again is safe.

Reads, deletions and writes of immutable objects are idempotent. A conditional write is safe to repeat too, with one
consequence: when the first try took effect and only its answer was lost, the second raises ConflictError although the
object is the caller's own. So **after a ConflictError callers read again**; an object with exactly the bytes that they
meant to write is their success (design: "if it is what was meant to be written, success").

Only UnavailableError is repeated: throttled, refused, broken off, or silent for `attempt_seconds` (a server that died
with the connection open costs one attempt, not the whole deadline). Waits double from `first_wait` and are drawn at
random between half and the whole, so that a fleet that failed together does not come back together; `retry_after` is
honoured. A wait that would not end before the deadline is not begun: the error is raised at once, with the cause in it
rather than "timeout". For the same reason a try that the deadline cuts short does not speak for the store: what is raised is
the failure before it, with "out of time" behind it. Only a try that had its time and heard nothing is a cause of its own.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from glowplug.core.errors import IntegrityError, UnavailableError
from glowplug.store import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from glowplug.core.clock import Deadline
    from glowplug.store.contract import Meta, Object, Store

T = TypeVar("T")

_HOPELESS: Final = frozenset({"no-space", "no-ranges"})
"""Codes of UnavailableError that a few seconds do not change."""

_SLOWEST: Final = 1 << 20
"""Bytes per second at which a range still arrives within its attempt."""


@dataclass(frozen=True)
class Policy:
    """How patient to be. Seconds throughout; `attempts` counts the first try too."""

    attempts: int = 8
    first_wait: float = 0.1
    longest_wait: float = 5.0
    attempt_seconds: float = 10.0


PATIENT: Final = Policy()
"""For everything that has a deadline of seconds to minutes."""


class Retrying:
    """See the module's text. `draw` gives numbers in [0, 1) for the jitter."""

    def __init__(self, inner: Store, policy: Policy = PATIENT, draw: Callable[[], float] = random.random) -> None:
        self._inner = inner
        self._policy = policy
        self._draw = draw

    @property
    def url(self) -> str:
        """The address of the store."""
        return self._inner.url

    def get(self, path: str, deadline: Deadline, *, max_bytes: int = 1 << 20) -> Object:
        """Idempotent."""
        return self._repeat(lambda limit: self._inner.get(path, limit, max_bytes=max_bytes), deadline)

    def get_range(self, path: str, start: int, length: int, deadline: Deadline) -> bytes:
        """Idempotent. A long range has more time for an attempt."""
        seconds = self._policy.attempt_seconds + length / _SLOWEST
        return self._repeat(
            lambda limit: self._inner.get_range(path, start, length, limit), deadline, attempt_seconds=seconds
        )

    def stream(self, path: str, deadline: Deadline, *, chunk_bytes: int = 1 << 20) -> Iterator[bytes]:
        """Begun again where it broke off.

        What was handed out already is read once more and compared by digest: an object that was replaced in between raises
        IntegrityError instead of becoming a mixture.
        """
        seen = hashlib.sha256()
        given = 0
        failed = _Failures(self._policy, self._draw, deadline)
        while True:
            fresh = False
            try:
                for piece in _rest(
                    self._inner.stream(path, deadline, chunk_bytes=chunk_bytes), given, seen.digest(), path
                ):
                    fresh = True
                    seen.update(piece)
                    given += len(piece)
                    yield piece
            except UnavailableError as error:
                failed.wait_or_raise(error, progress=fresh)
            else:
                return

    def head(self, path: str, deadline: Deadline) -> Meta | None:
        """Idempotent."""
        return self._repeat(lambda limit: self._inner.head(path, limit), deadline)

    def list(self, prefix: str, deadline: Deadline) -> Iterator[Meta]:
        """Begun again where it broke off; a path is handed out once."""
        paths.check_prefix(prefix)
        seen: set[str] = set()
        failed = _Failures(self._policy, self._draw, deadline)
        while True:
            before = len(seen)
            try:
                for meta in self._inner.list(prefix, deadline):
                    if meta.path not in seen:
                        seen.add(meta.path)
                        yield meta
            except UnavailableError as error:
                failed.wait_or_raise(error, progress=len(seen) > before)
            else:
                return

    def put(self, path: str, source: bytes | Path, deadline: Deadline) -> None:
        """Idempotent, since the object is immutable. A large one may take longer than an attempt: only the deadline bounds it."""
        self._repeat(lambda _: self._inner.put(path, source, deadline), deadline)

    def put_new(self, path: str, data: bytes, deadline: Deadline) -> str:
        """Conditional: see the module's text for a lost answer."""
        return self._repeat(lambda limit: self._inner.put_new(path, data, limit), deadline)

    def put_if(self, path: str, data: bytes, version: str, deadline: Deadline) -> str:
        """Conditional: see the module's text for a lost answer."""
        return self._repeat(lambda limit: self._inner.put_if(path, data, version, limit), deadline)

    def delete(self, path: str, deadline: Deadline) -> None:
        """Idempotent."""
        self._repeat(lambda limit: self._inner.delete(path, limit), deadline)

    def _repeat(
        self, attempt: Callable[[Deadline], T], deadline: Deadline, *, attempt_seconds: float | None = None
    ) -> T:
        seconds = self._policy.attempt_seconds if attempt_seconds is None else attempt_seconds
        failed = _Failures(self._policy, self._draw, deadline)
        while True:
            try:
                return attempt(deadline.at_most(seconds))
            except UnavailableError as error:
                failed.wait_or_raise(error)


class _Failures:
    """What one call has met so far: how often in a row, and what the last of them said."""

    def __init__(self, policy: Policy, draw: Callable[[], float], deadline: Deadline) -> None:
        self._policy = policy
        self._draw = draw
        self._deadline = deadline
        self._count = 0
        self._last: UnavailableError | None = None

    def wait_or_raise(self, error: UnavailableError, *, progress: bool = False) -> None:
        """Sleep before the next try, or raise what there is to say. `progress`: the try got further than the one before."""
        if progress:
            self._count, self._last = 0, None
        if self._last is not None and error.code == "timeout" and self._deadline.passed():
            raise _cut_short(self._last) from error
        self._count += 1
        self._last = error
        policy = self._policy
        if self._count >= policy.attempts or error.code in _HOPELESS:
            raise error
        wait = min(policy.longest_wait, policy.first_wait * 2 ** (self._count - 1)) * (0.5 + self._draw() / 2)
        wait = max(wait, error.retry_after or 0.0)
        if wait >= self._deadline.remaining():
            raise error
        self._deadline.clock.sleep(wait)


def _cut_short(cause: UnavailableError) -> UnavailableError:
    """The error of a deadline that passed while `cause` was waited out."""
    if cause.code == "timeout":
        return cause
    return UnavailableError(
        f"{cause.message} (out of time while trying again)",
        code=cause.code,
        hint=cause.hint,
        retry_after=cause.retry_after,
    )


def _rest(pieces: Iterator[bytes], skip: int, digest: bytes, path: str) -> Iterator[bytes]:
    """`pieces` without their first `skip` bytes, whose SHA-256 has to be `digest`."""
    seen = hashlib.sha256()
    left = skip
    for piece in pieces:
        head, tail = piece[:left], piece[left:]
        if left:
            seen.update(head)
            left -= len(head)
            if not left and seen.digest() != digest:
                raise IntegrityError(f"{path} was replaced while it was read")
        if tail:
            yield tail
    if left:
        raise IntegrityError(f"{path} was replaced while it was read")
