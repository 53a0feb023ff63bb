"""Why domains do not have yet what they are to have: the last failure of each, for whoever asks the agent or looks at its node.

/readyz has it in words that hold no name of anything; the node has it whole, in `check/standing.py`'s file and, where it lasts, as
an event.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from glowplug.agent.events import quoted
from glowplug.check import standing
from glowplug.check.standing import Fault, Standing
from glowplug.core import units
from glowplug.core.clock import SYSTEM, iso
from glowplug.core.errors import GlowplugError
from glowplug.launch.words import explained

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from glowplug.agent.settings import Settings
    from glowplug.agent.telling import Telling
    from glowplug.core.clock import Clock

_LASTS_SECONDS: Final = 60.0


@dataclass(frozen=True)
class _Trouble:
    what: str
    error: GlowplugError
    since: float
    since_date: float
    date: float


class Troubles:
    """Of one agent. May be used from several threads; raises nothing. `clock` is one that goes on while the agent ends."""

    def __init__(self, settings: Settings, telling: Telling, clock: Clock = SYSTEM) -> None:
        self._root = settings.root
        self._kept = settings.kept
        self._telling = telling
        self._clock = clock
        self._lock = threading.Lock()
        self._found: dict[str, _Trouble] = {}
        self._again = 0.0
        self._standing = Standing(settings.node_name)
        self._written: Standing | None = None

    def begin(self) -> None:
        """What the agent before this one said is not so any more."""
        with self._lock:
            self._write()

    def failed(self, domains: Iterable[str], what: str, error: GlowplugError) -> None:
        """`what` (`list`, `fetch`, `api`) did not work for these domains."""
        now, date = self._clock.monotonic(), self._clock.now()
        with self._lock:
            self._again = 0.0
            for domain in domains:
                before = self._found.get(domain)
                since = (before.since, before.since_date) if before else (now, date)
                self._found[domain] = _Trouble(what, error, *since, date)
            lasting = {name: one for name, one in self._found.items() if now - one.since > _LASTS_SECONDS}
            self._write()
        if lasting:
            first = next(iter(lasting.values()))
            self._telling.lasting(list(lasting), first.error, now - min(one.since for one in lasting.values()))

    def over(self, domains: Iterable[str]) -> None:
        """These domains have what they are to have."""
        with self._lock:
            for domain in domains:
                self._found.pop(domain, None)
            self._write()

    def pausing(self, seconds: float) -> None:
        """What failed is tried again after so long."""
        self._again = self._clock.monotonic() + seconds

    def words(self, domain: str) -> str:
        """Why a domain has not what it is to have, "" where nothing failed. Without names: whoever reaches the port may ask."""
        with self._lock:
            found = self._found.get(domain)
        if found is None:
            return ""
        left = self._again - self._clock.monotonic()
        again = f"tried again in {units.format_seconds(left)}" if left > 0 else "tried again now"
        if found.what == "api":
            return f"{quoted(str(found.error))}; {again}"
        return f"the store gave {explained(_word(found.error))}; {again}"

    def strangers(self, found: Mapping[str, str]) -> None:
        """Trust domains that are not kept and have pods here, each with one of them."""
        with self._lock:
            self._standing = replace(self._standing, strangers=dict(found))
            self._write()

    def _write(self) -> None:
        faults = {
            domain: Fault(_word(one.error), quoted(str(one.error)), iso(one.since_date), iso(one.date))
            for domain, one in self._found.items()
        }
        self._standing = replace(self._standing, faults=faults)
        if not self._kept or self._standing == self._written:
            return
        try:
            standing.write(self._root, self._standing)
        except (OSError, GlowplugError) as error:
            self._telling.failed("disk", error)
        else:
            self._written = self._standing


def _word(error: GlowplugError) -> str:
    return error.code.replace("-", "_")
