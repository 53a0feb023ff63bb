"""How often a store was asked and how many bytes went either way: what `-v` prints and benchmarks compare.

Counted below the retries, so that a repeated request counts twice.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.core.clock import Deadline
    from glowplug.store.contract import Meta, Object, Store


@dataclass(frozen=True)
class Counts:
    """Calls of the store, and the bytes of objects read and written by those that succeeded.

    A multipart upload and a listing of many pages are one call each.
    """

    calls: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


class Counter:
    """A running total that several stores and threads may share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = Counts()

    @property
    def counts(self) -> Counts:
        """The total now."""
        return self._counts

    def add(self, *, calls: int = 0, bytes_read: int = 0, bytes_written: int = 0) -> None:
        """Add to the total."""
        with self._lock:
            now = self._counts
            self._counts = Counts(now.calls + calls, now.bytes_read + bytes_read, now.bytes_written + bytes_written)


class Counting:
    """Hands everything on and adds to `counter`."""

    def __init__(self, inner: Store, counter: Counter) -> None:
        self._inner = inner
        self._counter = counter

    @property
    def url(self) -> str:
        """The address of the store."""
        return self._inner.url

    def get(self, path: str, deadline: Deadline, *, max_bytes: int = 1 << 20) -> Object:
        """Handed on."""
        self._counter.add(calls=1)
        found = self._inner.get(path, deadline, max_bytes=max_bytes)
        self._counter.add(bytes_read=len(found.data))
        return found

    def get_range(self, path: str, start: int, length: int, deadline: Deadline) -> bytes:
        """Handed on."""
        self._counter.add(calls=1)
        data = self._inner.get_range(path, start, length, deadline)
        self._counter.add(bytes_read=len(data))
        return data

    def stream(self, path: str, deadline: Deadline, *, chunk_bytes: int = 1 << 20) -> Iterator[bytes]:
        """Handed on; bytes count as they come."""
        self._counter.add(calls=1)
        for piece in self._inner.stream(path, deadline, chunk_bytes=chunk_bytes):
            self._counter.add(bytes_read=len(piece))
            yield piece

    def head(self, path: str, deadline: Deadline) -> Meta | None:
        """Handed on."""
        self._counter.add(calls=1)
        return self._inner.head(path, deadline)

    def list(self, prefix: str, deadline: Deadline) -> Iterator[Meta]:
        """Handed on."""
        self._counter.add(calls=1)
        yield from self._inner.list(prefix, deadline)

    def put(self, path: str, source: bytes | Path, deadline: Deadline) -> None:
        """Handed on."""
        self._counter.add(calls=1)
        self._inner.put(path, source, deadline)
        self._counter.add(bytes_written=source.stat().st_size if isinstance(source, Path) else len(source))

    def put_new(self, path: str, data: bytes, deadline: Deadline) -> str:
        """Handed on."""
        self._counter.add(calls=1)
        version = self._inner.put_new(path, data, deadline)
        self._counter.add(bytes_written=len(data))
        return version

    def put_if(self, path: str, data: bytes, version: str, deadline: Deadline) -> str:
        """Handed on."""
        self._counter.add(calls=1)
        new = self._inner.put_if(path, data, version, deadline)
        self._counter.add(bytes_written=len(data))
        return new

    def delete(self, path: str, deadline: Deadline) -> None:
        """Handed on."""
        self._counter.add(calls=1)
        self._inner.delete(path, deadline)
