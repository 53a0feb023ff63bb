"""One key at a time onto the node: how much it would take, the fetch itself, and whether what is here is what it was.

Remembers by the store's token of each manifest what became of it, so that a key which has not changed is not asked for again.
What goes wrong is either the store's trouble (it does not answer: all is tried again soon) or one key's own: a blob that is
missing, refused or damaged. That key waits, longer each time, and no pod waits for it: without it a start is a miss. A blob that is
damaged in the store is told, and waits by itself (`damage.py`).
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from glowplug.agent import housekeeping, quarantine, ranking
from glowplug.agent.damage import Damage, StillDamagedError
from glowplug.agent.ranking import Size
from glowplug.agent.reading import Places, Reading
from glowplug.cache import format as manifests
from glowplug.cache import layout
from glowplug.cache.node import fetch
from glowplug.cache.workers import workers
from glowplug.core.clock import SYSTEM, Deadline
from glowplug.core.errors import AccessDeniedError, GlowplugError, IntegrityError, NotFoundError, UnavailableError
from glowplug.kube.backoff import Backoff
from glowplug.nodestore import layout as nodes
from glowplug.nodestore.read import NodeStore

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from glowplug.agent.ranking import About, Listed
    from glowplug.agent.settings import Settings
    from glowplug.agent.telling import Telling
    from glowplug.cache.format import Manifest
    from glowplug.core.clock import Clock
    from glowplug.store.contract import Store

FETCH_SECONDS: Final = 900.0
"""For one key: 8 GiB at 10 MB/s."""
LIST_SECONDS: Final = 30.0
_READ_AT_ONCE: Final = 16
_SPOILED: Final = 3
_FIRST_WAIT: Final = 15.0
_LONGEST_WAIT: Final = 3600.0
_BUSY_SECONDS: Final = 5.0
_FOLDERS: Final = 4
"""Of so many files one more inode is counted for the folders that they lie in."""


@dataclass(frozen=True)
class Key:
    """A key of a domain, as the store listed it."""

    domain: str
    listed: Listed

    @property
    def about(self) -> About:
        """Its domain and its digest."""
        return self.domain, self.listed.place.key_digest


@dataclass(frozen=True)
class Sizes:
    """What keys take. `unasked`: those whose manifests could not be read now; `trouble`: the store itself is why."""

    known: dict[About, Size]
    unasked: frozenset[About]
    trouble: frozenset[About]


@dataclass
class _Tried:
    """A manifest of one version: what it takes, whether all of it is here, how often something of it was damaged.

    `again`: when a key that has trouble of its own is tried again. `skip`: what was left out because it crashes engines here.
    `at`: when something of it came.
    """

    version: str
    size: Size | None = None
    whole: bool = False
    spoiled: int = 0
    again: float = 0.0
    skip: frozenset[str] = frozenset()
    at: float = float("-inf")
    backoff: Backoff = field(default_factory=lambda: Backoff(_FIRST_WAIT, _LONGEST_WAIT))


class Bringing:
    """See the module's text. May be used from several threads: two of them never bring the same key at once.

    `clock` is one that stops with the agent: what ends with it is no failure and is not told.
    """

    def __init__(
        self,
        settings: Settings,
        telling: Telling,
        *,
        verify: Callable[[Manifest], None] | None,
        clock: Clock,
        damage: Damage | None = None,
    ) -> None:
        self._damage = damage or Damage(clock)
        self._places = Places()
        self._root = settings.root
        self._telling = telling
        self._verify = verify
        self._clock = clock
        self._tried: dict[About, _Tried] = {}
        self._busy: set[About] = set()
        self._freed = threading.Condition()
        self._withheld = ""
        self.fault: GlowplugError | None = None
        """The last fault that was the store's and not one key's."""

    def withhold(self, reason: str) -> None:
        """Why the store's switch lets nothing come to nodes from now on, "" where it does."""
        self._withheld = reason

    def withheld(self) -> str:
        """What was said last."""
        return self._withheld

    def sizes(self, store: Store, keys: Sequence[Key]) -> Sizes:
        """What each key takes; only manifests that changed are read. What is gone or spoiled takes nothing and is left out."""
        soon = Deadline.after(LIST_SECONDS, self._clock)
        unasked: set[About] = set()
        trouble: set[About] = set()

        def read(key: Key) -> Size | None:
            tried = self._tried.get(key.about)
            if tried is not None and tried.version == key.listed.version:
                return tried.size
            size = None
            try:
                data = store.get(key.listed.place.path, soon, max_bytes=manifests.MANIFEST_BYTES).data
                size = _size(manifests.decode(data, path=key.listed.place.path))
            except NotFoundError:
                pass  # removed since it was listed, or only a newer glowplug can read it
            except IntegrityError as error:
                self.failed("list", error)
            except GlowplugError as error:
                self.failed("list", error)
                unasked.add(key.about)
                if _is_the_store_s(error):
                    self.fault = error
                    trouble.add(key.about)
                return None  # not remembered: it is asked for again
            self._tried[key.about] = _Tried(key.listed.version, size)
            return size

        with workers(_READ_AT_ONCE) as pool:
            found = dict(zip((key.about for key in keys), pool.map(read, keys), strict=True))
        known = {about: size for about, size in found.items() if size is not None}
        return Sizes(known, frozenset(unasked), frozenset(trouble))

    def size(self, key: Key) -> Size:
        """What a key takes, as `sizes` found it."""
        tried = self._tried.get(key.about)
        return (tried and tried.size) or Size(0, 0)

    def is_settled(self, key: Key, left_out: frozenset[str]) -> bool:
        """Whether nothing is to be fetched of it now: it is here, or waits for its time, or was damaged often enough.

        `left_out`: parts that no pod of this node is given now.
        """
        tried = self._tried.get(key.about)
        if tried is None:
            return False
        return self._rests(tried) or (tried.whole and tried.skip <= left_out and self.is_here(key.about))

    def pause(self) -> float:
        """Seconds until a key that has trouble of its own is tried again; infinite where there is none."""
        now = self._clock.monotonic()
        waiting = [tried.again for tried in list(self._tried.values()) if tried.again and tried.spoiled < _SPOILED]
        return max(0.0, min(waiting) - now) if waiting else float("inf")

    def is_here(self, about: About) -> bool:
        """Whether the node has anything of it."""
        domain, digest = about
        return nodes.key_document(nodes.store(self._root, domain), digest).exists()

    def came_since(self, about: About, moment: float) -> bool:
        """Whether something of it came since then (this clock's monotonic seconds), or is coming."""
        tried = self._tried.get(about)
        return about in self._busy or (tried is not None and tried.at >= moment)

    def forget(self, domain: str, but: Collection[str]) -> None:
        """Remember nothing of a domain's keys but of these digests, and of those that are here."""
        for about in [about for about in list(self._tried) if about[0] == domain and about[1] not in but]:
            if about not in self._busy and not self.is_here(about):
                self._tried.pop(about, None)

    def bring(self, store: Store, domain: str, path: str, *, anew: bool = False) -> bool:
        """Fetch what is missing of the key whose manifest lies at `path`; False where all has to be tried again soon.

        `anew`: whatever was known of it, it has changed; else one that has trouble of its own is left alone until its time comes.
        Raises nothing foreseeable.
        """
        place = layout.parse_manifest_path(path)
        if place is None or self.withheld():
            return True
        about = (domain, place.key_digest)
        with self._alone_with(about) as alone:
            if not alone or self._ending:
                return False
            if anew or about not in self._tried:
                self._tried[about] = _Tried("")
            if self._rests(self._tried[about]):
                return True
            return self._fetched(store, about, path, self._tried[about])

    def bring_if_blocked(self, store: Store, domain: str, path: str, deadline: Deadline) -> None:
        """Where somebody has blocked the key whose manifest lies at `path`, its parts leave the node. Raises the store's errors."""
        data = store.get(path, deadline, max_bytes=manifests.MANIFEST_BYTES).data
        if manifests.decode(data, path=path).blocked is not None:
            self.bring(store, domain, path, anew=True)

    def knows(self, key: Key) -> bool:
        """Whether this version of its manifest was met before."""
        tried = self._tried.get(key.about)
        return tried is not None and tried.version == key.listed.version

    def examine(self, domain: str, digest: str) -> str:
        """Read every byte of a key that is here. Where it was damaged it is gone; its manifest's path then, if that is known.

        Raises nothing foreseeable.
        """
        about = (domain, digest)
        with self._alone_with(about) as alone:
            if not alone:
                return ""
            try:
                if housekeeping.intact(self._root, domain, digest, Deadline.after(FETCH_SECONDS, self._clock)):
                    return ""
            except (OSError, GlowplugError) as error:
                self.failed("disk", error)
                return ""
            path = ""
            with contextlib.suppress(GlowplugError):
                held = NodeStore(nodes.store(self._root, domain)).held(digest)
                path = layout.manifest_path(held.key) if held is not None else ""
            self._drop(about, "damaged")
            self._tried.pop(about, None)
            return path

    def failed(self, what: str, error: BaseException) -> None:
        """Tell it, unless the agent's end is what broke it off."""
        if not self._ending:
            self._telling.failed(what, error)

    @property
    def _ending(self) -> bool:
        return self._clock.monotonic() == float("inf")

    @contextlib.contextmanager
    def _alone_with(self, about: About) -> Iterator[bool]:
        """Whether nobody else is at this key; who is has a long deadline, and nobody waits for it for long."""
        with self._freed:
            alone = self._freed.wait_for(lambda: about not in self._busy, _BUSY_SECONDS)
            if alone:
                self._busy.add(about)
        try:
            yield alone
        finally:
            if alone:
                with self._freed:
                    self._busy.discard(about)
                    self._freed.notify_all()

    def _rests(self, tried: _Tried) -> bool:
        """Whether a key that has trouble of its own is not to be tried now."""
        return tried.spoiled >= _SPOILED or self._clock.monotonic() < tried.again

    def _fetched(self, store: Store, about: About, path: str, tried: _Tried) -> bool:
        """False where the store has to be asked again soon."""
        domain, digest = about
        began = SYSTEM.monotonic()
        try:
            deadline = Deadline.after(FETCH_SECONDS, self._clock)
            tried.skip = quarantine.left_out(self._root)
            resting = self._resting(store, about, path, deadline)
            skip = tried.skip | resting
            with self._reading(store, domain) as reading:
                done = fetch(reading, path, domain, self._root, deadline=deadline, verify=self._verify, skip=skip)
        except NotFoundError:
            return True  # removed since it was listed: the next listing shows it
        except (GlowplugError, OSError) as error:
            if isinstance(error, IntegrityError) and error.code == "signature":
                self._drop(about, "signature")
            return self._judged(tried, [error])
        tried.at = self._clock.monotonic()
        if done.parts:
            self._telling.fetched(domain, digest, done.bytes, len(done.parts), SYSTEM.monotonic() - began)
        tried.whole = not done.faults and not resting
        for sha256 in done.parts:
            self._damage.whole((domain, sha256))
        faults = list(done.faults)
        if any(isinstance(fault, IntegrityError) for fault in faults) and self._is_damaged(
            store, about, path, deadline
        ):
            for fault in faults:  # it is known which, and each has its own time
                if isinstance(fault, IntegrityError) and not isinstance(fault, StillDamagedError):
                    self.failed("fetch", fault)
            faults = [fault for fault in faults if not isinstance(fault, IntegrityError)]
        return self._judged(tried, faults)

    def _resting(self, store: Store, about: About, path: str, deadline: Deadline) -> frozenset[str]:
        """Damaged parts of entries that the node lacks: nothing of these is fetched, not even what is whole of them.

        Of an entry that is here with other support the damaged part alone is left out, by `Reading`. Raises the store's errors.
        """
        domain, digest = about
        if not self._damage.is_any(domain):
            return frozenset()
        place = nodes.key(nodes.store(self._root, domain), digest)
        data = store.get(path, deadline, max_bytes=manifests.MANIFEST_BYTES).data
        manifest = manifests.decode(data, path=path)
        lacking = [entry for entry in manifest.entries() if not (place / entry.sha256).exists()]
        parts = {part.sha256 for entry in lacking for part in (entry, manifest.support(entry)) if part is not None}
        resting = set()
        for sha256 in parts:
            if self._damage.is_known((domain, sha256)):
                meta = store.head(layout.blob_path(domain, sha256), deadline)
                if meta is not None and self._damage.rests((domain, sha256), meta.version):
                    resting.add(sha256)
        return frozenset(resting)

    def _reading(self, store: Store, domain: str) -> Reading:
        return Reading(store, domain, self._places, self._damage)

    def _is_damaged(self, store: Store, about: About, path: str, deadline: Deadline) -> bool:
        """Read what did not come once more; whether parts of this key are damaged in the store. Those that are new are told."""
        domain, digest = about
        place = nodes.key(nodes.store(self._root, domain), digest)
        known = False
        try:
            data = store.get(path, deadline, max_bytes=manifests.MANIFEST_BYTES).data
            for part in manifests.decode(data, path=path).parts:
                if not (place / part.sha256).exists():
                    known |= self._is_damage(store, about, part.sha256, deadline)
        except (GlowplugError, OSError) as error:
            if not isinstance(error, NotFoundError):
                self.failed("fetch", error)
        return known

    def _is_damage(self, store: Store, about: About, sha256: str, deadline: Deadline) -> bool:
        """Whether the store's object of one part is damaged. Raises the store's errors."""
        domain, digest = about
        path, blob = layout.blob_path(domain, sha256), (domain, sha256)
        meta = store.head(path, deadline)
        if meta is None:
            return False  # missing is another fault
        with self._reading(store, domain) as reading:
            try:
                new = self._damage.judge(blob, meta.version, reading.stream(path, deadline))
            except StillDamagedError:
                return True
        if new:
            self._telling.damaged(domain, digest, sha256)
        return new is not None

    def _judged(self, tried: _Tried, faults: Sequence[GlowplugError | OSError]) -> bool:
        """What follows from a fetch; False where one of the faults is the store's."""
        for fault in faults:
            self.failed("fetch", fault)
        tried.again = 0.0
        if not faults:
            tried.backoff.reset()
            return True
        tried.spoiled += any(isinstance(fault, IntegrityError) for fault in faults)
        of_the_store = [fault for fault in faults if isinstance(fault, GlowplugError) and _is_the_store_s(fault)]
        if of_the_store:
            self.fault = of_the_store[-1]
            return False
        if not all(isinstance(fault, IntegrityError) for fault in faults):
            tried.again = self._clock.monotonic() + tried.backoff.next()
        return True

    def _drop(self, about: About, reason: str) -> None:
        try:
            housekeeping.drop(self._root, *about, reason, self._telling)
        except OSError as error:
            self.failed("disk", error)


def _is_the_store_s(error: GlowplugError | OSError) -> bool:
    """Whether this would happen to every other key, too."""
    if isinstance(error, AccessDeniedError):
        return error.code == "no-credentials"
    return isinstance(error, UnavailableError) and error.code != "no-space"


def _size(manifest: Manifest) -> Size:
    """What becomes of a manifest on a disk, rather too much than too little."""
    if manifest.blocked is not None:
        return Size(ranking.BLOCK, _FOLDERS)
    files = sum(part.files for part in manifest.parts)
    unpacked = sum(part.unpacked_bytes for part in manifest.parts)
    folders = files // _FOLDERS + _FOLDERS
    return Size(unpacked + (files + folders) * ranking.BLOCK, files + folders)
