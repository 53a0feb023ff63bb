"""What this node ought to hold, before its pods ask for it: list, choose, fetch, say that it is there.

Whatever is slow or fails here decides how long a pod waits, and the rules are about that:

- Program and word come first, before the store is asked anything. A pod that finds no word waits in vain.
- A store or an API server that has not answered within `_IMPATIENT_SECONDS`, or that refuses, is said at once: nobody waits for it.
  It is asked again, more and more rarely, and once it answers all goes its way without anybody's help.
- The marker comes when the first fetch of a domain is done, or after the time that this was given, whatever the store does.
- All of this may be killed at any moment and begun again: what is on the disk is whole or is removed, and the rest is fetched.

The store is listed at most once in `relist_seconds`, by each node at a moment of its own: what could not be fetched is tried again
by the same listing. Keys that are wanted by name do not wait for any of this (`wanting.py`), and neither do those of pods that
come (`looking.py`). The store's switch is asked once a minute; when it is on again, the store is listed.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.agent import housekeeping, quarantine, ranking
from glowplug.agent.bringing import LIST_SECONDS, Bringing, Key
from glowplug.agent.keeping import Keeping
from glowplug.agent.looking import Looking, manifests_of
from glowplug.agent.ranking import Listed, Size
from glowplug.agent.saying import Saying
from glowplug.agent.troubles import Troubles
from glowplug.agent.wanting import Wanting, wait
from glowplug.cache import uses
from glowplug.cache.workers import workers
from glowplug.core.clock import SYSTEM, Deadline
from glowplug.core.errors import GlowplugError
from glowplug.kube.backoff import Backoff
from glowplug.nodestore import layout, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from glowplug.agent.bringing import Sizes
    from glowplug.agent.damage import Damage
    from glowplug.agent.ranking import Wish
    from glowplug.agent.settings import Settings
    from glowplug.agent.telling import Telling
    from glowplug.cache.format import Manifest
    from glowplug.core.clock import Clock
    from glowplug.nodestore.write import Usage
    from glowplug.store.contract import Store

_IMPATIENT_SECONDS: Final = 5.0
_SWITCH_SECONDS: Final = 60.0
_KEYS_AT_ONCE: Final = 2
_MOST_READ: Final = 512
_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0


@dataclass(frozen=True)
class Source:
    """Where answers come from. Each may raise GlowplugError, and is asked again later.

    `store`: the store, opened when it is first needed; `gpus`: every NVML name that this node's labels can mean; `wishes`: what
    pods of the cluster ask for, by trust domain; `program`: the bytes of glowplug.pyz.
    """

    store: Callable[[], Store]
    gpus: Callable[[], Sequence[str]]
    wishes: Callable[[], Mapping[str, Sequence[Wish]]]
    program: Callable[[], bytes]


class Prewarm:
    """See the module's text. `run`, `run_patience`, `run_switch`, `wanting.run` and `looking.run` each want a thread of their own;
    the rest is for others.
    """

    def __init__(
        self,
        settings: Settings,
        telling: Telling,
        source: Source,
        *,
        verify: Callable[[Manifest], None] | None = None,
        clock: Clock = SYSTEM,
        draw: Callable[[], float] = lambda: 0.5,
        damage: Damage | None = None,
        troubles: Troubles | None = None,
    ) -> None:
        """`clock` is one that stops with the agent; `draw` gives numbers in [0, 1) for the jitter; others know `damage` and
        `troubles`, too."""
        self._troubles = troubles or Troubles(settings, telling)
        self._settings = settings
        self._telling = telling
        self._source = source
        self._clock = clock
        self._draw = draw
        self._started = SYSTEM.monotonic()
        self._begun = threading.Event()
        self._over = threading.Event()
        self._saying = Saying(settings)
        self._bringing = Bringing(settings, telling, verify=verify, clock=clock, damage=damage)
        self._keeping = Keeping(settings, telling, self._bringing, self._saying, clock)
        self.wanting = Wanting(settings, source.store, self._bringing, self._keeping, self._begun, clock)
        self.looking = Looking(
            settings, source.store, source.gpus, self._bringing, self._keeping, self._saying, self._begun, clock
        )
        self._answered: set[str] = set()
        self._done: set[str] = set()
        self._listings: dict[str, list[Listed]] = {}

    def unready(self) -> str:
        """Why pods of this node are not served yet, "" when they are: program and marker of each domain are there."""
        if not self._settings.kept:
            return ""
        if not self._begun.is_set():
            return "nothing is in place yet"
        missing = ((domain, self._saying.missing(domain)) for domain in self._settings.domains)
        return "\n".join(f"domain {domain}: {self._why(domain, name)}" for domain, name in missing if name)

    def _why(self, domain: str, missing: str) -> str:
        if missing != layout.READY:
            return f"{missing} is not there"
        return self._troubles.words(domain) or "what its pods are likely to need is being fetched"

    # --- threads ----------------------------------------------------------------------------------------------------

    def run(self, stop: threading.Event, tick: Callable[[], None] = lambda: None) -> None:
        """Begin, then list and fetch again and again until `stop` is set. Raises nothing foreseeable."""
        backoff = Backoff(_FIRST_WAIT, _LONGEST_WAIT, self._draw)
        relist = Deadline.after(0.0)
        while not stop.is_set():
            tick()
            work = self.go_on
            if self._keeping.was_switched_on() or relist.passed():
                work = self.round
                relist = Deadline.after(self._settings.relist_seconds * (1.0 + self._draw() / 2))
            if self.begin() and work(tick):
                backoff.reset()
                pause = self._bringing.pause()
            else:
                pause = backoff.next()
            self._troubles.pausing(min(pause, relist.remaining()))
            wait(stop, min(pause, relist.remaining()), tick, self._keeping.is_switched_on)

    def run_switch(self, stop: threading.Event, tick: Callable[[], None] = lambda: None) -> None:
        """Ask the store's switch about once a minute, whatever is being fetched. Raises nothing foreseeable."""
        while not stop.is_set():
            wait(stop, _SWITCH_SECONDS * (0.75 + self._draw() / 4), tick)
            if self._settings.fetches and self._begun.is_set() and not stop.is_set():
                try:
                    self._keeping.is_withheld(self._source.store())
                except GlowplugError as error:
                    self._bringing.failed("list", error)
                except OSError as error:
                    self._bringing.failed("disk", error)

    def run_patience(self, stop: threading.Event) -> None:
        """Say in time that waiting is vain, and mark domains as ready when their time is over. Ends after that."""
        if not self._settings.fetches or stop.wait(_IMPATIENT_SECONDS):
            return
        for domain in self._settings.domains:
            if domain not in self._answered:
                self._say(domain, under_way=False)
        if not stop.wait(max(0.0, self._settings.prewarm_seconds - _IMPATIENT_SECONDS)):
            self._over.set()
            for domain in self._settings.domains:
                self._mark_ready(domain)

    def begin(self) -> bool:
        """Program, word and no marker for each domain; what is damaged or nobody's business any more goes. Whether that is done."""
        if self._begun.is_set():
            return True
        try:
            if self._settings.kept:
                self._put_in_place()
                self._troubles.begin()
        except (OSError, GlowplugError) as error:
            self._bringing.failed("disk" if isinstance(error, OSError) else "program", error)
            return False
        self._begun.set()
        if self._over.is_set():  # all of it came late, and the marker that was set for that is gone
            for domain in self._settings.domains:
                self._mark_ready(domain)
        return True

    def round(self, tick: Callable[[], None] = lambda: None) -> bool:
        """List the store and fetch what is missing; whether all that was asked was answered. Raises nothing foreseeable."""
        self._listings.clear()
        return self.go_on(tick)

    def go_on(self, tick: Callable[[], None] = lambda: None) -> bool:
        """As `round`, but by what was listed before where that succeeded."""
        if not self._settings.fetches:
            return True
        what = "api"
        try:
            gpus = tuple(self._source.gpus())
            what = "list"
            store = self._source.store()
            if self._keeping.is_withheld(store):
                self._troubles.over(self._settings.domains)
                return True
            if not self._listings:
                self._keeping.was_switched_on()  # all is listed now
            good = self._bring_all(store, gpus, tick)
            self._keeping.tidy()
        except GlowplugError as error:
            self._failed(self._settings.domains, what, error)
            self._in_vain(self._settings.domains)
            return False
        except OSError as error:
            self._bringing.failed("disk", error)
            return False
        return good

    # --- the beginning ----------------------------------------------------------------------------------------------

    def _put_in_place(self) -> None:
        """Raises OSError, GlowplugError."""
        root, domains, fetches = self._settings.root, self._settings.domains, self._settings.fetches
        data = self._source.program()
        if fetches:
            self._keeping.withheld_before()
        for domain in domains:
            write.put_program(root, domain, data)
            if fetches:
                self._saying.unready(domain)
            self._saying.fetching(domain, under_way=fetches)
        for domain in housekeeping.domains(root):
            if domain not in domains:
                write.take_back(root, domain)
                self._keeping.clear(domain, "domain")
            elif not fetches:
                self._keeping.clear(domain, "observe" if self._settings.observe else "no_store")
            else:
                housekeeping.remove_damaged(root, domain, self._telling)
        if not fetches:
            for domain in domains:
                self._saying.ready(domain)

    # --- rounds -----------------------------------------------------------------------------------------------------

    def _bring_all(self, store: Store, gpus: Sequence[str], tick: Callable[[], None]) -> bool:
        """Raises OSError."""
        self._list_all(store, gpus, tick)
        present = write.usage(self._settings.root)
        plan, sizes = self._choose(store, present)
        left_out = quarantine.left_out(self._settings.root)
        missing = [key for key in plan if not self._bringing.is_settled(key, left_out)]
        trouble = {domain for domain, _ in sizes.trouble}
        left = Counter(key.domain for key in missing)
        for domain in self._listings.keys() - trouble:
            if not left[domain]:
                self._finish(domain)
            elif not self._saying.is_ready(domain):
                self._say(domain, under_way=True)
        coming = [self._bringing.size(key) for key in missing if not self._bringing.is_here(key.about)]
        self._keeping.make_room(present, coming, frozenset(key.about for key in plan) | sizes.unasked)
        with workers(_KEYS_AT_ONCE) as pool:
            running = [
                (key.domain, pool.submit(self._bringing.bring, store, key.domain, key.listed.place.path))
                for key in missing
            ]
            for domain, answer in running:
                left[domain] -= 1
                if not answer.result():
                    trouble.add(domain)
                elif not left[domain] and domain not in trouble:
                    self._finish(domain)
                tick()
        self._in_vain(trouble)
        fault = self._bringing.fault
        if trouble and fault is not None and not self._ending:
            self._troubles.failed(trouble, "fetch", fault)
        self._troubles.over(self._listings.keys() - trouble)
        return len(self._listings) == len(self._settings.domains) and not trouble

    def _list_all(self, store: Store, gpus: Sequence[str], tick: Callable[[], None]) -> None:
        """Raises OSError."""
        for domain in self._settings.domains:
            tick()
            if domain not in self._listings:
                try:
                    self._listings[domain] = self._list(store, domain, gpus)
                except GlowplugError as error:
                    self._failed([domain], "list", error)
                    self._in_vain([domain])
                    continue
                self._answered.add(domain)

    def _list(self, store: Store, domain: str, gpus: Sequence[str]) -> list[Listed]:
        """The keys of a domain that this node's GPUs can use; what it has no more goes. Raises the store's errors, OSError."""
        began, soon = self._clock.monotonic(), Deadline.after(LIST_SECONDS, self._clock)
        found = list(manifests_of(store, domain, gpus, soon))
        marks: Mapping[str, float] = {}
        if found:
            with contextlib.suppress(GlowplugError):  # the order is a courtesy
                marks = uses.last_used(store, domain, soon)
        there = {place.key_digest for place, _ in found}
        self._keeping.remove_vanished(store, domain, there, gpus, began)
        self._bringing.forget(domain, there)
        return [
            Listed(place, meta.version, max(meta.modified, marks.get(place.key_digest, 0.0))) for place, meta in found
        ]

    def _choose(self, store: Store, present: Sequence[Usage]) -> tuple[list[Key], Sizes]:
        """Which keys the node is to hold, best first, and what they take. Raises OSError."""
        keys = {(key := Key(domain, one)).about: key for domain, listed in self._listings.items() for one in listed}
        try:
            wishes = self._source.wishes() if keys else {}
        except GlowplugError as error:
            self._bringing.failed("api", error)  # then what was used last comes first
            wishes = {}
        order = ranking.ordered(self._listings, wishes)[:_MOST_READ]
        sizes = self._bringing.sizes(store, [keys[about] for about in order])
        most = self._keeping.room(present)
        # What cannot be read now may be wanted: what is here of it stays, and takes its place.
        staying = housekeeping.total(one for one in present if (one.domain, one.key_digest) in sizes.unasked)
        most = Size(max(0, most.bytes - staying.bytes), max(0, most.inodes - staying.inodes))
        return [keys[about] for about in ranking.chosen(order, sizes.known, most)], sizes

    def _finish(self, domain: str) -> None:
        """All that was chosen for a domain is here. Raises OSError."""
        self._mark_ready(domain)
        if domain not in self._done:
            self._done.add(domain)
            mine = [one for one in write.usage(self._settings.root) if one.domain == domain]
            seconds = SYSTEM.monotonic() - self._started
            self._telling.prewarmed(domain, len(mine), sum(one.bytes for one in mine), seconds)

    def _say(self, domain: str, *, under_way: bool) -> None:
        try:
            self._saying.fetching(domain, under_way=under_way)
        except OSError as error:
            self._bringing.failed("disk", error)

    def _failed(self, domains: Iterable[str], what: str, error: GlowplugError) -> None:
        self._bringing.failed(what, error)
        if not self._ending:
            self._troubles.failed(domains, what, error)

    @property
    def _ending(self) -> bool:
        """The agent ends, and what it broke off is no failure."""
        return self._clock.monotonic() == float("inf")

    def _in_vain(self, domains: Iterable[str]) -> None:
        """Nobody is to wait for what failed just now."""
        for domain in domains:
            self._say(domain, under_way=False)

    def _mark_ready(self, domain: str) -> None:
        try:
            self._saying.ready(domain)
        except OSError as error:
            self._bringing.failed("disk", error)
