"""How long who was refused or not answered waits before the next try: twice as long each time, from the beginning once it worked.

The watch of the API and all loops of the agent wait by this; it stands in the lower of the two layers.
"""

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

    def next(self, asked: float | None = None) -> float:
        """It failed again: how long to wait now. `asked`: what the other side asked for, which counts up to twice the most."""
        grown = min(self.most, self.first * 2.0**self._failures)
        self._failures = min(self._failures + 1, _MOST_DOUBLINGS)
        return max(grown * (0.5 + self.draw() / 2), min(asked or 0.0, 2 * self.most))

    def reset(self) -> None:
        """It works."""
        self._failures = 0
