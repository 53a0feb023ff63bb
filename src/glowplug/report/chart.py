"""Geometry of the charts, as numbers; the templates make SVG of them.

Bars are drawn in a box of 1000 units that is stretched to the width at hand; words stand beside them as HTML. Text inside a
stretched drawing would be unreadable on a telephone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.core.documents.start import PHASES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from glowplug.core.documents.start import Phase

WIDTH: Final = 1000.0
_THINNEST: Final = 2.0
_SHORTEST: Final = 1e-12
_EDGE: Final = 96.0


@dataclass(frozen=True)
class Bar:
    """A horizontal bar: where it begins and how long it is, in units of the box. `kind` is a class of the style sheet."""

    kind: str
    x: str
    width: str
    title: str


@dataclass(frozen=True)
class Tick:
    """A mark of a scale: where (percent of the width), what it says, whether its word would stick out at the right."""

    at: str
    label: str
    edge: bool = False


def kind_of(phase: str) -> str:
    """The style sheet's class of a phase: names of phases only, whatever a document calls them."""
    return phase if phase in PHASES else "unattributed"


def bar(kind: str, start: float, length: float, whole: float, title: str = "") -> Bar:
    """A bar for `length` from `start` on, on a scale that ends at `whole` (same unit); never wider than the box."""
    scale = WIDTH / whole if whole > _SHORTEST else 0.0
    x = min(max(start * scale, 0.0), WIDTH - _THINNEST)
    width = min(max(length * scale, _THINNEST), WIDTH - x)
    return Bar(kind, _number(x), _number(width), title)


def end_of(phases: Sequence[Phase]) -> float:
    """Seconds at which the last phase ends, 0.0 for none."""
    return max((phase.start_seconds + phase.seconds for phase in phases), default=0.0)


def ticks(whole: float) -> tuple[Tick, ...]:
    """Round marks for a scale from 0 to `whole` seconds: four to eight of them."""
    if not _SHORTEST < whole < math.inf:
        return ()
    step = 10 ** math.floor(math.log10(whole / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if whole / (step * factor) <= 8)
    count = int(whole / step + 1e-9)
    marks = [(100 * place * step / whole, f"{place * step:g} s") for place in range(count + 1)]
    return tuple(Tick(_number(at), label, at > _EDGE) for at, label in marks)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
