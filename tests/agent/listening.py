"""A `Telling` that keeps all it was told as it was told, and a clock that a test may put forward."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Later:
    """The machine's clock, `shift` seconds ahead: files have times of the machine's."""

    shift: float = 0.0
    set_forward: float = 0.0
    """Seconds by which somebody set the clock that tells the date, and no other."""

    def now(self) -> float:
        return time.time() + self.shift + self.set_forward

    def monotonic(self) -> float:
        return time.monotonic() + self.shift

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass
class Notes:
    """Every word, as (method, arguments…)."""

    words: list[tuple[Any, ...]] = field(default_factory=list)

    def of(self, method: str) -> list[tuple[Any, ...]]:
        return [word[1:] for word in self.words if word[0] == method]

    def publishes(self) -> list[str]:
        """`published`, `failed store_unavailable` … in order."""
        return [f"{word[3].outcome.value} {word[3].reason}".strip() for word in self.of("published")]

    def refusals(self) -> list[str]:
        return [word[2] for word in self.of("refused")]

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(method)

        def said(*args: Any, **more: Any) -> None:
            self.words.append((method, *args, *more.values()))

        return said
