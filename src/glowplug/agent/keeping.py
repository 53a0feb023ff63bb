"""How much of the disk the node store takes, and what goes: what there is no room for, what the store has no more, what its switch
withholds.

Two threads bring keys (`prewarm.py`, `wanting.py`), and either may have to make room. A walk over all files costs, so one is made
where something is decided and its answer is passed on.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

import glowplug
from glowplug.agent import housekeeping
from glowplug.agent.bringing import LIST_SECONDS
from glowplug.agent.ranking import Size
from glowplug.cache import control, layout
from glowplug.core.clock import Deadline
from glowplug.core.errors import GlowplugError
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
        """Ask the store's switch. Where it is off nothing is given to pods, none waits, and nothing comes until it is on again."""
        with self._switch:
            said = control.read(store, Deadline.after(LIST_SECONDS, self._clock))
            reason = "" if said.admits(glowplug.__version__) else "min_version"
            reason = reason if said.restore else "restore_off"
            self._bringing.withhold(reason)
        for domain in self._settings.domains if reason else ():
            self.clear(domain, reason)
            self._saying.ready(domain)
        return bool(reason)

    def clear(self, domain: str, reason: str) -> None:
        """Nothing of a domain stays."""
        for digest in housekeeping.keys(self._root, domain):
            with self._disk:
                housekeeping.drop(self._root, domain, digest, reason, self._telling)

    def remove_vanished(self, domain: str, there: Collection[str], gpus: Sequence[str], began: float) -> None:
        """What somebody removed from the store does not stay on nodes. Of other GPUs nothing was listed.

        `there` are the digests that a listing told, `began` when it began (the clock's monotonic seconds): what came since then may
        be newer than the listing.
        """
        slugs = set(map(layout.slug, gpus))
        store = NodeStore(nodes.store(self._root, domain))
        for digest in housekeeping.keys(self._root, domain):
            if digest in there:
                continue
            with contextlib.suppress(GlowplugError):
                found = store.held(digest)
                if found is None or layout.slug(found.key.gpu) not in slugs:
                    continue
                with self._disk:
                    if not self._bringing.came_since((domain, digest), began):
                        housekeeping.drop(self._root, domain, digest, "gone", self._telling)
