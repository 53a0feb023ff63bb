"""Several starts side by side: what differs, by how much, and which phase explains most of it.

A phase that a start with a time line does not have took 0 s there. A start without a time line (a log without stamps) has no
seconds for any phase, which is `null` and not 0; nor has a pod's that is not ready for a phase that may still come. Nobody is
faster than what has not ended.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.core.documents.start import PHASES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from glowplug.core.documents.start import Start

REGRESSION_SHARE: Final = 0.10
REGRESSION_SECONDS: Final = 1.0
"""A start is a regression when it is slower by more than both: small starts jitter by shares, large ones by seconds."""


@dataclass(frozen=True)
class Row:
    """One phase over all starts, in their order. Differences are to the baseline; None where one of the two is unknown."""

    phase: str
    seconds: tuple[float | None, ...]
    difference_seconds: tuple[float | None, ...]


@dataclass(frozen=True)
class Explanation:
    """The phase with most of the difference between the baseline and `start`, the one that differs most from it.

    `share`: its part of all seconds that changed in the direction of the whole, more than 0 and at most 1.
    """

    phase: str
    share: float
    seconds: float
    start: str


@dataclass(frozen=True)
class Comparison:
    """`comparison` of `glowplug.startup/1`. `baseline` is the id of the first start; all lists are in the order of the starts."""

    baseline: str
    rows: tuple[Row, ...]
    explains: Explanation | None
    verdicts: tuple[str, ...]
    ready: Row
    engine_init: Row


def compare(starts: Sequence[Start]) -> Comparison:
    """Compare starts to the first of them. Raises ValueError for none."""
    if not starts:
        raise ValueError("nothing to compare")
    rows = tuple(
        _row(phase, starts, lambda start, phase=phase: phase_seconds(start, phase))  # type: ignore[misc]
        for phase in PHASES
        if any(item.name == phase for start in starts for item in start.phases)
    )
    return Comparison(
        baseline=starts[0].id,
        rows=rows,
        explains=_explanation(starts, rows),
        verdicts=tuple(start.verdict.compile.value for start in starts),
        ready=_row("ready", starts, lambda start: start.ready_seconds),
        engine_init=_row("engine_init", starts, lambda start: start.engine_init_seconds),
    )


def is_unfinished(start: Start) -> bool:
    """Whether it is a pod's that never was ready: its phases are those until now, or until it died."""
    return start.kubernetes is not None and start.ready_seconds is None


def is_starting(start: Start) -> bool:
    """Whether it is a pod's whose container runs and is not ready yet."""
    known = start.kubernetes or {}
    return is_unfinished(start) and "run" in known and not (known.get("ended") or known.get("waiting"))


def phase_seconds(start: Start, phase: str) -> float | None:
    """Seconds of a phase, all its stretches together; None for a start without a time line, or that has not come so far."""
    if not start.phases or (is_unfinished(start) and all(item.name != phase for item in start.phases)):
        return None
    return math.fsum(item.seconds for item in start.phases if item.name == phase)


def measure(start: Start) -> tuple[str, float] | None:
    """What a limit is held against: the seconds until ready, else those of the engine's initialization, with their name."""
    if start.ready_seconds is not None:
        return "ready", start.ready_seconds
    if start.engine_init_seconds is not None:
        return "engine init", start.engine_init_seconds
    return None


def exceeds(start: Start, limit_seconds: float) -> str:
    """Why a start breaks a limit, "" where it keeps it. A start whose seconds are unknown does not keep it."""
    found = measure(start)
    if found is None:
        return "neither the seconds until ready nor those of engine init are known"
    name, seconds = found
    return f"{name} took {seconds:.1f} s, more than {limit_seconds:g} s" if seconds > limit_seconds else ""


def regression(baseline: Start, start: Start) -> str:
    """Why a start is slower than the baseline, "" where it is not. What cannot be compared counts as slower."""
    for name, before, after in (
        ("ready", baseline.ready_seconds, start.ready_seconds),
        ("engine init", baseline.engine_init_seconds, start.engine_init_seconds),
    ):
        if before is None or after is None:
            continue
        if after - before > max(REGRESSION_SECONDS, REGRESSION_SHARE * before):
            return f"{name} took {after:.1f} s, the baseline {before:.1f} s"
        return ""
    return "the two have no seconds in common that could be compared"


def _row(name: str, starts: Sequence[Start], of: Callable[[Start], float | None]) -> Row:
    seconds = tuple(of(start) for start in starts)
    base = seconds[0]
    return Row(
        name,
        tuple(_rounded(value) for value in seconds),
        tuple(
            None if value is None or base is None or not _comparable(starts[0], start) else _rounded(value - base)
            for start, value in zip(starts, seconds, strict=True)
        ),
    )


def _comparable(one: Start, other: Start) -> bool:
    return one is other or not (is_unfinished(one) or is_unfinished(other))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _explanation(starts: Sequence[Start], rows: Sequence[Row]) -> Explanation | None:
    """What the start that is furthest from the baseline owes its distance to, among those that are as far known as it."""
    known = starts[0].ready_seconds is not None
    totals = [
        math.fsum(row.difference_seconds[place] or 0.0 for row in rows)
        if starts[place].phases and starts[0].phases and (starts[place].ready_seconds is not None) == known
        else 0.0
        for place in range(len(starts))
    ]
    furthest = max(range(len(starts)), key=lambda place: abs(totals[place]))
    total = totals[furthest]
    if total == 0.0:
        return None
    with_it = {row.phase: row.difference_seconds[furthest] or 0.0 for row in rows}
    same = {phase: value for phase, value in with_it.items() if value * total > 0}
    phase = max(same, key=lambda name: abs(same[name]))
    share = same[phase] / math.fsum(same.values())
    return Explanation(phase, round(share, 4), round(same[phase], 6), starts[furthest].id)
