"""A store that is only read, whatever its credentials allow."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from glowplug.core.errors import AccessDeniedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from glowplug.core.clock import Deadline
    from glowplug.store.contract import Meta, Object, Store


class ReadOnly:
    """Hands reads on, refuses writes with AccessDeniedError (`read-only-store`) before any request is made."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    @property
    def url(self) -> str:
        """The address of the store."""
        return self._inner.url

    def get(self, path: str, deadline: Deadline, *, max_bytes: int = 1 << 20) -> Object:
        """Handed on."""
        return self._inner.get(path, deadline, max_bytes=max_bytes)

    def get_range(self, path: str, start: int, length: int, deadline: Deadline) -> bytes:
        """Handed on."""
        return self._inner.get_range(path, start, length, deadline)

    def stream(self, path: str, deadline: Deadline, *, chunk_bytes: int = 1 << 20) -> Iterator[bytes]:
        """Handed on."""
        return self._inner.stream(path, deadline, chunk_bytes=chunk_bytes)

    def head(self, path: str, deadline: Deadline) -> Meta | None:
        """Handed on."""
        return self._inner.head(path, deadline)

    def list(self, prefix: str, deadline: Deadline) -> Iterator[Meta]:
        """Handed on."""
        return self._inner.list(prefix, deadline)

    def put(self, path: str, source: bytes | Path, deadline: Deadline) -> None:
        """Refused."""
        self._refuse(path)

    def put_new(self, path: str, data: bytes, deadline: Deadline) -> str:
        """Refused."""
        self._refuse(path)

    def put_if(self, path: str, data: bytes, version: str, deadline: Deadline) -> str:
        """Refused."""
        self._refuse(path)

    def delete(self, path: str, deadline: Deadline) -> None:
        """Refused."""
        self._refuse(path)

    def _refuse(self, path: str) -> NoReturn:
        raise AccessDeniedError(f"{self.url} is only read here: {path} is not written", code="read-only-store")
