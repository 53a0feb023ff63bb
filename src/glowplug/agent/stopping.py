"""A clock by which every deadline of the agent passes at once when it is told to end.

A fetch that is under way looks at its deadline at every piece that comes; so nothing but a clock has to know that the agent ends,
and SIGTERM ends a download of gigabytes within a piece. What hangs in the network all the same is left behind by `loop`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.core.clock import SYSTEM

if TYPE_CHECKING:
    import threading

    from glowplug.core.clock import Clock


class StoppableClock:
    """The clock of another, until `stop` is set: then it is later than any deadline, and nobody sleeps any more."""

    def __init__(self, stop: threading.Event, inner: Clock = SYSTEM) -> None:
        self._stop = stop
        self._inner = inner

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        return self._inner.now()

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back; infinite when the agent ends."""
        return float("inf") if self._stop.is_set() else self._inner.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait, but not beyond the end."""
        self._stop.wait(seconds)
