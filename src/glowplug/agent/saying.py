"""What pods of this node are told of the agent: the word in `node.json`, and the ready marker.

A pod that finds nothing of its key waits while the word says that fetching is under way and there is no marker, 15 seconds at
most. So both have to be true at any moment, also where the agent fails: whoever notices that waiting is vain says so here.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import glowplug
from glowplug.nodestore import layout, write

if TYPE_CHECKING:
    from glowplug.agent.settings import Settings


class Saying:
    """One agent's words, domain by domain. May be used from several threads; all of it raises OSError."""

    def __init__(self, settings: Settings) -> None:
        self._root = settings.root
        self._outbox = not (settings.read_only or settings.observe)
        self._lock = threading.Lock()
        self._said: dict[str, bool] = {}
        self._ready: set[str] = set()

    def fetching(self, domain: str, *, under_way: bool) -> None:
        """Whether waiting is worth while. A word that stands already is not written again."""
        with self._lock:
            if self._said.get(domain) is not under_way:
                write.set_node(self._root, domain, glowplug.__version__, prefetching=under_way, outbox=self._outbox)
                self._said[domain] = under_way

    def unready(self, domain: str) -> None:
        """The agent starts anew: it does not know yet whether all is here."""
        with self._lock:
            write.unmark_ready(self._root, domain)
            self._ready.discard(domain)

    def ready(self, domain: str) -> None:
        """What pods are likely to need is here, or the time for it is over: none waits from now on."""
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
        return next((name for name in (layout.PROGRAM, layout.READY) if not (mount / name).exists()), "")
