"""How long an agent waits before it tries again: twice as long each time, up to a most, and from the beginning once it worked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_DOUBLINGS: Final = 16


@dataclass
class Backoff:
    """Seconds, `first` then longer, never more than `most`. `draw` gives numbers in [0, 1], and by it up to half is taken off."""

    first: float
    most: float
    draw: Callable[[], float] = lambda: 1.0
    _failures: int = field(default=0, init=False)

    def next(self) -> float:
        """It failed again: how long to wait now."""
        grown = min(self.most, self.first * 2.0**self._failures)
        self._failures = min(self._failures + 1, _MOST_DOUBLINGS)
        return grown * (0.5 + self.draw() / 2)

    def reset(self) -> None:
        """It works."""
        self._failures = 0
