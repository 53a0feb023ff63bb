"""Time in tests: clocks that a test holds, and how late a machine that is busy, or stops for seconds, may be.

CI's machine has two processors and pauses. So a test asks what came before what, or lets a `Held` clock pass; where only the real
clock can tell, what is wrong takes minutes and `SLACK` is little beside it, or the soonest of several tries counts.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from glowplug.core.clock import Deadline

SLACK = 10.0
"""Seconds after its deadline by which a call has ended, on any machine."""


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


@contextlib.contextmanager
def by(seconds: float) -> Iterator[Deadline]:
    """A deadline that whatever happens inside keeps, give or take `SLACK`."""
    began = time.monotonic()
    yield Deadline.after(seconds)
    assert time.monotonic() - began < seconds + SLACK


def soonest(work: Callable[[], object], enough: float, tries: int = 5) -> float:
    """The shortest time that `work` took, in as few tries as it needs to be below `enough`: a pause spoils one, a fault all."""
    best = float("inf")
    for _ in range(tries):
        began = time.monotonic()
        work()
        best = min(best, time.monotonic() - began)
        if best < enough:
            break
    return best
