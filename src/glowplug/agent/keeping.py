"""How much of the disk the node store takes, and what goes: what there is no room for, and what the store has no more. What the
store's switch withholds stays, and pods are told to leave it alone.

A listing alone takes nothing away: what stands between this node and its store may answer with a page of its own, which reads as a
listing without anything. A key is gone where its manifest itself is not there, at two listings as far apart as listings are,
and where something else of the store was.

Two threads bring keys (`prewarm.py`, `wanting.py`), and either may have to make room. A walk over all files costs, so one is made
where something is decided and its answer is passed on.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Final

import glowplug
from glowplug.agent import housekeeping
from glowplug.agent.bringing import LIST_SECONDS
from glowplug.agent.ranking import Size
from glowplug.cache import control, layout
from glowplug.core.clock import Deadline
from glowplug.core.errors import GlowplugError, UnavailableError
from glowplug.nodestore import layout as nodes
from glowplug.nodestore import write
from glowplug.nodestore.read import NodeStore

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from glowplug.agent.bringing import Bringing
    from glowplug.agent.ranking import About
    from glowplug.agent.saying import Saying
    from glowplug.agent.settings import Settings
    from glowplug.agent.telling import Telling
    from glowplug.core.clock import Clock
    from glowplug.nodestore.write import Usage
    from glowplug.store.contract import Store

_SWITCH_SECONDS: Final = 5.0


class Keeping:
    """Of one agent's root. May be used from several threads; all of it may raise OSError."""

    def __init__(self, settings: Settings, telling: Telling, bringing: Bringing, saying: Saying, clock: Clock) -> None:
        self._settings = settings
        self._root = settings.root
        self._telling = telling
        self._bringing = bringing
        self._saying = saying
        self._clock = clock
        self._disk = threading.Lock()
        self._switch = threading.Lock()
        self._switched = threading.Event()
        self._missed: dict[About, float] = {}
        self._suspect: set[str] = set()

    def room(self, present: Sequence[Usage]) -> Size:
        """What all keys may take together, where `present` are there now."""
        return housekeeping.room(self._root, self._settings.max_bytes, housekeeping.total(present))

    def make_room(self, present: Sequence[Usage], coming: Iterable[Size], keep: frozenset[About]) -> None:
        """Before anything is fetched, what is not to stay goes as far as its place is needed."""
        most, sizes = self.room(present), list(coming)
        left = Size(
            max(0, most.bytes - sum(size.bytes for size in sizes)),
            max(0, most.inodes - sum(size.inodes for size in sizes)),
        )
        with self._disk:
            housekeeping.shrink(self._root, present, left, keep, self._telling)

    def tidy(self) -> None:
        """After anything came: never more than there may be, and say what there is."""
        with self._disk:
            found = write.usage(self._root)
            present = housekeeping.shrink(self._root, found, self.room(found), frozenset(), self._telling)
        now = housekeeping.total(present)
        self._telling.held(now.bytes, len(present), now.inodes)

    def is_withheld(self, store: Store) -> bool:
        """Ask the store's switch. Where it is off nothing is given to pods, none waits, and nothing comes until it is on again.

        What is here stays. A switch that cannot be asked now stands as it was seen last.
        """
        with self._switch:
            before = self._bringing.withheld()
            try:
                said, _ = control.inspect(store, Deadline.after(_SWITCH_SECONDS, self._clock))
            except GlowplugError:
                return bool(before)
            reason = "" if said.admits(glowplug.__version__) else "min_version"
            reason = reason if said.restore else "restore_off"
            self._bringing.withhold(reason)
            if before and not reason:
                self._take_blocked(store)
            for domain in self._settings.domains:
                self._saying.withhold(domain, reason)
                if reason:
                    self._saying.ready(domain)
            if before and not reason:
                self._switched.set()
        return bool(reason)

    def withheld_before(self) -> None:
        """Go on where the agent before this one stood, until the switch is asked."""
        reasons = [self._saying.resume(domain) for domain in self._settings.domains]
        self._bringing.withhold(next(filter(None, reasons), ""))

    def is_switched_on(self) -> bool:
        """Whether the switch came back since `was_switched_on` was asked last."""
        return self._switched.is_set()

    def was_switched_on(self) -> bool:
        """The same, once: what came to the store meanwhile is not here."""
        switched = self._switched.is_set()
        self._switched.clear()
        return switched

    def _take_blocked(self, store: Store) -> None:
        """Before pods are given anything again: what somebody blocked while the switch was off is not to be among it."""
        soon = Deadline.after(LIST_SECONDS, self._clock)
        for domain in self._settings.domains:
            there = NodeStore(nodes.store(self._root, domain))
            for digest in housekeeping.keys(self._root, domain):
                with contextlib.suppress(GlowplugError):
                    held = there.held(digest)
                    if held is not None and not held.blocked:
                        self._bringing.bring_if_blocked(store, domain, layout.manifest_path(held.key), soon)

    def clear(self, domain: str, reason: str) -> None:
        """Nothing of a domain stays but what cannot be removed, which is told."""
        for digest in housekeeping.keys(self._root, domain):
            try:
                with self._disk:
                    housekeeping.drop(self._root, domain, digest, reason, self._telling)
            except OSError as error:
                self._bringing.failed("disk", error)

    def remove_vanished(
        self, store: Store, domain: str, there: Collection[str], gpus: Sequence[str], began: float
    ) -> None:
        """What somebody removed from the store does not stay on nodes. Of other GPUs nothing was listed.

        `there` are the digests that a listing told, `began` when it began (the clock's monotonic seconds): what came since then may
        be newer than the listing.
        """
        unlisted = self._unlisted(domain, there, gpus)
        for about in [about for about in self._missed if about[0] == domain and about[1] not in unlisted]:
            del self._missed[about]
        if there or not unlisted:
            self._suspect.discard(domain)
        soon = Deadline.after(LIST_SECONDS, self._clock)
        if unlisted and not there and not _answers(store, soon):
            if domain not in self._suspect:
                self._suspect.add(domain)
                what = f"the store lists no key of the domain {domain}, and this node has {len(unlisted)}: all of them stay"
                self._bringing.failed("list", UnavailableError(what))
            return
        for digest, path in unlisted.items():
            with contextlib.suppress(GlowplugError):  # where it is about the store, nothing is known of the key now
                self._look_after((domain, digest), began, there=store.head(path, soon) is not None)

    def _look_after(self, about: About, began: float, *, there: bool) -> None:
        """A key that was not listed goes where its manifest was not there before either, at least a listing ago."""
        missed = self._missed.get(about)
        if there:
            self._missed.pop(about, None)
        elif missed is None:
            self._missed[about] = began
        elif began - missed >= self._settings.relist_seconds:
            with self._disk:
                if not self._bringing.came_since(about, began):
                    housekeeping.drop(self._root, *about, "gone", self._telling)
            del self._missed[about]

    def _unlisted(self, domain: str, there: Collection[str], gpus: Sequence[str]) -> dict[str, str]:
        """Keys of these GPUs that are here and were not listed, with the paths of their manifests."""
        slugs = set(map(layout.slug, gpus))
        here = NodeStore(nodes.store(self._root, domain))
        found = {}
        for digest in housekeeping.keys(self._root, domain):
            if digest not in there:
                with contextlib.suppress(GlowplugError):
                    held = here.held(digest)
                    if held is not None and layout.slug(held.key.gpu) in slugs:
                        found[digest] = layout.manifest_path(held.key)
        return found


def _answers(store: Store, deadline: Deadline) -> bool:
    """Whether it is the store that answers: its switch can be read as what it is."""
    try:
        return store.head(layout.CONTROL, deadline) is not None and not control.inspect(store, deadline)[1]
    except GlowplugError:
        return False
