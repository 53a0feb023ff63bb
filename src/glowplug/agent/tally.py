"""One start, one word: what became of all that a pod handed over of it is told as one, and a refusal of it once.

An engine has several caches, so a start seals several archives, one after the other. Each is published as soon as it lies there;
what became of them is added up until the start's document says that nothing more comes, or for `_SUM_SECONDS`. An agent that is
killed in between has published and not told it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from glowplug.core.documents.start import PublishOutcome, PublishResult

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from glowplug.agent.pods import Pod
    from glowplug.agent.telling import Telling
    from glowplug.core.clock import Clock

_SUM_SECONDS: Final = 60.0
_MOST: Final = 5000
"""Starts that are remembered at most: pods make up their ids."""
_THERE: Final = (PublishOutcome.PUBLISHED, PublishOutcome.UNCHANGED)


@dataclass
class _Sum:
    pod: Pod
    digest: str
    until: float
    results: list[PublishResult] = field(default_factory=list)


class Tally:
    """Of one agent. Used by one thread; raises nothing."""

    def __init__(self, telling: Telling, clock: Clock) -> None:
        self._telling = telling
        self._clock = clock
        self._sums: dict[tuple[str, str, str], _Sum] = {}
        self._refused: set[tuple[str, str, str]] = set()

    def is_news(self, uid: str, start_id: str, reason: str) -> bool:
        """Whether nothing of this start was refused for this reason before."""
        about = (uid, start_id, reason)
        if about in self._refused:
            return False
        if len(self._refused) >= _MOST:
            self._refused.clear()
        self._refused.add(about)
        return True

    def add(self, pod: Pod, start_id: str, digest: str, result: PublishResult) -> None:
        """What became of some of a start's artifacts, for good."""
        if len(self._sums) >= _MOST:
            self.tell()
        until = self._clock.monotonic() + _SUM_SECONDS
        self._sums.setdefault((pod.uid, start_id, digest), _Sum(pod, digest, until)).results.append(result)

    def tell_ended(self, uid: str, starts: Collection[str] | None) -> None:
        """Nothing more comes of these starts of a pod; None: of all of them."""
        self._tell(lambda about, _: about[0] == uid and (starts is None or about[1] in starts))

    def tell_late(self) -> None:
        """Those that were added up for long enough."""
        now = self._clock.monotonic()
        self._tell(lambda _, one: now >= one.until)

    def tell(self) -> None:
        """All of it: the agent ends, or there are too many."""
        self._tell(lambda *_: True)

    def keep(self, uids: frozenset[str]) -> None:
        """Forget the refusals of all other pods."""
        self._refused = {about for about in self._refused if about[0] in uids}

    def _tell(self, whether: Callable[[tuple[str, str, str], _Sum], bool]) -> None:
        for about in [about for about, one in self._sums.items() if whether(about, one)]:
            one = self._sums.pop(about)
            for result in _added_up(one.results):
                self._telling.published(one.pod, one.pod.domain, one.digest, result)


def _added_up(results: list[PublishResult]) -> list[PublishResult]:
    """What is in the store now as one, and each other outcome once."""
    there = [one for one in results if one.outcome in _THERE]
    others = {(one.outcome, one.reason): one for one in results if one.outcome not in _THERE}
    if not there:
        return list(others.values())
    new = any(one.outcome is PublishOutcome.PUBLISHED for one in there)
    parts = tuple(dict.fromkeys(part for one in there for part in one.parts))
    size, seconds = sum(one.bytes for one in there), sum(one.seconds for one in there)
    outcome = PublishOutcome.PUBLISHED if new else PublishOutcome.UNCHANGED
    reason = next((one.reason for one in there if one.outcome is outcome), "")
    return [PublishResult(outcome, reason, parts, size, seconds), *others.values()]
