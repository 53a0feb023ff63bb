"""What pods of this node are told of the agent: the word in `node.json`, and the ready marker.

A pod that finds nothing of its key waits while the word says that fetching is under way, 15 seconds at most. So that has to be true
at any moment, also where the agent fails: whoever notices that waiting is vain says so here. The marker says that the first fetch
is done, and never goes away while the agent lives: looks that follow (`looking.py`) are told by the word alone.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import glowplug
from glowplug.core.clock import SYSTEM
from glowplug.nodestore import layout, write
from glowplug.nodestore.read import NodeStore

if TYPE_CHECKING:
    from glowplug.agent.settings import Settings

PREWARM: Final = "prewarm"
LOOK: Final = "look"
_ANEW_SECONDS: Final = 20.0
"""A word that pods are to wait is written again after so long: they believe none that is a minute old."""


class Saying:
    """One agent's words, domain by domain. May be used from several threads; all of it raises OSError."""

    def __init__(self, settings: Settings) -> None:
        self._root = settings.root
        self._outbox = not (settings.read_only or settings.observe)
        self._lock = threading.Lock()
        self._fetching: dict[str, frozenset[str]] = {}
        self._withheld: dict[str, str] = {}
        self._said: dict[str, tuple[bool, str]] = {}
        self._said_at: dict[str, float] = {}
        self._ready: set[str] = set()

    def fetching(self, domain: str, *, under_way: bool, who: str = PREWARM) -> None:
        """Whether waiting for `who` is worth while; pods wait as long as it is for one. What stands is not written again."""
        with self._lock:
            before = self._fetching.get(domain, frozenset())
            self._fetching[domain] = before | {who} if under_way else before - {who}
            self._write(domain)

    def withhold(self, domain: str, reason: str) -> None:
        """Why pods are given nothing from now on, "" where they are."""
        with self._lock:
            self._withheld[domain] = reason
            self._write(domain)

    def resume(self, domain: str) -> str:
        """Why pods were given nothing by the agent before this one, "" where they were; that holds until the store is asked."""
        node = NodeStore(layout.store(self._root, domain)).node()
        with self._lock:
            self._withheld[domain] = "" if node is None or node.restore else node.restore_reason or "restore_off"
            return self._withheld[domain]

    def unready(self, domain: str) -> None:
        """The agent starts anew: it does not know yet whether all is here."""
        with self._lock:
            write.unmark_ready(self._root, domain)
            self._ready.discard(domain)

    def ready(self, domain: str) -> None:
        """What pods are likely to need is here, or the time for it is over: none waits for the first fetch from now on."""
        with self._lock:
            if domain not in self._ready:
                write.mark_ready(self._root, domain)
                self._ready.add(domain)
        self.fetching(domain, under_way=False)

    def is_ready(self, domain: str) -> bool:
        """Whether that was said in this run."""
        return domain in self._ready

    def missing(self, domain: str) -> str:
        """Which of the two files that pods look for is not there: the program, the marker; "" for none."""
        mount = layout.store(self._root, domain)
        return next((name for name in (layout.PROGRAM, layout.READY) if not (mount / name).is_file()), "")

    def _write(self, domain: str) -> None:
        withheld = self._withheld.get(domain, "")
        word = (bool(self._fetching.get(domain)) and not withheld, withheld)
        now = SYSTEM.monotonic()
        stale = word[0] and now - self._said_at.get(domain, now) > _ANEW_SECONDS
        if self._said.get(domain) != word or stale:
            write.set_node(
                self._root, domain, glowplug.__version__, prefetching=word[0], outbox=self._outbox, withheld=withheld
            )
            self._said[domain], self._said_at[domain] = word, now
