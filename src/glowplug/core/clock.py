"""Time as an argument: a clock that tests can hold, and deadlines that are handed down.

Everything that waits takes a `Deadline` from its caller instead of a timeout of its own: the sum of the waits of a start is
then bounded by one number (`--restore-timeout`), whatever happens inside.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

from glowplug.core.errors import UnavailableError


class Clock(Protocol):
    """Wall time for documents, monotonic time for durations. Both in seconds."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


SYSTEM = SystemClock()


@dataclass(frozen=True)
class Deadline:
    """A moment after which nobody waits any more. `at` is in the clock's monotonic seconds."""

    at: float
    clock: Clock = SYSTEM

    @classmethod
    def after(cls, seconds: float, clock: Clock = SYSTEM) -> Deadline:
        """The moment `seconds` from now."""
        return cls(clock.monotonic() + seconds, clock)

    @classmethod
    def never(cls, clock: Clock = SYSTEM) -> Deadline:
        """A deadline that does not come."""
        return cls(float("inf"), clock)

    def remaining(self) -> float:
        """Seconds left, 0.0 when passed."""
        return max(0.0, self.at - self.clock.monotonic())

    def passed(self) -> bool:
        """Whether the moment has come."""
        return self.clock.monotonic() >= self.at

    def check(self, doing: str) -> None:
        """Raise UnavailableError (code `timeout`) when the moment has come."""
        if self.passed():
            raise UnavailableError(f"out of time while {doing}", code="timeout")

    def at_most(self, seconds: float) -> Deadline:
        """The earlier of this deadline and `seconds` from now."""
        return Deadline(min(self.at, self.clock.monotonic() + seconds), self.clock)


def iso(seconds: float) -> str:
    """RFC 3339 in UTC with milliseconds, as every document writes moments."""
    import datetime as dt  # only documents need it, and those are written beside the engine

    moment = dt.datetime.fromtimestamp(seconds, dt.timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def from_iso(text: str) -> float:
    """Seconds since the epoch of an RFC 3339 moment. Raises ValueError."""
    import datetime as dt

    return dt.datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text).timestamp()
