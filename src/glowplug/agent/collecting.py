"""What pods leave in their outboxes: compared with what the API says of them, published once, told, removed.

A round looks at every outbox; those in which nothing has changed cost a listing. All are told before anything is published, and
pods take turns with a time of their own, so that what one of them leaves there can neither stop nor hold up the others: whatever
goes wrong about one outbox is told, and the next one follows.

- What is not believed is told once and removed. What is published is removed. What cannot be published *now* (no store, no rights)
  stays and is tried again, more and more rarely, for `Bounds.age_seconds` and within `Bounds.node_bytes`; then the oldest goes,
  told. A store that does not answer is not asked by each pod in turn.
- What became of one start's artifacts is told as one (`tally.py`).
- The order is publish, then remove: an agent that is killed in between finds the store unchanged next time.
- Outboxes of pods that are gone are emptied when nothing waits in them; those of UIDs that the API never spoke of, after a grace.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from glowplug.agent import arrivals, claims, offering, quarantine
from glowplug.agent.arrivals import Archive
from glowplug.agent.damage import Damage
from glowplug.agent.offering import Offering, RefusedError
from glowplug.agent.outboxes import BOUNDS, CAPS, Outboxes, stamp
from glowplug.agent.pods import Said
from glowplug.agent.reporting import Reporting
from glowplug.agent.settings import Publisher
from glowplug.agent.tally import Tally
from glowplug.cache import layout as cache
from glowplug.cache import publish as publishing
from glowplug.cache.format import Rejection
from glowplug.core.clock import SYSTEM
from glowplug.core.documents.start import PublishOutcome, PublishResult
from glowplug.core.errors import GlowplugError, NotFoundError
from glowplug.core.faults import reason_of
from glowplug.kube.backoff import Backoff
from glowplug.manifests import podspec
from glowplug.nodestore import layout
from glowplug.tree import workspace

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    from glowplug.agent.arrivals import Arrival
    from glowplug.agent.claims import Refusal
    from glowplug.agent.outboxes import Bounds
    from glowplug.agent.pods import Pod
    from glowplug.agent.reporting import Keys
    from glowplug.agent.settings import Settings
    from glowplug.agent.sweeping import Lying
    from glowplug.agent.telling import Telling
    from glowplug.core.clock import Clock, Deadline
    from glowplug.core.documents.node import OutboxPart
    from glowplug.core.documents.start import Start
    from glowplug.nodestore.inbox import Caps, Inbox
    from glowplug.store.contract import Store

Judge: TypeAlias = "Callable[[OutboxPart, Pod, Settings, Sequence[str]], Refusal | None]"
"""Whether a pod may publish what it says it compiled (`claims.judge`)."""

_WAITS: Final = (15.0, 600.0)
_ASK_AGAIN_SECONDS: Final = 20.0
_REMEMBERED: Final = 16 << 20
"""Characters of the pods that an outbox is left of."""
_SEALING_SECONDS: Final = 1200.0
"""A start that has not said by then what became of its publish says nothing more: its watcher has 900 seconds for it."""
_LATER: Final = frozenset(
    (
        "store_unavailable",
        "unavailable",
        "access_denied",
        "no_credentials",
        "read_only_store",
        "publish_off",
        "deadline",
        "throttled",
        "no_space",
        "disk",
        "no_bucket",
        "no_region",
        "wrong_region",
        "conflict",
        "blob_missing",
    )
)
"""Reasons that may be gone the next time; all others are for good."""
_OF_THE_STORE: Final = frozenset(
    (
        "store_unavailable",
        "unavailable",
        "no_credentials",
        "deadline",
        "throttled",
        "no_bucket",
        "no_region",
        "wrong_region",
    )
)
"""Those that every other publish would meet, too."""


class Known(Protocol):
    """The pods of this node (`agent/watching.py`)."""

    synced: threading.Event
    """Set when all of them have been listed once."""

    def get(self, uid: str) -> Pod | None:
        """The pod of a UID, if only as one that is gone."""
        ...


@dataclass
class _Wait:
    """When something is tried again."""

    until: float = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(*_WAITS))

    def longer(self, now: float) -> None:
        self.until = now + self.backoff.next()


class Collector:
    """See the module's text. `round` is called by one thread, again and again.

    `store` opens the store and is called anew after a fault. `candidates` are the processors that the node's pods can have, ()
    while that is not known: then everything waits.
    """

    def __init__(
        self,
        settings: Settings,
        pods: Known,
        store: Callable[[], Store],
        candidates: Callable[[], Sequence[str]],
        telling: Telling,
        keys: Keys,
        *,
        judge: Judge = claims.judge,
        clock: Clock = SYSTEM,
        bounds: Bounds = BOUNDS,
        caps: Caps = CAPS,
        damage: Damage | None = None,
    ) -> None:
        self._damage = damage or Damage(clock)
        self._settings = settings
        self._root = settings.root
        self._pods = pods
        self._open = store
        self._candidates = candidates
        self._telling = telling
        self._keys = keys
        self._judge = judge
        self._clock = clock
        self._outboxes = Outboxes(settings.root, telling, clock, bounds, caps)
        self._reporting = Reporting(settings.root, telling, keys)
        self._tally = Tally(telling, clock)
        self._store: Store | None = None
        self._undone = False
        self._found: tuple[str, ...] = ()
        self._asked = float("-inf")
        self._store_waits = _Wait()
        self._waits: dict[tuple[str, str], _Wait] = {}
        self._quiet: dict[str, frozenset[tuple[str, tuple[int, int]]]] = {}
        self._remembered: dict[str, Pod] = {}
        self._served: dict[str, float] = {}

    def round(self, deadline: Deadline) -> bool:
        """Look at every outbox once; whether all was dealt with that could be, but what starts have not sealed to the end yet.

        Raises nothing foreseeable; what the deadline leaves is for the next round.
        """
        self._undone = False
        workspace.sweep(self._root)
        uids = self._outboxes.inbox().pods()
        self._forget(frozenset(uids))
        for uid in uids:
            self._guarded(uid, self._tell, deadline)
        for uid in sorted(uids, key=lambda one: (self._served.get(one, 0.0), one)):
            self._guarded(uid, self._turn, deadline)
            self._served[uid] = self._clock.monotonic()
        if not deadline.passed():
            self._outboxes.bound(uids, self._pod, deadline)
        self._tally.tell_late()
        self._remember_less()
        try:
            self._reporting.keep(frozenset(uids))
        except OSError as error:
            self._telling.failed("disk", error)
        return not (self._undone or deadline.passed())

    def close(self) -> None:
        """The agent ends: tell what was added up."""
        self._tally.tell()

    # --- one pod ----------------------------------------------------------------------------------------------------

    def _guarded(self, uid: str, work: Callable[[str, Deadline], None], deadline: Deadline) -> None:
        if deadline.passed():
            return
        try:
            work(uid, deadline.at_most(self._outboxes.bounds.pod_turn_seconds))
        except Exception as error:  # noqa: BLE001 - one pod's outbox is not the others' fault
            self._undone = True
            self._telling.failed("outbox", error)

    def _tell(self, uid: str, deadline: Deadline) -> None:
        """Keep an outbox in order, and tell the starts of its pod."""
        pod = self._pod(uid)
        if pod is None:
            if self._pods.synced.is_set():
                self._outboxes.nobodys(uid, deadline)
            return
        found = self._outboxes.tidied(pod, deadline)
        if pod.domain and stamp(found) != self._quiet.get(uid):
            self._reporting.tell(pod, self._outboxes.inbox().starts(uid))

    def _turn(self, uid: str, deadline: Deadline) -> None:
        """Publish what there is, and clear what nobody needs."""
        pod = self._pod(uid)
        if pod is None:
            return
        found = self._outboxes.lying(uid)
        if pod.domain and stamp(found) != self._quiet.get(uid):
            self._quiet.pop(uid, None)
            if self._read(pod, self._outboxes.inbox(), found, deadline):
                return
            left = stamp(self._outboxes.lying(uid))
            if self._all_seen(found) and left <= stamp(found):
                self._quiet[uid] = left
        if pod.gone and pod.domain:
            self._outboxes.left(uid, deadline)

    def _all_seen(self, found: Sequence[Lying]) -> bool:
        """Whether a reading of an outbox came to the end of it."""
        starts = sum(layout.start_of(one.name) is not None for one in found)
        caps = self._outboxes.caps
        return starts <= caps.starts and sum(one.is_archive for one in found) <= caps.archives

    def _read(self, pod: Pod, inbox: Inbox, found: tuple[Lying, ...], deadline: Deadline) -> bool:
        """Deal with all that lies in an outbox; whether something of it waits for another round."""
        starts = inbox.starts(pod.uid)
        self._reporting.tell(pod, starts)
        waits = self._reject(pod, starts, deadline)
        waits |= self._set_aside(pod, starts)
        waits |= self._archives(pod, inbox, starts, found, deadline)
        self._outboxes.damaged(pod, inbox, found)
        written = {one.name: one.changed for one in found}
        self._reporting.drop(pod, starts, written, self._clock.now(), inbox)
        return waits

    def _archives(
        self, pod: Pod, inbox: Inbox, starts: Sequence[Start], found: tuple[Lying, ...], deadline: Deadline
    ) -> bool:
        sealed = [Archive(one.name, one.start_id, one.part, one.size) for one in inbox.archives(pod.uid, deadline)]
        changed = {one.name: one.changed for one in found}
        ended = {start.id for start in starts if start.publish is not None}
        told = set(ended)
        waits = False
        for arrival in arrivals.sort(sealed):
            if deadline.passed():
                return True
            newest = max(changed.get(archive.name, self._clock.now()) for archive in arrival.archives)
            over = pod.gone or arrival.start_id in ended or self._clock.now() - newest > _SEALING_SECONDS
            if over:
                told.add(arrival.start_id)
            if not arrival.whole and not over:
                waits = True
            elif self._dealt_with(pod, inbox, arrival, deadline):
                for archive in arrival.archives:
                    inbox.drop(pod.uid, archive.name)
            else:
                waits = True
        self._tally.tell_ended(pod.uid, None if pod.gone else told)
        return waits

    def _dealt_with(self, pod: Pod, inbox: Inbox, arrival: Arrival, deadline: Deadline) -> bool:
        """Whether nothing more is to be done about an arrival."""
        digest = arrival.key.digest()
        off = self._off()
        if off:
            self._tally.add(pod, arrival.start_id, digest, PublishResult(PublishOutcome.SKIPPED, off))
            return True
        candidates = self._processors()
        if not candidates or self._must_wait(pod, digest):
            self._undone = True
            return False
        refusal = self._judge(arrival.claim, pod, self._settings, candidates)
        if refusal is not None:
            self._refuse(pod, arrival, refusal.reason, refusal.detail)
            return True
        guards = offering.guards_of(arrival.claim.guards, _image(pod))
        try:
            result = self._offer(inbox, pod.uid, arrival, guards, deadline)
        except RefusedError as error:
            self._refuse(pod, arrival, error.reason, error.message)
            return True
        except NotFoundError:
            return False  # an archive changed under our hands: the next round sees what is there then
        changed = result.outcome is PublishOutcome.PUBLISHED
        lacks = result.outcome is PublishOutcome.UNCHANGED and offering.held(self._root, arrival, guards) is None
        if changed or lacks:
            self._keys.want(pod.domain, digest, cache.manifest_path(arrival.key), changed=changed)
        return self._settled(pod, arrival.start_id, digest, result, deadline)

    def _refuse(self, pod: Pod, arrival: Arrival, reason: str, detail: str) -> None:
        if self._tally.is_news(pod.uid, arrival.start_id, reason):
            self._outboxes.refuse(pod, pod.uid, reason, detail)

    def _offer(
        self, inbox: Inbox, uid: str, arrival: Arrival, guards: Mapping[str, str], deadline: Deadline
    ) -> PublishResult:
        try:
            store = self._opened()
        except (GlowplugError, OSError) as error:
            return PublishResult(PublishOutcome.FAILED, reason_of(error))
        by = f"agent {self._settings.node_name} {arrival.start_id}"
        return Offering(store, self._root, by, self._clock, self._damage).publish(inbox, uid, arrival, guards, deadline)

    def _settled(self, pod: Pod, start_id: str, digest: str, result: PublishResult, deadline: Deadline) -> bool:
        """Tell what became of a publish; False where it is to be tried again."""
        later = result.outcome in (PublishOutcome.SKIPPED, PublishOutcome.FAILED) and _word(result.reason) in _LATER
        if not later:
            self._store_waits = _Wait()
            self._waits.pop((pod.uid, digest), None)
            self._tally.add(pod, start_id, digest, result)
            return True
        self._undone = True
        self._store = None  # opened anew: credentials may have come
        of_the_store = _word(result.reason) in _OF_THE_STORE
        wait = self._store_waits if of_the_store else self._waits.setdefault((pod.uid, digest), _Wait())
        now = self._clock.monotonic()
        wait.longer(now)
        if not deadline.passed():  # else it is out of time, not out of luck
            self._telling.published(pod, pod.domain, digest, result, again=wait.until - now)
        return False

    def _must_wait(self, pod: Pod, digest: str) -> bool:
        wait = self._waits.get((pod.uid, digest))
        return self._clock.monotonic() < max(self._store_waits.until, wait.until if wait else 0.0)

    def _processors(self) -> Sequence[str]:
        """Asked for once in a while: who answers asks the API server."""
        now = self._clock.monotonic()
        if now >= self._asked + _ASK_AGAIN_SECONDS:
            self._asked = now
            try:
                self._found = tuple(self._candidates())
            except GlowplugError as error:
                self._telling.failed("api", error)
        return self._found

    def _reject(self, pod: Pod, starts: Sequence[Start], deadline: Deadline) -> bool:
        """Rows for starts that threw away what they had been given; whether one waits."""
        waits = False
        for start, part in self._reporting.rejections(pod, starts):
            digest = part.key.digest()
            candidates = () if self._off() else self._processors()
            if not self._off() and (not candidates or self._must_wait(pod, digest)):
                waits = True
                continue
            if not self._off() and self._judge(part, pod, self._settings, candidates) is None:
                result = self._rejected(start, part, deadline)
                if not self._settled(pod, start.id, digest, result, deadline):
                    waits = True
                    continue
                path = cache.manifest_path(part.key)
                self._keys.want(
                    pod.domain, digest, path
                )  # it may be blocked now, and the next pod must not be given it
            self._reporting.rejection_done(pod, start)
        return waits

    def _set_aside(self, pod: Pod, starts: Sequence[Start]) -> bool:
        """What crashes an engine here is given to none here any more, whoever's pod it was; whether that waits."""
        waits = False
        anybody = replace(
            self._settings, publishers=(Publisher(pod.namespace, pod.account),), read_only=False, observe=False
        )
        for start, entry, parts in self._reporting.crashes(pod, starts):
            digest, candidates = entry.key.digest(), self._processors()
            if not candidates:
                waits = True
                continue
            if quarantine.was_restarted(pod) and self._judge(entry, pod, anybody, candidates) is None:
                quarantine.convict(self._root, digest, parts, self._clock)
                self._telling.set_aside(pod, pod.domain, digest, quarantine.described(self._root, parts, self._clock))
                self._keys.want(pod.domain, digest, cache.manifest_path(entry.key))
            self._reporting.crash_done(pod, start)
        return waits

    def _rejected(self, start: Start, part: OutboxPart, deadline: Deadline) -> PublishResult:
        try:
            store = self._opened()
        except (GlowplugError, OSError) as error:
            return PublishResult(PublishOutcome.FAILED, reason_of(error))
        row = Rejection(start.id, part.name, start.verdict.reason)
        return publishing.publish(
            store,
            part.key,
            part.guards,
            (),
            rejections=(row,),
            deadline=deadline,
            clock=self._clock,
            scratch=self._root,
        )

    # --- what is remembered -----------------------------------------------------------------------------------------

    def _pod(self, uid: str) -> Pod | None:
        """The API's word, and for as long as the outbox is there its last word: a store may be away for longer than that."""
        pod = self._pods.get(uid)
        if pod is not None:
            self._remembered[uid] = pod
            return pod
        return self._remembered.get(uid)

    def _forget(self, uids: frozenset[str]) -> None:
        """All that is remembered of outboxes that are not there any more."""
        self._waits = {key: wait for key, wait in self._waits.items() if key[0] in uids}
        self._outboxes.keep(uids)
        self._tally.keep(uids)
        for table in (self._quiet, self._remembered, self._served):
            for uid in table.keys() - uids:
                del table[uid]

    def _remember_less(self) -> None:
        """The largest go first: most of them the API's watch knows still, and small pods do not suffer for large ones."""
        sizes = {uid: pod.object.size for uid, pod in self._remembered.items() if isinstance(pod.object, Said)}
        left = sum(sizes.values())
        for uid in sorted(sizes, key=sizes.__getitem__, reverse=True):
            if left <= _REMEMBERED:
                return
            left -= sizes[uid]
            del self._remembered[uid]

    def _opened(self) -> Store:
        if self._store is None:
            self._store = self._open()
        return self._store

    def _off(self) -> str:
        """Why this agent publishes nothing at all, "" where it does."""
        if self._settings.observe:
            return "observe"
        if self._settings.read_only:
            return "read_only"
        return "" if self._settings.store else "no_store"


def _image(pod: Pod) -> str:
    """The digest of the engine's image; "" where that is not one, or not known."""
    found = {claims.image_digest(pod, one.container) for one in podspec.engines(pod.object)}
    return next(iter(found)) if len(found) == 1 else ""


def _word(reason: str) -> str:
    return reason.partition(":")[0]
