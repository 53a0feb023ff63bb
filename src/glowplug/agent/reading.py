"""The store as one fetch of an agent reads it: only so many blobs of all fetches at once, and none that is known to be damaged.

A blob that is read takes about a hundred megabytes, whatever its size: ranges are asked for ahead (`store/objects.py`). Four
threads fetch keys, with four blobs each, and the container's limit is a gigabyte. So the streams of all of them share `STREAMS`
places, and who wants another waits for one that ends.

A reader that finds damage gives its stream up without closing it, since the error that it raised holds it; it is closed when its
thread reads the next one, or the fetch is over.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Final

from glowplug.agent.damage import StillDamagedError
from glowplug.cache import layout
from glowplug.store.readonly import ReadOnly

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from glowplug.agent.damage import Damage
    from glowplug.core.clock import Deadline
    from glowplug.store.contract import Store

STREAMS: Final = 4
"""Blobs that an agent reads at the same time."""
_LOOK_SECONDS: Final = 0.5


class Places:
    """The places that all fetches of an agent share. May be used from several threads."""

    def __init__(self, count: int = STREAMS) -> None:
        self._free = threading.Semaphore(count)

    def take(self, deadline: Deadline) -> None:
        """Wait for one. Raises UnavailableError (`timeout`)."""
        while not self._free.acquire(timeout=_LOOK_SECONDS):
            deadline.check("waiting for other downloads of this agent")

    def give(self) -> None:
        """It is free again."""
        self._free.release()


class Reading(ReadOnly):
    """The store for one fetch, which ends with the block. Several threads may use it, each of which reads one blob at a time."""

    def __init__(self, store: Store, domain: str, places: Places, damage: Damage) -> None:
        super().__init__(store)
        self._store = store
        self._domain = domain
        self._places = places
        self._damage = damage
        self._lock = threading.Lock()
        self._open: dict[int, Generator[bytes]] = {}

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            left, self._open = tuple(self._open.values()), {}
        for one in left:
            _close(one)

    def stream(self, path: str, deadline: Deadline, *, chunk_bytes: int = 1 << 20) -> Iterator[bytes]:
        """As the store, in its turn. Raises StillDamagedError too, before anything is downloaded."""
        pieces = self._pieces(path, deadline, chunk_bytes)
        with self._lock:
            before = self._open.pop(threading.get_ident(), None)
            self._open[threading.get_ident()] = pieces
        if before is not None:
            _close(before)
        return pieces

    def _pieces(self, path: str, deadline: Deadline, chunk_bytes: int) -> Generator[bytes]:
        digest = layout.parse_blob_path(path)
        if digest is not None and self._damage.is_known((self._domain, digest)):
            meta = self._store.head(path, deadline)
            if meta is not None and self._damage.rests((self._domain, digest), meta.version):
                raise StillDamagedError(f"part {digest[:12]} in the store is still the object that was found damaged")
        self._places.take(deadline)
        try:
            yield from self._store.stream(path, deadline, chunk_bytes=chunk_bytes)
        finally:
            self._places.give()


def _close(pieces: Generator[bytes]) -> None:
    with contextlib.suppress(Exception):  # nobody reads it any more; one that is being read (ValueError) closes itself
        pieces.close()
