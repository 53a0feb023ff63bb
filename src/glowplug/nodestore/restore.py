"""A key's parts from the node into a cache root, before the engine starts.

As `cache.restore`, with the same words for what became of it, but standard library only, and for a disk instead of a network:
wait for the agent where it is at work → copy an entry's parts into `<cache root>/.glowplug/`, each file compared with its digest →
rename into place, support before the entry and its index files last → the next entry, as long as there is time.

Nothing is flushed: the file system is the whole node's, with the pages of an image just pulled, and a flush would wait for all of
them. A machine that stops before the bytes are on its disk leaves files that are shorter than their table says; `tree.receipts`
knows them by that.
"""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.core.documents.fingerprint import conflicts
from glowplug.core.documents.node import ENTRY
from glowplug.core.documents.start import RestoreOutcome, RestoreResult
from glowplug.core.errors import GlowplugError, IntegrityError
from glowplug.core.faults import reason_of
from glowplug.nodestore import layout
from glowplug.tree import arriving, receipts, room
from glowplug.tree.duplicate import duplicate
from glowplug.tree.model import DEFAULT_LIMITS
from glowplug.tree.workspace import workspace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Callable, Optional, Union

    from glowplug.core.clock import Deadline
    from glowplug.core.documents.fingerprint import Key
    from glowplug.core.documents.node import Node
    from glowplug.nodestore.read import Held, HeldPart, NodeStore, Offer
    from glowplug.tree.model import File, Limits

_POLL_SECONDS: Final = 0.05
_NEAREST_READ: Final = 64
_LOOKS: Final = 2
_WITHHELD: Final = ("restore_off", "min_version")
_LOOKING_SECONDS: Final = 60.0
"""So long the word of an agent that was ready before is believed when it says that it looks once more: else one that ended in
the middle would keep every later start waiting."""


@dataclass(frozen=True)
class _Done:
    """What one call put in place, and why entries were left out, if any were."""

    parts: tuple[str, ...] = ()
    bytes: int = 0
    faults: tuple[Union[GlowplugError, OSError], ...] = ()
    damaged: tuple[str, ...] = ()


def restore(
    store: NodeStore,
    key: Key,
    guards: Mapping[str, str],
    cache_root: Path,
    *,
    deadline: Deadline,
    wait_seconds: float = layout.WAIT_SECONDS,
    skip_parts: frozenset[str] = frozenset(),
    limits: Limits = DEFAULT_LIMITS,
    allowed: Optional[Callable[[str], bool]] = None,
) -> RestoreResult:
    """Restore what this node holds of `key`; never raises for a foreseeable fault.

    An agent that says it is fetching is waited for, `wait_seconds` at most. Arguments, outcomes and reasons as in
    `cache.restore.restore`; further reasons with outcome `none`: `no_node_store` (nothing is mounted), `node_not_ready` (the agent
    was still fetching, or did not say anything, when the wait was over), `restore_off` and `min_version` (the store's switch).
    """
    began = deadline.clock.monotonic()

    def result(outcome: RestoreOutcome, reason: str = "", done: _Done = _Done()) -> RestoreResult:
        seconds = deadline.clock.monotonic() - began
        aside = tuple(sorted(skip_parts))
        return RestoreResult(outcome, reason, str(store.mount), done.parts, done.bytes, seconds, aside, done.damaged)

    try:
        receipts.set_aside(cache_root, skip_parts)
        withheld = _withheld(store.node())
        if withheld:
            return result(RestoreOutcome.NONE, withheld)
        # A tree that was restored before is a container started again: what it was waited for, it has.
        patience = 0.0 if receipts.in_tree(cache_root) else wait_seconds
        held, reason = _await(store, key, deadline.at_most(patience))
        done = _Done()
        for look in range(_LOOKS):
            if held is None:
                break
            chosen = _choose(held, guards, skip_parts)
            if isinstance(chosen, str):
                reason = chosen
                break
            wanted = [offer for offer in chosen if arriving.missing(cache_root, offer.parts)]
            if not wanted and not done.parts:
                return result(RestoreOutcome.SKIPPED, "already_present", _there(cache_root, chosen))
            done = _bring(held, wanted, cache_root, dataclasses.replace(done, faults=()), deadline, limits, allowed)
            reason = reason_of(done.faults[0]) if done.faults else ""
            if reason != "blob_missing" or look + 1 == _LOOKS:
                break
            held = store.held(key.digest())  # the agent replaced or removed it under our hands
    except (GlowplugError, OSError) as error:
        return result(RestoreOutcome.FAILED, reason_of(error))
    if done.parts:
        return result(RestoreOutcome.RESTORED, reason, done)
    outcome = RestoreOutcome.FAILED if done.faults and reason != "blob_missing" else RestoreOutcome.NONE
    return result(outcome, reason, done)


def _await(store: NodeStore, key: Key, deadline: Deadline) -> tuple[Optional[Held], str]:
    """What is here of the key, if need be after a wait; else why there is nothing. Raises as `NodeStore.held`."""
    digest = key.digest()
    if not store.exists():
        return None, "no_node_store"
    while True:
        ready = store.ready()  # before the look, so that a key which came just before the marker is seen
        node = store.node()
        withheld = _withheld(node)
        if withheld:
            return None, withheld
        held = store.held(digest)
        if held is not None:
            return held, ""
        if store.newer(digest):
            return None, "newer_format"
        if not _is_worth_while(store, node, ready, deadline.clock.now()):
            return None, _nearest(store, key, deadline.at_most(1.0))
        if deadline.passed():
            return None, "node_not_ready"
        deadline.clock.sleep(min(_POLL_SECONDS, deadline.remaining()))


def _withheld(node: Optional[Node]) -> str:
    """Why the agent gives nothing, "" where it does."""
    if node is None or node.restore:
        return ""
    return node.restore_reason if node.restore_reason in _WITHHELD else _WITHHELD[0]


def _is_worth_while(store: NodeStore, node: Optional[Node], ready: bool, now: float) -> bool:
    """Whether the agent may still bring something that this pod can use."""
    if node is None:
        return not ready
    return node.prefetching and (not ready or abs(now - store.said_at()) < _LOOKING_SECONDS)


def _nearest(store: NodeStore, key: Key, deadline: Deadline) -> str:
    """By what the nearest key of this node differs."""
    others = [held.key for held in itertools.islice(store.all(deadline), _NEAREST_READ)]
    if not others:
        return "no_keys"
    differing = sorted((key.differences(other) for other in others), key=len)
    return "key:" + ",".join(differing[0])


def _choose(held: Held, guards: Mapping[str, str], skip_parts: frozenset[str]) -> Union[tuple[Offer, ...], str]:
    """What is offered of a key, or the reason why nothing is."""
    if held.blocked:
        return "key_blocked"
    if not held.entries():
        return "no_parts"
    offers = held.offers(guards)
    if not offers:
        differing = sorted((conflicts(entry.guards, guards) for entry in held.entries()), key=len)
        return "guard:" + ",".join(differing[0])
    offers = tuple(offer for offer in offers if not any(part.sha256 in skip_parts for part in offer.parts))
    return offers or "quarantined"


def _there(cache_root: Path, offers: Sequence[Offer]) -> _Done:
    known = receipts.in_tree(cache_root)
    return _Done(tuple(part.sha256 for offer in offers for part in offer.parts if part.sha256 in known))


def _bring(
    held: Held,
    offers: Sequence[Offer],
    cache_root: Path,
    done: _Done,
    deadline: Deadline,
    limits: Limits,
    allowed: Optional[Callable[[str], bool]],
) -> _Done:
    """Copy and place entry by entry; those with a fault are left out. Raises OSError where the cache root cannot be used."""
    cache_root.mkdir(parents=True, exist_ok=True)
    with workspace(cache_root) as staging:
        for offer in offers:
            parts = arriving.missing(cache_root, offer.parts)
            done = _entry(held, parts, staging, cache_root, done, deadline, limits, allowed)
    return done


def _entry(
    held: Held,
    parts: Sequence[HeldPart],
    staging: Path,
    cache_root: Path,
    done: _Done,
    deadline: Deadline,
    limits: Limits,
    allowed: Optional[Callable[[str], bool]],
) -> _Done:
    """All parts of one entry beside the tree first, then into it. An entry with a fault is left out."""
    try:
        deadline.check("copying from the node")
        room.check(staging, sum(part.unpacked_bytes for part in parts), sum(part.files for part in parts))
        tables = {part.sha256: _copied(held, part, staging, deadline, limits, allowed) for part in parts}
        return _place(parts, tables, staging, cache_root, done)
    except _DamagedError as error:
        return dataclasses.replace(done, faults=(*done.faults, error), damaged=(*done.damaged, error.part))
    except (GlowplugError, OSError) as error:
        return dataclasses.replace(done, faults=(*done.faults, error))


class _DamagedError(IntegrityError):
    """A part of the node that is not what its digests say: the agent can fetch it anew."""

    def __init__(self, error: IntegrityError, part: str) -> None:
        super().__init__(error.message, code=error.code)
        self.part = part


def _copied(
    held: Held,
    part: HeldPart,
    staging: Path,
    deadline: Deadline,
    limits: Limits,
    allowed: Optional[Callable[[str], bool]],
) -> tuple[File, ...]:
    try:
        files = _table(held, part, limits, allowed)
        duplicate(layout.tree(held.place / part.sha256), files, staging / part.sha256, deadline)
    except IntegrityError as error:
        raise _DamagedError(error, part.sha256) from error
    return files


def _place(
    parts: Sequence[HeldPart], tables: Mapping[str, tuple[File, ...]], staging: Path, cache_root: Path, done: _Done
) -> _Done:
    for part in parts:
        files = tables[part.sha256]
        placed = arriving.put(staging / part.sha256, part, files, cache_root, replace=part.kind == ENTRY)
        done = dataclasses.replace(done, parts=(*done.parts, part.sha256), bytes=done.bytes + placed.bytes)
    return done


def _table(held: Held, part: HeldPart, limits: Limits, allowed: Optional[Callable[[str], bool]]) -> tuple[File, ...]:
    files = held.table(part, limits)
    unlisted = next((item.path for item in files if allowed is not None and not allowed(item.path)), None)
    if unlisted is not None:
        raise IntegrityError(f"{unlisted!r} is nothing that this engine's caches hold", code="bad-archive")
    return files
