"""From what the engine said and what was measured to phases that add up.

A time line is only worth reading when its parts do not overlap and their sum is the whole, so that is what this module
guarantees, for any input: time that nothing explains is a phase of its own, `unattributed`, and is never spread over others.

Engines report nested stretches (compilation inside the profiling run inside "init engine"): where two cover the same moment,
the one that began later is the more specific one and gets it. Clocks of log lines have whole seconds, so neighbours may seem
to overlap by up to one: then the later one is moved, not cut, since its length is the engine's own and exact.

All arithmetic is done in whole microseconds: documents round to those, and the sum must still hold after that.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Optional

from glowplug.core.documents.start import PHASES, Phase

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from glowplug.engines.adapter import Trace

UNATTRIBUTED: Final = "unattributed"
ENGINE_LOG: Final = "engine log"
"""`Phase.source` of what the engine's own lines say; what was measured from outside carries the caller's source."""

_MICRO: Final = 1_000_000
_JITTER: Final = 1 * _MICRO
_LONGEST: Final = 30 * 86_400.0
"""Seconds beyond which a number in a log is not a duration of a start."""


@dataclass(frozen=True)
class _Claim:
    """Somebody says that `name` happened from `start` to `end`, in microseconds since the start began."""

    start: int
    end: int
    name: str
    source: str


def timeline(
    trace: Trace,
    *,
    restore_seconds: Optional[float],
    process_seconds: Optional[float],
    ready_seconds: Optional[float],
    source: str,
) -> tuple[Phase, ...]:
    """The phases of a start, in order, without overlap; their sum is `ready_seconds`.

    All seconds count from the moment the start began (`started_at`): `process_seconds` is the moment the engine's process was
    started (None: right after the restore), `ready_seconds` the moment it was ready. `restore_seconds` is a duration; the
    restore ends where the process starts. What precedes the process apart from the restore (recognising the engine, look-ups)
    is the phase `process`. `trace.marks` count from the start of the process. `source` says who measured the moments.

    Where `ready_seconds` is None the engine was not seen ready: the phases then end with the last thing it said. A name may
    occur twice where something else came between. Numbers that cannot be durations (negative, not finite, a month) are
    ignored.
    """
    restored = _micro(restore_seconds) or 0
    begun = _micro(process_seconds)
    process = restored if begun is None else begun
    ready = _micro(ready_seconds)
    claims = [
        _Claim(0, process, "process", source),
        _Claim(max(0, process - restored), process, "restore", source),
        *_settled(_marked(trace.marks, process)),
    ]
    claims = [claim for claim in claims if claim.start < claim.end]
    end = max((claim.end for claim in claims), default=0) if ready is None else ready
    return tuple(_phases(_owned(claims, end), trace.weights_bytes))


def lined_up(claims: Iterable[Phase], end_seconds: Optional[float]) -> tuple[Phase, ...]:
    """What several parties say of one start as phases in order, without overlap; their sum is `end_seconds`.

    Where two claims cover the same moment the one that began later has it, of two that began together the shorter. `end_seconds`
    None: the end of the last claim. What no claim covers is `unattributed`. Numbers that cannot be durations are ignored.
    """
    kept = []
    loaded = 0
    for claim in claims:
        start, length = _micro(max(0.0, claim.start_seconds)), _micro(claim.seconds)
        if start is not None and length and claim.name in PHASES and claim.name != UNATTRIBUTED:
            kept.append(_Claim(start, start + length, claim.name, claim.source))
            loaded = max(loaded, claim.bytes or 0)
    end = _micro(end_seconds)
    last = max((claim.end for claim in kept), default=0) if end is None else end
    return tuple(_phases(_owned(kept, last), loaded or None))


def _micro(seconds: Optional[float]) -> Optional[int]:
    """Whole microseconds; None for what is unknown or is no duration."""
    if seconds is None or not math.isfinite(seconds) or not 0 <= seconds <= _LONGEST:
        return None
    return round(seconds * _MICRO)


def _marked(marks: Iterable[tuple[str, float, float]], process: int) -> Iterator[_Claim]:
    """Claims of the engine's marks; a mark that reaches back before the process is cut there."""
    for name, start_seconds, seconds in marks:
        length = _micro(seconds)
        if length is None or name not in PHASES or not math.isfinite(start_seconds) or abs(start_seconds) > _LONGEST:
            continue
        start = process + round(start_seconds * _MICRO)
        yield _Claim(max(process, start), max(process, start + length), name, ENGINE_LOG)


def _settled(claims: Iterable[_Claim]) -> list[_Claim]:
    """Claims in order of their start; one that overlaps the end of its predecessor by no more than the jitter begins after it."""
    settled: list[_Claim] = []
    for claim in sorted(claims, key=lambda item: (item.start, -item.end, item.name)):
        late = settled[-1].end - claim.start if settled else 0
        if 0 < late <= _JITTER and claim.end >= settled[-1].end and claim.start > settled[-1].start:
            settled.append(_Claim(claim.start + late, claim.end + late, claim.name, claim.source))
        else:
            settled.append(claim)
    return settled


def _owned(claims: list[_Claim], end: int) -> Iterator[_Claim]:
    """The stretch from 0 to `end`, each piece with the claim that began last there, or with nobody's."""
    waiting = sorted(enumerate(claims), key=lambda item: item[1].start, reverse=True)
    active: list[tuple[int, int, int, _Claim]] = []
    moments = sorted({0, end} | {moment for claim in claims for moment in (claim.start, claim.end) if 0 < moment < end})
    for moment, following in zip(moments, moments[1:]):
        while waiting and waiting[-1][1].start <= moment:
            place, claim = waiting.pop()
            heapq.heappush(active, (-claim.start, claim.end, -place, claim))
        while active and active[0][1] <= moment:
            heapq.heappop(active)
        owner = active[0][3] if active else _Claim(moment, following, UNATTRIBUTED, "")
        yield _Claim(moment, following, owner.name, owner.source)


def _phases(pieces: Iterable[_Claim], weights_bytes: Optional[int]) -> Iterator[Phase]:
    """Pieces as phases, neighbours of one name joined; the bytes belong to the longest stretch of weights."""
    joined: list[_Claim] = []
    for piece in pieces:
        if joined and (joined[-1].name, joined[-1].source) == (piece.name, piece.source):
            joined[-1] = _Claim(joined[-1].start, piece.end, piece.name, piece.source)
        else:
            joined.append(piece)
    loading = max(
        (piece for piece in joined if piece.name == "weights"), key=lambda piece: piece.end - piece.start, default=None
    )
    for piece in joined:
        yield Phase(
            name=piece.name,
            start_seconds=piece.start / _MICRO,
            seconds=(piece.end - piece.start) / _MICRO,
            bytes=weights_bytes if piece is loading else None,
            source=piece.source,
        )
