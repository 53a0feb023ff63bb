"""Clocks that a test holds: what waits on them costs no time, and no machine is too slow for them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Held:
    """A clock that moves when somebody sleeps, and otherwise when it is told to."""

    at: float = 0.0
    slept: list[float] = field(default_factory=list)

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds
