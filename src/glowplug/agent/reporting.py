"""The documents of a pod's starts: told once, and what follows from them for the node and for the store.

A document comes when the engine is started and is replaced when there is a verdict; it is told then, and stays in the outbox until
its pod is gone or newer ones have come. What follows:

- A pod that was given a key used it; one that found a part damaged makes the key suspect on this node. Neither is believed further
  than that: the node store looks itself.
- A pod that became ready without parts with which it had crashed before is evidence against these, on this node.
- A start whose engine threw away what had been restored is a row in the manifest, as `run` writes it. That is a publish: only for
  pods that may, and only for a key that their spec leads to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from glowplug.agent.ledger import Ledger
from glowplug.core import canonical
from glowplug.core.documents.node import ENTRY, OutboxPart
from glowplug.core.documents.start import Compile, RestoreOutcome
from glowplug.core.errors import GlowplugError
from glowplug.nodestore import layout
from glowplug.nodestore.read import NodeStore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from glowplug.agent.pods import Pod
    from glowplug.agent.telling import Telling
    from glowplug.core.documents.start import Start
    from glowplug.nodestore.inbox import Inbox
    from glowplug.nodestore.read import Held

KEPT: Final = 8
"""Documents of one pod that stay in its outbox after they were told."""
_HOPELESS_SECONDS: Final = 3 * 3600.0
_TOLD: Final = "told"
_REJECTED: Final = "rejected"
_ASIDE: Final = "aside"


class Keys(Protocol):
    """The node store, as far as documents and publishes concern it (`agent/wanting.py`)."""

    def want(self, domain: str, key_digest: str, path: str, *, changed: bool = True) -> None:
        """Somebody just published this key, or changed it: fetch it. `path` is its manifest's.

        `changed` False: it is as it was, and the node lacks something of it.
        """
        ...

    def suspect(self, domain: str, key_digest: str) -> None:
        """A pod says that a part of it is damaged here."""
        ...

    def used(self, domain: str, key_digest: str) -> None:
        """A pod was given it."""
        ...


class Reporting:
    """Reads documents for one agent. Used by one thread."""

    def __init__(self, root: Path, telling: Telling, keys: Keys) -> None:
        self._root = root
        self._telling = telling
        self._keys = keys
        self._ledger = Ledger(root)

    def keep(self, uids: frozenset[str]) -> None:
        """Forget all other pods, and put what is remembered on the disk. Raises OSError."""
        self._ledger.keep(uids)
        self._ledger.write()

    def tell(self, pod: Pod, starts: Sequence[Start]) -> None:
        """Each start that has a verdict, once."""
        for start in starts:
            if not concluded(start) or self._ledger.has(pod.uid, _TOLD, start.id):
                continue
            if not self._ledger.add(pod.uid, _TOLD, start.id):
                continue
            self._telling.started(pod, start)
            self._learn(pod, start)

    def drop(self, pod: Pod, starts: Sequence[Start], written: Mapping[str, float], now: float, inbox: Inbox) -> None:
        """Remove documents with which all is done, but the newest. `written`: name → seconds since the epoch.

        One without a verdict is of a watcher that was killed, when it is old and newer ones have come: it will never have one.
        """

        def age(start: Start) -> float:
            return now - written.get(f"{start.id}{layout.JSON}", now)

        for start in sorted(starts, key=age)[KEPT:]:
            if self._done(pod, start) if concluded(start) else age(start) > _HOPELESS_SECONDS:
                inbox.drop(pod.uid, f"{start.id}{layout.JSON}")

    def rejections(self, pod: Pod, starts: Sequence[Start]) -> list[tuple[Start, OutboxPart]]:
        """Starts that rejected what this node gave them and are not in the manifest yet, each with the entry that it is about."""
        found = []
        for start in starts:
            if not _rejected(start) or self._ledger.has(pod.uid, _REJECTED, start.id):
                continue
            part = self._given(pod, start)
            if part is None:
                self.rejection_done(pod, start)
            else:
                found.append((start, part))
        return found

    def rejection_done(self, pod: Pod, start: Start) -> None:
        """It is in the manifest, or will never be."""
        self._ledger.add(pod.uid, _REJECTED, start.id)

    def crashes(self, pod: Pod, starts: Sequence[Start]) -> list[tuple[Start, OutboxPart, tuple[str, ...]]]:
        """Starts that became ready without what they had been given before; the entry and the parts of it that this node holds."""
        found = []
        for start in starts:
            if not start.restore.aside or start.ready_seconds is None or self._ledger.has(pod.uid, _ASIDE, start.id):
                continue
            held = self._held(pod, start)
            parts = tuple(part for part in held.parts if part.sha256 in start.restore.aside) if held is not None else ()
            if held is None or not parts:
                self.crash_done(pod, start)
                continue
            entry = OutboxPart(held.key, ENTRY, parts[0].of or parts[0].name)
            found.append((start, entry, tuple(part.sha256 for part in parts)))
        return found

    def crash_done(self, pod: Pod, start: Start) -> None:
        """The evidence was taken, or is none."""
        self._ledger.add(pod.uid, _ASIDE, start.id)

    def _done(self, pod: Pod, start: Start) -> bool:
        return not _rejected(start) or self._ledger.has(pod.uid, _REJECTED, start.id)

    def _learn(self, pod: Pod, start: Start) -> None:
        digest = start.key_digest or ""
        if not pod.domain or not canonical.is_digest(digest):
            return
        if start.restore.outcome is RestoreOutcome.RESTORED:
            self._keys.used(pod.domain, digest)
        if start.restore.damaged or start.restore.reason == "integrity":
            self._keys.suspect(pod.domain, digest)

    def _given(self, pod: Pod, start: Start) -> OutboxPart | None:
        """The first entry that the start says it was given, as this node holds it; None where it holds no such thing."""
        held = self._held(pod, start)
        given = [part for part in held.entries() if part.sha256 in start.restore.parts] if held is not None else []
        if held is None or not given:
            return None
        return OutboxPart(held.key, ENTRY, given[0].name, index=given[0].index)

    def _held(self, pod: Pod, start: Start) -> Held | None:
        try:
            return NodeStore(layout.store(self._root, pod.domain)).held(start.key_digest or "")
        except GlowplugError:
            return None


def concluded(start: Start) -> bool:
    """Whether the document is of a start that has its verdict, if only that there is none."""
    return start.verdict.compile is not Compile.UNKNOWN or bool(start.verdict.reason) or start.exit_status is not None


def _rejected(start: Start) -> bool:
    """Only what came from the store counts: an entry that the pod made itself and rejects harms nobody else."""
    return start.verdict.compile is Compile.REJECTED and start.restore.outcome is RestoreOutcome.RESTORED
