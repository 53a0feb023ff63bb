"""What this node ought to hold, before its pods ask for it: list, choose, fetch, say that it is there.

Whatever is slow or fails here decides how long a pod waits, and the rules are about that:

- Program and word come first, before the store is asked anything. A pod that finds no word waits in vain.
- A store or an API server that has not answered within `_IMPATIENT_SECONDS`, or that refuses, is said at once: nobody waits for it.
  It is asked again, more and more rarely, and once it answers all goes its way without anybody's help.
- The marker comes when the first fetch of a domain is done, or after the time that this was given, whatever the store does.
- All of this may be killed at any moment and begun again: what is on the disk is whole or is removed, and the rest is fetched.

The store is listed at most once in `relist_seconds`, by each node at a moment of its own. Keys that are wanted by name (somebody on
this node has just published them) wait neither for that nor for what is being fetched: they have a thread of their own.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import glowplug
from glowplug.agent import housekeeping, ranking
from glowplug.agent.bringing import LIST_SECONDS, Bringing, Key
from glowplug.agent.ranking import Listed, Size
from glowplug.agent.saying import Saying
from glowplug.cache import control, layout, uses
from glowplug.cache.workers import workers
from glowplug.core.clock import SYSTEM, Deadline
from glowplug.core.errors import GlowplugError, IntegrityError
from glowplug.nodestore import layout as nodes
from glowplug.nodestore import write
from glowplug.nodestore.read import NodeStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from glowplug.agent.ranking import Wish
    from glowplug.agent.settings import Settings
    from glowplug.agent.telling import Telling
    from glowplug.cache.format import Manifest
    from glowplug.core.clock import Clock
    from glowplug.store.contract import Meta, Store

_IMPATIENT_SECONDS: Final = 5.0
_KEYS_AT_ONCE: Final = 2
_MOST_READ: Final = 512
_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0
_SUSPECT_SECONDS: Final = 60.0
_MOST_DOUBLINGS: Final = 16
_TICK_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Source:
    """Where answers come from. Each may raise GlowplugError, and is asked again later.

    `store`: the store, opened anew; `gpus`: every NVML name that this node's labels can mean; `wishes`: what pods of the cluster
    ask for, by trust domain; `program`: the bytes of glowplug.pyz.
    """

    store: Callable[[], Store]
    gpus: Callable[[], Sequence[str]]
    wishes: Callable[[], Mapping[str, Sequence[Wish]]]
    program: Callable[[], bytes]


@dataclass(frozen=True, eq=False)
class _Wanted:
    """One wish for a key. `path` is its manifest's, "" where that is not known."""

    path: str


class Prewarm:
    """See the module's text. `run`, `run_wanted` and `run_patience` each want a thread of their own; the rest is for others."""

    def __init__(
        self,
        settings: Settings,
        telling: Telling,
        source: Source,
        *,
        verify: Callable[[Manifest], None] | None = None,
        clock: Clock = SYSTEM,
        draw: Callable[[], float] = lambda: 0.5,
    ) -> None:
        """`clock` is one that stops with the agent; `draw` gives numbers in [0, 1) for the jitter."""
        self._settings = settings
        self._telling = telling
        self._source = source
        self._clock = clock
        self._draw = draw
        self._began = SYSTEM.monotonic()
        self._saying = Saying(settings)
        self._bringing = Bringing(settings, telling, verify=verify, clock=clock)
        self._keeps = settings.kept and bool(settings.store) and not settings.observe
        self._answered: set[str] = set()
        self._done: set[str] = set()
        self._lock = threading.Lock()
        self._disk = threading.Lock()
        self._wanted: dict[tuple[str, str], _Wanted] = {}
        self._suspects: set[tuple[str, str]] = set()
        self._suspected: dict[tuple[str, str], float] = {}
        self._wake = threading.Event()
        self._begun = threading.Event()

    # --- for others -------------------------------------------------------------------------------------------------

    def want(self, domain: str, key_digest: str, path: str = "") -> None:
        """Fetch this key as soon as may be: it was just published. `path` is its manifest's, "" where that is not known."""
        if domain in self._settings.domains and self._keeps:
            with self._lock:
                self._wanted[domain, key_digest] = _Wanted(path)
            self._wake.set()

    def suspect(self, domain: str, key_digest: str) -> None:
        """A pod says that a file of this key is not what it should be. It is looked at, and if so removed and fetched again."""
        about, now = (domain, key_digest), self._clock.monotonic()
        if domain not in self._settings.domains or not self._keeps:
            return
        with self._lock:
            if now - self._suspected.get(about, -_SUSPECT_SECONDS) < _SUSPECT_SECONDS:
                return
            self._suspected[about] = now
            self._suspects.add(about)
        self._wake.set()

    def used(self, domain: str, key_digest: str) -> None:
        """A pod was given this key: it stays longer than others."""
        root = self._settings.root
        if domain in self._settings.domains:
            with contextlib.suppress(OSError, GlowplugError):
                if nodes.key_document(nodes.store(root, domain), key_digest).exists():
                    write.touch(root, domain, key_digest)

    def unready(self) -> str:
        """Why pods of this node are not served yet, "" when they are: program and marker of each domain are there."""
        if not self._settings.kept:
            return ""
        if not self._begun.is_set():
            return "nothing is in place yet"
        missing = ((domain, self._saying.missing(domain)) for domain in self._settings.domains)
        return next((f"{domain}: {name} is missing" for domain, name in missing if name), "")

    # --- threads ----------------------------------------------------------------------------------------------------

    def run(self, stop: threading.Event, tick: Callable[[], None] = lambda: None) -> None:
        """Begin, then list and fetch again and again until `stop` is set. Raises nothing foreseeable."""
        failures = 0
        while not stop.is_set():
            tick()
            wait = self._settings.relist_seconds * (1.0 + self._draw() / 2)
            if self.begin() and self.round(tick):
                failures = 0
            else:
                wait = min(wait, _LONGEST_WAIT, _FIRST_WAIT * 2**failures) * (0.5 + self._draw() / 2)
                failures = min(failures + 1, _MOST_DOUBLINGS)
            _wait(stop, wait, tick)

    def run_wanted(self, stop: threading.Event, tick: Callable[[], None] = lambda: None) -> None:
        """Fetch what is wanted by name until `stop` is set. Raises nothing foreseeable."""
        failures = 0
        while not stop.is_set():
            tick()
            self._wake.wait(1.0)
            self._wake.clear()
            if not self._begun.is_set() or self.serve_wanted():
                failures = 0
            else:
                _wait(stop, min(_LONGEST_WAIT, _FIRST_WAIT * 2**failures), tick)
                failures = min(failures + 1, _MOST_DOUBLINGS)

    def run_patience(self, stop: threading.Event) -> None:
        """Say in time that waiting is vain, and mark domains as ready when their time is over. Ends after that."""
        if not self._keeps or stop.wait(_IMPATIENT_SECONDS):
            return
        for domain in self._settings.domains:
            if domain not in self._answered:
                self._say(domain, under_way=False)
        if not stop.wait(max(0.0, self._settings.prewarm_seconds - _IMPATIENT_SECONDS)):
            for domain in self._settings.domains:
                self._mark_ready(domain)

    def begin(self) -> bool:
        """Program, word and no marker for each domain; what is damaged or nobody's business any more goes. Whether that is done."""
        if self._begun.is_set():
            return True
        try:
            if self._settings.kept:
                self._put_in_place()
        except (OSError, GlowplugError) as error:
            self._bringing.failed("disk" if isinstance(error, OSError) else "program", error)
            return False
        self._begun.set()
        return True

    def round(self, tick: Callable[[], None] = lambda: None) -> bool:
        """List the store once and fetch what is missing; whether all that was asked was answered. Raises nothing foreseeable."""
        if not self._keeps:
            return True
        domains = self._settings.domains
        what = "api"
        try:
            gpus = tuple(self._source.gpus())
            what = "list"
            store = self._source.store()
            switch = control.read(store, self._soon())
        except GlowplugError as error:
            self._bringing.failed(what, error)
            self._in_vain(domains)
            return False
        try:
            if not switch.restore or not switch.admits(glowplug.__version__):
                self._withhold("min_version" if switch.restore else "restore_off")
                return True
            good = self._bring_all(store, gpus, tick)
            self._tidy()
        except OSError as error:
            self._bringing.failed("disk", error)
            return False
        return good

    def serve_wanted(self) -> bool:
        """Fetch what was wanted until now; False where something has to be tried again. Raises nothing foreseeable."""
        with self._lock:
            suspects, self._suspects = self._suspects, set()
        for domain, digest in suspects:
            if self._bringing.examine(domain, digest):
                self.want(domain, digest)
        with self._lock:
            wanted = dict(self._wanted)
        if not wanted:
            return True
        good = True
        try:
            store = self._source.store()
            for (domain, digest), one in wanted.items():
                if not self._serve(store, domain, digest, one.path):
                    good = False
                    continue
                with self._lock:
                    # Wanted once more meanwhile, it has changed once more: what was fetched may be what was there before.
                    if self._wanted.get((domain, digest)) is one:
                        del self._wanted[domain, digest]
            self._tidy()
        except GlowplugError as error:
            self._bringing.failed("fetch", error)
            return False
        except OSError as error:
            self._bringing.failed("disk", error)
        return good

    # --- the beginning ----------------------------------------------------------------------------------------------

    def _put_in_place(self) -> None:
        """Raises OSError, GlowplugError."""
        root, domains = self._settings.root, self._settings.domains
        data = self._source.program()
        for domain in domains:
            write.put_program(root, domain, data)
            if self._keeps:
                self._saying.unready(domain)
            self._saying.fetching(domain, under_way=self._keeps)
        for domain in housekeeping.domains(root):
            if domain not in domains:
                self._clear(domain, "domain")
            elif not self._keeps:
                self._clear(domain, "observe" if self._settings.observe else "no_store")
            else:
                housekeeping.remove_damaged(root, domain, self._telling)
        if not self._keeps:
            for domain in domains:
                self._saying.ready(domain)

    # --- rounds -----------------------------------------------------------------------------------------------------

    def _bring_all(self, store: Store, gpus: Sequence[str], tick: Callable[[], None]) -> bool:
        """Raises OSError."""
        found: list[Key] = []
        answered: list[str] = []
        for domain in self._settings.domains:
            tick()
            try:
                listed = self._list(store, domain, gpus)
            except GlowplugError as error:
                self._bringing.failed("list", error)
                self._in_vain([domain])
                continue
            answered.append(domain)
            self._answered.add(domain)
            self._remove_vanished(domain, listed, gpus)
            found += [Key(domain, one) for one in listed]
        plan = self._choose(store, found)
        missing = [key for key in plan if not self._bringing.is_whole(key)]
        left = {domain: sum(key.domain == domain for key in missing) for domain in answered}
        for domain in answered:
            if not left[domain]:
                self._finish(domain)
            elif not self._saying.is_ready(domain):
                self._say(domain, under_way=True)
        self._make_room(plan, missing)
        trouble: set[str] = set()
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
        return len(answered) == len(self._settings.domains) and not trouble

    def _list(self, store: Store, domain: str, gpus: Sequence[str]) -> list[Listed]:
        """The keys of a domain that this node's GPUs can use. Raises the store's errors."""
        soon = self._soon()
        found = list(_manifests(store, domain, gpus, soon))
        marks: Mapping[str, float] = {}
        if found:
            with contextlib.suppress(GlowplugError):  # the order is a courtesy
                marks = uses.last_used(store, domain, soon)
        return [
            Listed(place, meta.version, max(meta.modified, marks.get(place.key_digest, 0.0))) for place, meta in found
        ]

    def _choose(self, store: Store, found: Sequence[Key]) -> list[Key]:
        """Which keys the node is to hold, best first. Raises OSError."""
        try:
            wishes = self._source.wishes() if found else {}
        except GlowplugError as error:
            self._bringing.failed("api", error)  # then what was used last comes first
            wishes = {}
        keys = {key.digest: key for key in found}
        order = ranking.ordered(
            {domain: [key.listed for key in found if key.domain == domain] for domain in self._settings.domains}, wishes
        )[:_MOST_READ]
        sizes = self._bringing.sizes(store, [keys[digest] for digest in order])
        return [keys[digest] for digest in ranking.chosen(order, sizes, self._room())]

    def _serve(self, store: Store, domain: str, digest: str, path: str) -> bool:
        """Fetch what was wanted by name; False where it has to be tried again."""
        try:
            path = path or self._path_of(store, domain, digest)
        except GlowplugError as error:
            self._bringing.failed("fetch", error)
            return False
        return not path or self._bringing.bring(store, domain, path, anew=True)

    def _path_of(self, store: Store, domain: str, digest: str) -> str:
        """Where the manifest of a key lies, "" where the store has none. Raises the errors of store and API."""
        with contextlib.suppress(IntegrityError):
            held = NodeStore(nodes.store(self._settings.root, domain)).held(digest)
            if held is not None:
                return layout.manifest_path(held.key)
        found = _manifests(store, domain, self._source.gpus(), self._soon())
        return next((place.path for place, _ in found if place.key_digest == digest), "")

    def _finish(self, domain: str) -> None:
        """All that was chosen for a domain is here. Raises OSError."""
        self._mark_ready(domain)
        if domain not in self._done:
            self._done.add(domain)
            mine = [one for one in write.usage(self._settings.root) if one.domain == domain]
            seconds = SYSTEM.monotonic() - self._began
            self._telling.prewarmed(domain, len(mine), sum(one.bytes for one in mine), seconds)

    def _say(self, domain: str, *, under_way: bool) -> None:
        try:
            self._saying.fetching(domain, under_way=under_way)
        except OSError as error:
            self._bringing.failed("disk", error)

    def _in_vain(self, domains: Iterable[str]) -> None:
        """Nobody is to wait for what failed just now."""
        for domain in domains:
            self._say(domain, under_way=False)

    def _mark_ready(self, domain: str) -> None:
        try:
            self._saying.ready(domain)
        except OSError as error:
            self._bringing.failed("disk", error)

    def _soon(self) -> Deadline:
        return Deadline.after(LIST_SECONDS, self._clock)

    # --- what goes --------------------------------------------------------------------------------------------------

    def _remove_vanished(self, domain: str, listed: Sequence[Listed], gpus: Sequence[str]) -> None:
        """What somebody removed from the store does not stay on nodes. Of other GPUs nothing was listed. Raises OSError."""
        there = {one.place.key_digest for one in listed}
        slugs = set(map(layout.slug, gpus))
        root = self._settings.root
        store = NodeStore(nodes.store(root, domain))
        with self._lock:
            there |= {digest for name, digest in self._wanted if name == domain}
        for digest in housekeeping.keys(root, domain):
            if digest in there or self._bringing.is_busy(digest):
                continue
            with contextlib.suppress(GlowplugError):
                found = store.held(digest)
                if found is not None and layout.slug(found.key.gpu) in slugs:
                    with self._disk:
                        housekeeping.drop(root, domain, digest, "gone", self._telling)

    def _room(self) -> Size:
        now, _ = housekeeping.held(self._settings.root)
        return housekeeping.room(self._settings.root, self._settings.max_bytes, now)

    def _make_room(self, plan: Sequence[Key], missing: Sequence[Key]) -> None:
        """Before anything is fetched, what is not to stay goes as far as its place is needed. Raises OSError."""
        sizes = [self._bringing.size(key) for key in missing if not self._bringing.is_here(key)]
        keep = frozenset((key.domain, key.digest) for key in plan)
        most = self._room()
        left = Size(
            max(0, most.bytes - sum(size.bytes for size in sizes)),
            max(0, most.inodes - sum(size.inodes for size in sizes)),
        )
        with self._disk:
            housekeeping.shrink(self._settings.root, left, keep, self._telling)

    def _tidy(self) -> None:
        """After anything came: never more than there may be, and say what there is. Raises OSError."""
        with self._disk:
            housekeeping.shrink(self._settings.root, self._room(), frozenset(), self._telling)
            now, keys = housekeeping.held(self._settings.root)
        self._telling.held(now.bytes, keys, now.inodes)

    def _withhold(self, reason: str) -> None:
        """The store is switched off: nothing is given to pods, and none waits. Raises OSError."""
        for domain in self._settings.domains:
            self._answered.add(domain)
            self._clear(domain, reason)
            self._mark_ready(domain)

    def _clear(self, domain: str, reason: str) -> None:
        for digest in housekeeping.keys(self._settings.root, domain):
            with self._disk:
                housekeeping.drop(self._settings.root, domain, digest, reason, self._telling)


def _manifests(
    store: Store, domain: str, gpus: Iterable[str], deadline: Deadline
) -> Iterator[tuple[layout.Place, Meta]]:
    """Raises the store's errors."""
    for gpu in dict.fromkeys(map(layout.slug, gpus)):
        for meta in store.list(f"{layout.keys_prefix(domain)}/{gpu}", deadline):
            place = layout.parse_manifest_path(meta.path)
            if place is not None:
                yield place, meta


def _wait(stop: threading.Event, seconds: float, tick: Callable[[], None]) -> None:
    """Wait, and show meanwhile that this thread lives."""
    deadline = Deadline.after(seconds)
    while not deadline.passed() and not stop.wait(min(_TICK_SECONDS, deadline.remaining())):
        tick()
