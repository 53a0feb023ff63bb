"""One arrival into the store: unpacked under caps into the agent's own scratch, looked at, redacted, published.

The pod's words were compared with the API's before. Here its bytes are held to what an engine's caches can hold: only files that
may travel, an entry that the adapter recognises by itself, nothing else beside it. The scratch is on the outbox's file system, and
what a killed agent leaves there is removed by the next one.

Most arrivals are of entries that the store has already: all replicas of a workload hand over the same. Those cost two requests and
no byte. Two cold compiles never give the same files, so there is nothing in them that could complete what is published.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from glowplug.agent.damage import Damage
from glowplug.cache import commit, layout, uses
from glowplug.cache import publish as publishing
from glowplug.cache.bundle import Cleaning, NewPart
from glowplug.cache.format import LAST_REVISION, NewerManifestError
from glowplug.core.clock import SYSTEM
from glowplug.core.documents.fingerprint import GUARDS
from glowplug.core.documents.node import ENTRY
from glowplug.core.documents.start import PublishOutcome, PublishResult
from glowplug.core.errors import AccessDeniedError, GlowplugError, IntegrityError, NotFoundError
from glowplug.core.faults import reason_of
from glowplug.engines import registry
from glowplug.engines.adapter import Launch, Reach
from glowplug.nodestore import layout as nodes
from glowplug.nodestore.inbox import LIMITS
from glowplug.nodestore.read import NodeStore
from glowplug.tree import archive, room
from glowplug.tree.model import File, Index
from glowplug.tree.workspace import workspace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from glowplug.agent.arrivals import Arrival
    from glowplug.cache.format import Part
    from glowplug.core.clock import Clock, Deadline
    from glowplug.core.documents.node import OutboxPart
    from glowplug.engines.adapter import Adapter
    from glowplug.nodestore.inbox import Inbox
    from glowplug.store.contract import Store

_OBSERVED: Final = ("compile_ms", "ready_ms")
_ASKING_SECONDS: Final = 30.0
"""For the first questions to the store: one that does not answer them gets no archive unpacked for it."""
_LONGEST_MS: Final = 7 * 86_400_000


class RefusedError(IntegrityError):
    """The bytes are not what they have to be; `reason` is the word for it."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message, code="bad-archive")
        self.reason = reason


@dataclass(frozen=True)
class Offering:
    """What a publish needs beside the arrival. `created_by` is for people."""

    store: Store
    root: Path
    created_by: str
    clock: Clock = SYSTEM
    damage: Damage = field(default_factory=Damage)

    def publish(
        self, inbox: Inbox, pod_uid: str, arrival: Arrival, guards: Mapping[str, str], deadline: Deadline
    ) -> PublishResult:
        """Publish an arrival.

        Raises RefusedError for bytes that are not published, NotFoundError where an archive has gone meanwhile.
        """
        began = self.clock.monotonic()
        adapter = registry.by_name(arrival.key.engine)
        if adapter is None:
            raise RefusedError("engine_not_supported", f"no adapter for the engine {arrival.key.engine!r}")
        try:
            soon = deadline.at_most(_ASKING_SECONDS)
            known = self._known(arrival, guards, soon)
            doubt = any(self.damage.is_known((arrival.key.domain, part.sha256)) for part in known)
            if known and not doubt and self._suffice(known, arrival, soon):
                uses.touch(self.store, arrival.key, deadline, self.clock)
                return PublishResult(PublishOutcome.UNCHANGED, seconds=self.clock.monotonic() - began)
            with workspace(self.root) as work:
                return self._unpacked(inbox, pod_uid, arrival, guards, adapter, work, deadline, doubt=doubt)
        except (RefusedError, _GoneError):
            raise
        except NewerManifestError:
            result = PublishResult(PublishOutcome.SKIPPED, "newer_format")
        except AccessDeniedError as error:
            result = PublishResult(PublishOutcome.SKIPPED, reason_of(error))
        except (GlowplugError, OSError) as error:
            result = PublishResult(PublishOutcome.FAILED, reason_of(error))
        return result

    def _known(self, arrival: Arrival, guards: Mapping[str, str], deadline: Deadline) -> tuple[Part, ...]:
        """What the store's manifest has of the entry, with its support behind it; () where it has none, or is blocked."""
        manifest = commit.read(self.store, layout.manifest_path(arrival.key), deadline).manifest
        known = manifest.entry(arrival.entry, guards) if manifest is not None else None
        if manifest is None or known is None or manifest.blocked is not None:
            return ()
        support = manifest.support(known)
        return (known,) if support is None else (known, support)

    def _suffice(self, known: tuple[Part, ...], arrival: Arrival, deadline: Deadline) -> bool:
        """Whether all of it is there, and the arrival can add nothing to it."""
        if not arrival.whole and (len(known) == 1 or known[-1].revision < LAST_REVISION):
            return False
        return all(self._is_there(arrival.key.domain, part, deadline) for part in known)

    def _is_there(self, domain: str, part: Part, deadline: Deadline) -> bool:
        found = self.store.head(layout.blob_path(domain, part.sha256), deadline)
        return found is not None and found.size == part.size

    def _unpacked(
        self,
        inbox: Inbox,
        pod_uid: str,
        arrival: Arrival,
        guards: Mapping[str, str],
        adapter: Adapter,
        work: Path,
        deadline: Deadline,
        *,
        doubt: bool,
    ) -> PublishResult:
        room.check(work, 2 * arrival.size, min(LIMITS.files, arrival.size // 1024))
        parts = _unpack(inbox, pod_uid, arrival, work, deadline)
        for part in parts:
            _look(part, arrival, adapter)
        if not arrival.whole:
            entry = held(self.root, arrival, guards)  # its index files are what the store is asked about
            if entry is None:
                return PublishResult(PublishOutcome.SKIPPED, "entry_missing")
            parts.append(entry)
        return publishing.publish(
            self.store,
            arrival.key,
            guards,
            parts,
            deadline=deadline,
            clock=self.clock,
            created_by=self.created_by,
            cleaning=Cleaning(adapter.redact),
            scratch=self.root,
            limits=LIMITS,
            doubt=doubt,
        )


class _GoneError(NotFoundError):
    """An archive that was there is there no more, or is another one."""


def held(root: Path, arrival: Arrival, guards: Mapping[str, str]) -> NewPart | None:
    """The entry of an arrival as this node holds it already, None where it does not. Raises nothing."""
    try:
        found = NodeStore(nodes.store(root, arrival.key.domain)).held(arrival.key.digest())
        for offer in found.offers(guards) if found is not None else ():
            if found is not None and offer.entry.name == arrival.entry:
                tree = nodes.tree(found.place / offer.entry.sha256)
                return NewPart(ENTRY, arrival.entry, tree, found.table(offer.entry), index=offer.entry.index)
    except GlowplugError:
        return None
    return None


def guards_of(claimed: Mapping[str, str], image_digest: str) -> dict[str, str]:
    """What an arrival is published under: the guards that we know of, and the image as the API names it, never as the pod does."""
    known = {name: claimed[name] for name in GUARDS if claimed.get(name)}
    known.pop("image_digest", None)
    return {**known, "image_digest": image_digest} if image_digest else known


def _unpack(inbox: Inbox, pod_uid: str, arrival: Arrival, work: Path, deadline: Deadline) -> list[NewPart]:
    wanted = {one.name: one for one in arrival.archives}
    parts: list[NewPart] = []
    for sealed in inbox.archives(pod_uid, deadline):
        known = wanted.get(sealed.name)
        if known is None:
            continue
        if sealed.part != known.part:
            raise _GoneError(f"{sealed.name} is another one by now")
        into = work / sealed.name
        try:
            files = archive.unpack(sealed, into, LIMITS)
        except IntegrityError as error:
            reason = "too_large" if error.code == "archive-limit" else "damaged"
            raise RefusedError(reason, f"{sealed.name}: {error}") from error
        parts.append(_new_part(sealed.part, into, files))
    if len(parts) < len(wanted):
        raise _GoneError(f"an archive of {arrival.entry!r} has gone")
    return parts


def _new_part(said: OutboxPart, root: Path, files: tuple[File, ...]) -> NewPart:
    observed = {name: said.observed[name] for name in _OBSERVED if 0 <= said.observed.get(name, -1) <= _LONGEST_MS}
    return NewPart(said.kind, said.name, root, files, of=said.of, index=tuple(said.index), observed=observed)


def _look(part: NewPart, arrival: Arrival, adapter: Adapter) -> None:
    """Raise RefusedError where this is nothing that the engine's caches hold, or not the entry that it is said to be."""
    paths = {item.path: item for item in part.files}
    unlisted = next(
        (path for path in sorted(paths) if adapter.reach(path) is not Reach.PORTABLE or adapter.is_temporary(path)),
        None,
    )
    if not paths or unlisted is not None:
        raise RefusedError("allowlist", f"{unlisted!r} is nothing that travels" if paths else "nothing is in it")
    if part.kind != ENTRY:
        if part.index:
            raise RefusedError("damaged", "support has no index files")
        return
    key = arrival.key
    launch = Launch(key.engine, key.model, key.layout, key.args, key.env)
    found = next((entry for entry in adapter.entries(Index(paths), launch) if entry.name == part.name), None)
    if found is None or set(found.files) != set(paths):
        raise RefusedError("damaged", f"it is not the entry {part.name[:200]!r} of {key.engine}")
    if found.incomplete:
        raise RefusedError("incomplete", found.incomplete)
    if set(part.index) != set(found.index_files):
        raise RefusedError("damaged", "its index files are others than it says")
