"""One look into the store when a pod comes, for what was published since the last listing.

Without it a roll-out over nodes that are there already would compile on each of them: the first pod's artifacts are in the store,
and no node hears of it before its next listing. So as soon as the API says that a pod was bound to this node, its launcher is told
to wait, the keys of this node's GPUs are listed once, and those that the pod can use are fetched before any other. A pod whose
workload cannot be read from outside may use any of them; then what was not met before is fetched.

However many pods come, a domain is looked at once in `_APART_SECONDS`: those that come in between are looked for when that is
over, and none waits until then. Nor does any wait for a store that has not answered within `_IMPATIENT_SECONDS`: it is asked again
by itself, more and more rarely, and nobody is told to wait for that.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from glowplug.agent import asking, quarantine, ranking
from glowplug.agent.bringing import LIST_SECONDS, Key
from glowplug.agent.ranking import Listed
from glowplug.agent.saying import LOOK
from glowplug.cache import layout
from glowplug.core.clock import SYSTEM, Deadline
from glowplug.core.errors import GlowplugError
from glowplug.kube.backoff import Backoff
from glowplug.nodestore import write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from glowplug.agent.bringing import Bringing
    from glowplug.agent.keeping import Keeping
    from glowplug.agent.pods import Pod
    from glowplug.agent.ranking import About
    from glowplug.agent.saying import Saying
    from glowplug.agent.settings import Settings
    from glowplug.core.clock import Clock
    from glowplug.store.contract import Meta, Store

_IMPATIENT_SECONDS: Final = 5.0
_APART_SECONDS: Final = 15.0
_LONGEST_WAIT: Final = 300.0
_MOST_PODS: Final = 64
"""Of one look; with more of them all are taken for pods that cannot be read."""
_MOST_READ: Final = 512


@dataclass
class _Domain:
    """Pods that nobody looked for yet, and when a look may begin.

    `quiet`: the last one failed, and nobody is to wait for the next. `owed`: what it found and could not fetch.
    """

    pods: list[Pod] = field(default_factory=list)
    due: float = float("-inf")
    quiet: bool = False
    owed: set[About] = field(default_factory=set)
    backoff: Backoff = field(default_factory=lambda: Backoff(_APART_SECONDS, _LONGEST_WAIT))


class Looking:
    """See the module's text. `run` wants a thread of its own; `arrived` may be called from any."""

    def __init__(
        self,
        settings: Settings,
        store: Callable[[], Store],
        gpus: Callable[[], Sequence[str]],
        bringing: Bringing,
        keeping: Keeping,
        saying: Saying,
        begun: threading.Event,
        clock: Clock = SYSTEM,
    ) -> None:
        """Nothing is looked at before `begun` is set."""
        self._root = settings.root
        self._store = store
        self._gpus = gpus
        self._bringing = bringing
        self._keeping = keeping
        self._saying = saying
        self._begun = begun
        self._clock = clock
        self._lock = threading.Lock()
        self._domains = {domain: _Domain() for domain in (settings.domains if settings.fetches else ())}
        self._wake = threading.Event()
        self._busy = False

    def arrived(self, pod: Pod) -> None:
        """A pod of this mode was bound to this node. Raises nothing foreseeable."""
        if not self._begun.is_set():
            return  # the first listing is still to come
        with self._lock:
            domain = self._domains.get(pod.domain)
            if domain is None:
                return
            if len(domain.pods) < _MOST_PODS:
                domain.pods.append(pod)
            if not self._busy and not domain.quiet and self._clock.monotonic() >= domain.due:
                self._say(pod.domain, under_way=True)  # under the lock: never after the look that it announces
        self._wake.set()

    def run(self, stop: threading.Event, tick: Callable[[], None] = lambda: None) -> None:
        """Look whenever pods came, until `stop` is set. Raises nothing foreseeable."""
        while not stop.is_set():
            tick()
            self._wake.wait(1.0)
            self._wake.clear()
            self.serve(tick)

    def serve(self, tick: Callable[[], None] = lambda: None) -> None:
        """Look for the pods that came, where it is time. Raises nothing foreseeable."""
        for name, domain in self._domains.items():
            now = self._clock.monotonic()
            with self._lock:
                if not domain.pods or now < domain.due:
                    continue
                pods, domain.pods = domain.pods, []
                domain.due = now + _APART_SECONDS
                self._busy = True
            tick()
            good = self._look(name, domain, pods, tick)
            with self._lock:
                self._busy = False
                domain.quiet = not good
                if good:
                    domain.backoff.reset()
                else:
                    domain.pods = [*pods, *domain.pods][:_MOST_PODS]
                    domain.due = self._clock.monotonic() + domain.backoff.next()

    def _look(self, name: str, domain: _Domain, pods: Sequence[Pod], tick: Callable[[], None]) -> bool:
        """Whether the store answered."""
        if not domain.quiet:
            self._say(name, under_way=True)
        patience = threading.Timer(_IMPATIENT_SECONDS, self._say, (name,), {"under_way": False})
        patience.daemon = True
        patience.start()
        what = "api"
        try:
            gpus = tuple(self._gpus())
            what = "list"
            store = self._store()
            if self._keeping.is_withheld(store):
                return True
            soon = Deadline.after(LIST_SECONDS, self._clock)
            found = list(manifests_of(store, name, gpus, soon))
            patience.cancel()
            listed = [Listed(place, meta.version, meta.modified) for place, meta in found]
            return self._bring(store, name, domain, listed, pods, tick)
        except GlowplugError as error:
            self._bringing.failed(what, error)
            return False
        except OSError as error:
            self._bringing.failed("disk", error)
            return False
        finally:
            patience.cancel()
            patience.join()  # else its word might come after ours, or after the next look's
            self._say(name, under_way=False)

    def _bring(
        self,
        store: Store,
        name: str,
        domain: _Domain,
        listed: Sequence[Listed],
        pods: Sequence[Pod],
        tick: Callable[[], None],
    ) -> bool:
        """Raises OSError."""
        left_out = quarantine.left_out(self._root)
        wishes = [None] if len(pods) == _MOST_PODS else [asking.wished(pod.object) for pod in pods]
        known = [wish for wish in wishes if wish is not None]
        any_of_them = len(known) < len(wishes)
        keys = [
            key
            for one in listed
            if not self._bringing.is_settled(key := Key(name, one), left_out)
            and (
                key.about in domain.owed
                or any(wish.fits(one.place) for wish in known)
                or (any_of_them and not self._bringing.knows(key))
            )
        ]
        domain.owed = set()
        if not keys:
            return True
        by_about = {key.about: key for key in keys}
        order = ranking.ordered({name: [key.listed for key in keys]}, {name: known})[:_MOST_READ]
        sizes = self._bringing.sizes(store, [by_about[about] for about in order])
        present = write.usage(self._root)
        plan = [by_about[about] for about in ranking.chosen(order, sizes.known, self._keeping.room(present))]
        coming = [self._bringing.size(key) for key in plan if not self._bringing.is_here(key.about)]
        self._keeping.make_room(present, coming, frozenset(key.about for key in plan))
        for key in plan:
            tick()
            self._say(name, under_way=True)
            if not self._bringing.bring(store, name, key.listed.place.path):
                domain.owed.add(key.about)
        self._keeping.tidy()
        return not sizes.trouble and not domain.owed

    def _say(self, domain: str, *, under_way: bool) -> None:
        try:
            self._saying.fetching(domain, under_way=under_way, who=LOOK)
        except OSError as error:
            self._bringing.failed("disk", error)


def manifests_of(
    store: Store, domain: str, gpus: Iterable[str], deadline: Deadline
) -> Iterator[tuple[layout.Place, Meta]]:
    """The manifests of a domain's keys for these GPUs. Raises the store's errors."""
    for gpu in dict.fromkeys(map(layout.slug, gpus)):
        for meta in store.list(f"{layout.keys_prefix(domain)}/{gpu}", deadline):
            place = layout.parse_manifest_path(meta.path)
            if place is not None:
                yield place, meta
