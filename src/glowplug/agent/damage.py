"""Parts that are damaged in the store itself: they are not fetched again and again, and who publishes does not take them for there.

What came damaged may have been damaged on the way. So it is read once more, and only what is then again not what its digest says is
called damaged. From then on the object is left alone while the store has that same one (`version`), but for a look at longer and
longer intervals: a server's disk may be mended under the same token. What is known here is one agent's; the next one finds it out
again, by one download.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from glowplug.core.clock import SYSTEM
from glowplug.core.errors import IntegrityError
from glowplug.kube.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Iterable

    from glowplug.core.clock import Clock

_WAITS: Final = (900.0, 21_600.0)
_REMEMBERED: Final = 1000

Blob: TypeAlias = tuple[str, str]
"""A trust domain, and the digest of a blob in it."""


class StillDamagedError(IntegrityError):
    """It was found damaged before and is the same object still; nothing was downloaded."""


@dataclass
class _Found:
    version: str
    again: float = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(*_WAITS))


class Damage:
    """What one agent knows of it. May be used from several threads."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._found: OrderedDict[Blob, _Found] = OrderedDict()

    def is_known(self, blob: Blob) -> bool:
        """Whether it was found damaged, and not whole since."""
        with self._lock:
            return blob in self._found

    def is_any(self, domain: str) -> bool:
        """Whether anything of a domain is known to be damaged."""
        with self._lock:
            return any(of == domain for of, _ in self._found)

    def rests(self, blob: Blob, version: str) -> bool:
        """Whether the store's object of this version is not to be read now."""
        with self._lock:
            found = self._found.get(blob)
            return found is not None and found.version == version and self._clock.monotonic() < found.again

    def judge(self, blob: Blob, version: str, pieces: Iterable[bytes]) -> bool | None:
        """Read it once more: None where it is whole, else whether that it is not was unknown. Raises what reading does."""
        read = hashlib.sha256()
        for piece in pieces:
            read.update(piece)
        if read.hexdigest() == blob[1]:
            self.whole(blob)
            return None
        with self._lock:
            found = self._found.get(blob)
            new = found is None or found.version != version
            if found is None or new:
                found = self._found[blob] = _Found(version)
            self._found.move_to_end(blob)
            while len(self._found) > _REMEMBERED:
                self._found.popitem(last=False)
            found.again = self._clock.monotonic() + found.backoff.next()
        return new

    def whole(self, blob: Blob) -> None:
        """It came, and was what its digest says."""
        with self._lock:
            self._found.pop(blob, None)
