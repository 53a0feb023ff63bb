"""A store between an agent and the real one: what is asked of it is counted, and a test may refuse it or do something first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from glowplug.core.clock import Deadline
from glowplug.store.contract import Meta, Store


class Meddled:
    """`before(what, path)` is called first, and may raise the store's errors; `asked` is all that it was called with."""

    def __init__(self, store: Store, before: Callable[[str, str], None] = lambda _what, _path: None) -> None:
        self._store = store
        self.before = before
        self.asked: list[tuple[str, str]] = []

    def of(self, what: str, part: str) -> int:
        """How often this was asked of paths with `part` in them."""
        return sum(said == what and part in path for said, path in self.asked)

    def list(self, prefix: str, deadline: Deadline) -> Iterator[Meta]:
        self._ask("list", prefix)
        yield from list(self._store.list(prefix, deadline))

    def __getattr__(self, what: str) -> Any:
        asked = getattr(self._store, what)

        def said(path: str, *args: Any, **more: Any) -> Any:
            self._ask(what, path)
            return asked(path, *args, **more)

        return said if callable(asked) else asked

    def _ask(self, what: str, path: str) -> None:
        self.asked.append((what, path))
        self.before(what, path)
