"""The outboxes of this node kept in order: junk and what is over the bounds goes, and what cannot be removed stops nobody.

Nothing is judged here but by names, sizes and times. What goes because of a bound is told, but one pod has only so many words an
hour: one that makes up files makes up no log without end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.agent import sweeping
from glowplug.core.clock import iso
from glowplug.core.errors import UnavailableError
from glowplug.nodestore import layout
from glowplug.nodestore.inbox import Caps, Inbox

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from glowplug.agent.pods import Pod
    from glowplug.agent.sweeping import Lying
    from glowplug.agent.telling import Telling
    from glowplug.core.clock import Clock, Deadline

CAPS: Final = Caps(document_bytes=1 << 19, starts=16, pods=4000)
"""Parsed, a document may take twenty times its bytes of memory. Outboxes are as many as a node has pods, and those that stayed."""
_HOUR: Final = 3600.0
_REFUSALS: Final = 100
"""Of one pod within an hour."""
_NAMES: Final = 5000
"""Names made up by pods that are remembered at most."""
_REMOVING_SECONDS: Final = 60.0
_STUCK_SECONDS: Final = 1800.0
"""A directory with the sticky bit, of another user, is one that nobody without CAP_FOWNER can empty."""


@dataclass(frozen=True)
class Bounds:
    """How much waits, and how long. Of one pod: what its own launcher keeps to (`nodestore.outbox.Caps`), and a little.

    Ages are those of a clock that may be set meanwhile; so nothing goes for its age before this agent saw it for `seen_seconds`.
    """

    pod_bytes: int = 9 * 2**30
    node_bytes: int = 32 * 2**30
    age_seconds: float = 86_400.0
    seen_seconds: float = 600.0
    unknown_seconds: float = 600.0
    gone_seconds: float = 20.0
    pod_turn_seconds: float = 900.0


BOUNDS: Final = Bounds()


class Outboxes:
    """All of one node. Used by one thread."""

    def __init__(self, root: Path, telling: Telling, clock: Clock, bounds: Bounds, caps: Caps) -> None:
        self.bounds = bounds
        self.caps = caps
        self._root = root
        self._telling = telling
        self._clock = clock
        self._since: dict[tuple[str, str], float] = {}
        self._refused: set[tuple[str, str, tuple[int, int]]] = set()
        self._tries: dict[str, dict[str, float]] = {}
        self._words: dict[str, list[float]] = {}
        self._seen: dict[tuple[str, str, tuple[int, int]], float] = {}

    def inbox(self) -> Inbox:
        """A fresh reader, whose `refused` are of what is read through it."""
        return Inbox(self._root, self.caps)

    def lying(self, uid: str) -> tuple[Lying, ...]:
        """What lies in one of them."""
        return sweeping.lying(layout.outbox(self._root, uid))

    def keep(self, uids: frozenset[str]) -> None:
        """Forget all that was remembered of others."""
        self._since = {key: at for key, at in self._since.items() if key[1] in uids}
        self._refused = {key for key in self._refused if key[0] in uids}
        for table in (self._tries, self._words):
            for uid in table.keys() - uids:
                del table[uid]

    def tidied(self, pod: Pod, deadline: Deadline) -> tuple[Lying, ...]:
        """What lies in a pod's outbox, without what nobody reads and within what one pod may have."""
        folder = layout.outbox(self._root, pod.uid)
        found = self.lying(pod.uid)
        names, now = frozenset(one.name for one in found), self._clock.now()
        strange = [one for one in found if sweeping.is_strange(one, names, now)]
        for one in strange:
            if self._may_try(pod.uid, one.name):
                sweeping.remove(folder, one.name, deadline.at_most(_REMOVING_SECONDS))
        kept = [one for one in found if one not in strange]
        size = sum(one.size for one in kept)
        for one in sorted(kept, key=lambda one: one.size, reverse=True):
            if size <= self.bounds.pod_bytes:
                break
            self.refuse(pod, pod.uid, "too_large", f"{size} bytes in one outbox; {one.name} is removed")
            sweeping.remove(folder, one.name, deadline)
            size -= one.size
        return self.lying(pod.uid)

    def bound(self, uids: Sequence[str], pod_of: Callable[[str], Pod | None], deadline: Deadline) -> None:
        """What waits for the store waits within bounds: the oldest goes first."""
        found = [(one.changed, uid, one) for uid in uids for one in self.lying(uid) if one.is_archive]
        now = self._clock.monotonic()
        self._seen = {key: self._seen.get(key, now) for key in ((uid, one.name, one.stamp) for _, uid, one in found)}
        size, count = sum(one.size for _, _, one in found), len(found)
        for changed, uid, one in sorted(found, key=lambda row: (row[0], row[1], row[2].name)):
            old = self._clock.now() - changed > self.bounds.age_seconds
            old = old and now - self._seen[uid, one.name, one.stamp] >= self.bounds.seen_seconds
            if deadline.passed() or (not old and size <= self.bounds.node_bytes):
                break
            detail = f"{one.name} has waited since {iso(changed)} and is removed"
            self.refuse(pod_of(uid), uid, "too_old" if old else "too_large", detail)
            self.inbox().drop(uid, one.name)
            size, count = size - one.size, count - 1
        self._telling.waiting(size, count)

    def damaged(self, pod: Pod, inbox: Inbox, found: Sequence[Lying]) -> None:
        """Tell and remove what a reading of an outbox did not believe."""
        stamps = {one.name: one.stamp for one in found}
        for refused in inbox.refused:
            once = (pod.uid, refused.name, stamps.get(refused.name, (0, 0)))
            if once not in self._refused:
                if len(self._refused) >= _NAMES:
                    self._refused.clear()
                self._refused.add(once)
                self.refuse(pod, pod.uid, "damaged", f"{refused.name}: {refused.reason}")
            inbox.drop(pod.uid, refused.name)

    def nobodys(self, uid: str, deadline: Deadline) -> None:
        """The API knows no pod of this UID, and has told of all pods: after a while it goes."""
        if self._lasts("unknown", uid) < self.bounds.unknown_seconds:
            return
        if self.lying(uid) and self._lasts("told", uid) == 0.0:
            self.refuse(None, uid, "pod_unknown", "the API knows no pod of this UID on this node")
        self._clear(uid, deadline)

    def left(self, uid: str, deadline: Deadline) -> None:
        """Its pod is gone and nothing in it waits: it goes, but not while a watcher may be at it still."""
        if self._lasts("gone", uid) >= self.bounds.gone_seconds:
            self._clear(uid, deadline)

    def refuse(self, pod: Pod | None, uid: str, reason: str, detail: str) -> None:
        """Tell a refusal, unless this pod has had its share."""
        now = self._clock.monotonic()
        told = self._words.setdefault(uid, [])
        told[:] = [at for at in told if now - at < _HOUR]
        if len(told) < _REFUSALS:
            told.append(now)
            self._telling.refused(pod, uid, reason, detail)

    def _clear(self, uid: str, deadline: Deadline) -> None:
        """Remove an outbox. What cannot be removed is told, and tried again much later: it may be large."""
        if not self._may_try(uid, ""):
            return
        if not self.inbox().clear(uid, deadline.at_most(_REMOVING_SECONDS)) and not deadline.passed():
            self._telling.failed("outbox", UnavailableError(f"the outbox of {uid} cannot be emptied"))

    def _may_try(self, uid: str, name: str) -> bool:
        """Whether the last try to remove this is long ago."""
        now = self._clock.monotonic()
        tries = self._tries.setdefault(uid, {})
        if now < tries.get(name, now):
            return False
        if len(tries) >= _NAMES:
            tries.clear()
        tries[name] = now + _STUCK_SECONDS
        return True

    def _lasts(self, what: str, uid: str) -> float:
        """Seconds since this was asked first."""
        now = self._clock.monotonic()
        return now - self._since.setdefault((what, uid), now)


def stamp(found: Sequence[Lying]) -> frozenset[tuple[str, tuple[int, int]]]:
    """Equal while nothing in an outbox has changed."""
    return frozenset((one.name, one.stamp) for one in found)
