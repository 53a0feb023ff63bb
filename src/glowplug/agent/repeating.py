"""The same fault again is no line of its own: where the API server is away for a night, the log is to be read in the morning.

Numbers count every fault (`metrics.FAILURES`); here it is decided which are written. The first is, then one in `APART_SECONDS`,
which says how many there were since.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.core.clock import SYSTEM

if TYPE_CHECKING:
    from glowplug.core.clock import Clock

APART_SECONDS: Final = 600.0
_REMEMBERED: Final = 500
"""Faults that differ. Where there are more at once, some are written more often than they would have to be."""


@dataclass
class _Told:
    at: float
    since: int = 0


class Repeating:
    """Which faults are written. May be used from several threads."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._told: OrderedDict[tuple[str, ...], _Told] = OrderedDict()
        self._lock = threading.Lock()

    def again(self, *about: str) -> int | None:
        """How often this was told to us since it was written last, without this time; None where it is not to be written now."""
        now = self._clock.monotonic()
        with self._lock:
            told = self._told.get(about)
            if told is not None and now - told.at < APART_SECONDS:
                told.since += 1
                return None
            self._told[about] = _Told(now)
            self._told.move_to_end(about)
            while len(self._told) > _REMEMBERED:
                self._told.popitem(last=False)
            return told.since if told is not None else 0
