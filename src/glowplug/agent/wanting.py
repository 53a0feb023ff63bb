"""Keys that are asked for by name: somebody on this node has just published one, or says that one is damaged here.

They wait neither for a listing nor for what is being fetched: they have a thread of their own. The store is not listed for them
either, since who wants a key knows where its manifest lies.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.core.clock import SYSTEM, Deadline
from glowplug.core.errors import GlowplugError
from glowplug.kube.backoff import Backoff
from glowplug.nodestore import layout as nodes
from glowplug.nodestore import write

if TYPE_CHECKING:
    from collections.abc import Callable

    from glowplug.agent.bringing import Bringing
    from glowplug.agent.keeping import Keeping
    from glowplug.agent.ranking import About
    from glowplug.agent.settings import Settings
    from glowplug.core.clock import Clock
    from glowplug.store.contract import Store

_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0
_SUSPECT_SECONDS: Final = 60.0
_TICK_SECONDS: Final = 5.0


@dataclass(frozen=True, eq=False)
class _Wish:
    """One wish for a key: its manifest's path, and whether it is known to have changed."""

    path: str
    changed: bool


class Wanting:
    """See the module's text. `run` wants a thread of its own; the rest may be called from any."""

    def __init__(
        self,
        settings: Settings,
        store: Callable[[], Store],
        bringing: Bringing,
        keeping: Keeping,
        begun: threading.Event,
        clock: Clock = SYSTEM,
    ) -> None:
        """Nothing is fetched before `begun` is set."""
        self._root = settings.root
        self._domains = settings.domains if settings.fetches else ()
        self._store = store
        self._bringing = bringing
        self._keeping = keeping
        self._begun = begun
        self._clock = clock
        self._lock = threading.Lock()
        self._wishes: dict[About, _Wish] = {}
        self._suspects: set[About] = set()
        self._suspected: dict[About, float] = {}
        self._wake = threading.Event()

    def want(self, domain: str, key_digest: str, path: str, *, changed: bool = True) -> None:
        """Fetch this key as soon as may be: it was just published. `path` is its manifest's.

        `changed` False: it was published before, and the node lacks something of it.
        """
        if domain in self._domains:
            with self._lock:
                self._wishes[domain, key_digest] = _Wish(path, changed)
            self._wake.set()

    def suspect(self, domain: str, key_digest: str) -> None:
        """A pod says that a file of this key is not what it should be. It is looked at, and if so removed and fetched again."""
        if domain not in self._domains or not nodes.key(nodes.store(self._root, domain), key_digest).exists():
            return
        about, now = (domain, key_digest), self._clock.monotonic()
        with self._lock:
            self._suspected = {one: at for one, at in self._suspected.items() if now - at < _SUSPECT_SECONDS}
            if about in self._suspected:
                return
            self._suspected[about] = now
            self._suspects.add(about)
        self._wake.set()

    def used(self, domain: str, key_digest: str) -> None:
        """A pod was given this key: it stays longer than others."""
        if domain in self._domains:
            with contextlib.suppress(OSError, GlowplugError):
                if self._bringing.is_here((domain, key_digest)):
                    write.touch(self._root, domain, key_digest)

    def run(self, stop: threading.Event, tick: Callable[[], None] = lambda: None) -> None:
        """Fetch what is wanted until `stop` is set. Raises nothing foreseeable."""
        backoff = Backoff(_FIRST_WAIT, _LONGEST_WAIT)
        while not stop.is_set():
            tick()
            self._wake.wait(1.0)
            self._wake.clear()
            if not self._begun.is_set() or self.serve(tick):
                backoff.reset()
            else:
                wait(stop, backoff.next(), tick)

    def serve(self, tick: Callable[[], None] = lambda: None) -> bool:
        """Fetch what was wanted until now; False where something has to be tried again. Raises nothing foreseeable."""
        with self._lock:
            suspects, self._suspects = self._suspects, set()
        for about in suspects:
            tick()
            path = self._bringing.examine(*about)
            if path:  # else the next listing finds that it is not here
                self.want(*about, path)
        with self._lock:
            wishes = dict(self._wishes)
        if not wishes:
            return True
        try:
            store = self._store()
            # Where it is off `bring` brings nothing, and the listing that follows when it is on again brings what was wanted.
            self._keeping.is_withheld(store)
            undone = [about for about, wish in wishes.items() if not self._granted(store, about, wish, tick)]
            self._keeping.tidy()
        except GlowplugError as error:
            self._bringing.failed("fetch", error)
            return False
        except OSError as error:
            self._bringing.failed("disk", error)
            return False
        return not undone

    def _granted(self, store: Store, about: About, wish: _Wish, tick: Callable[[], None]) -> bool:
        tick()
        if not self._bringing.bring(store, about[0], wish.path, anew=wish.changed):
            return False
        with self._lock:
            # Wanted once more meanwhile, it has changed once more: what was fetched may be what was there before.
            if self._wishes.get(about) is wish:
                del self._wishes[about]
        return True


def wait(
    stop: threading.Event, seconds: float, tick: Callable[[], None], over: Callable[[], bool] = lambda: False
) -> None:
    """Wait, until `over` says so at the latest, and show meanwhile that this thread lives."""
    deadline = Deadline.after(seconds)
    while not deadline.passed() and not over() and not stop.wait(min(_TICK_SECONDS, deadline.remaining())):
        tick()
