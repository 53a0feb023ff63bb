"""A key's parts from the store into a cache root, before the engine starts.

The order is what makes it safe to be killed, refused or lied to at any moment:
look up → skip what is there → is there room → fetch all parts into `<cache root>/.glowplug/`, verified to the last byte → one
flush → rename into place, support before entries and each entry's index files last. Nothing reaches the engine's own subtrees
before every part of an entry is whole, and an engine that looks at any moment sees an entry only together with what it needs.

The flush comes before the renames, not after: a machine that stops in between has files without names, which is a miss, and
never names without bytes.

`restore` is for starts: it returns a reason and raises nothing foreseeable. `restore_exact` is for people and scripts: all or
nothing, with the error raised.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.cache import bundle
from glowplug.cache.format import ENTRY
from glowplug.cache.lookup import Found, Missing, Offer, look_up
from glowplug.cache.workers import workers
from glowplug.core.documents.start import RestoreOutcome, RestoreResult
from glowplug.core.errors import GlowplugError, IntegrityError, NotFoundError
from glowplug.core.faults import reason_of
from glowplug.tree import arriving, receipts, room
from glowplug.tree.model import DEFAULT_LIMITS, File, Limits
from glowplug.tree.place import sync
from glowplug.tree.workspace import workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from glowplug.cache.format import Manifest, Part
    from glowplug.core.clock import Deadline
    from glowplug.core.documents.fingerprint import Key
    from glowplug.store.contract import Store

_STREAMS: Final = 8
_SKIPPED: Final = frozenset({"restore_off", "min_version"})


@dataclass(frozen=True)
class _Done:
    """What one call put in place, and why entries were left out, if any were."""

    parts: tuple[str, ...] = ()
    bytes: int = 0
    faults: tuple[GlowplugError | OSError, ...] = ()


def restore(
    store: Store,
    key: Key,
    guards: Mapping[str, str],
    cache_root: Path,
    *,
    deadline: Deadline,
    skip_parts: frozenset[str] = frozenset(),
    limits: Limits = DEFAULT_LIMITS,
    verify: Callable[[Manifest], None] | None = None,
    allowed: Callable[[str], bool] | None = None,
) -> RestoreResult:
    """Restore what the store offers for `key`; never raises for a foreseeable fault.

    `allowed` says which paths may be put into the tree: a part with any other is damaged. `skip_parts` are digests of parts that
    are set aside on this machine: an entry with one of them is not offered, and where an earlier restore put it into this tree,
    it is taken out again. With `already_present`, the result's `parts` are those that an earlier restore put there. `verify`
    may refuse a manifest (a signature policy) by raising IntegrityError. Outcomes: `restored` (reason names what was left out,
    if anything was); `none` with the reasons of `lookup.Missing`, `blob_missing`, `quarantined`; `skipped` with
    `already_present`, `restore_off`, `min_version`; `failed` with `deadline`, `integrity`, `no_space`, `store_unavailable`,
    `access_denied`, `disk` …
    """
    began = deadline.clock.monotonic()

    def result(outcome: RestoreOutcome, reason: str = "", done: _Done | None = None) -> RestoreResult:
        return RestoreResult(
            outcome,
            reason,
            store.url,
            done.parts if done else (),
            done.bytes if done else 0,
            deadline.clock.monotonic() - began,
        )

    try:
        receipts.set_aside(cache_root, skip_parts)
        found = look_up(store, key, deadline, guards=guards)
        if isinstance(found, Missing):
            return result(_outcome_of(found), found.reason)
        if verify is not None:
            verify(found.manifest)
        offers = [offer for offer in found.offers if not any(part.sha256 in skip_parts for part in offer.parts)]
        if not offers:
            return result(RestoreOutcome.NONE, "quarantined")
        wanted = [offer for offer in offers if arriving.missing(cache_root, offer.parts)]
        if not wanted:
            there = tuple(part.sha256 for offer in offers for part in offer.parts)
            known = receipts.in_tree(cache_root)
            return result(
                RestoreOutcome.SKIPPED, "already_present", _Done(tuple(digest for digest in there if digest in known))
            )
        done = _bring(store, found.manifest.key.domain, wanted, cache_root, deadline, limits, allowed=allowed)
    except (GlowplugError, OSError) as error:
        return result(RestoreOutcome.FAILED, reason_of(error))
    reason = reason_of(done.faults[0]) if done.faults else ""
    if done.parts:
        return result(RestoreOutcome.RESTORED, reason, done)
    return result(RestoreOutcome.NONE if reason == "blob_missing" else RestoreOutcome.FAILED, reason)


def restore_exact(
    store: Store,
    wanted: Key | Found,
    guards: Mapping[str, str],
    cache_root: Path,
    *,
    deadline: Deadline,
    limits: Limits = DEFAULT_LIMITS,
    verify: Callable[[Manifest], None] | None = None,
    replace: bool = False,
) -> RestoreResult:
    """Restore all that is offered for a key, or what `lookup.open_key` found, or nothing at all.

    `replace` lays the store's files over others of the same path. Raises NotFoundError where nothing is offered (`key-not-found`
    with the reason in the text) or a blob is missing, IntegrityError, UnavailableError (`no-space`, `timeout` …), the store's
    errors, OSError.
    """
    began = deadline.clock.monotonic()
    found = look_up(store, wanted, deadline, guards=guards) if not isinstance(wanted, Found) else wanted
    if isinstance(found, Missing):
        raise _as_error(found)
    if found.manifest.blocked is not None:
        raise _as_error(Missing("key_blocked"))
    if not found.offers:
        raise _as_error(Missing("no_parts"))
    if verify is not None:
        verify(found.manifest)
    offers = [offer for offer in found.offers if replace or arriving.missing(cache_root, offer.parts)]
    done = _Done()
    if offers:
        done = _bring(
            store, found.manifest.key.domain, offers, cache_root, deadline, limits, whole=True, replace=replace
        )
    outcome = RestoreOutcome.RESTORED if offers else RestoreOutcome.SKIPPED
    return RestoreResult(
        outcome,
        "" if offers else "already_present",
        store.url,
        done.parts,
        done.bytes,
        deadline.clock.monotonic() - began,
    )


def _outcome_of(missing: Missing) -> RestoreOutcome:
    if missing.reason in _SKIPPED:
        return RestoreOutcome.SKIPPED
    return RestoreOutcome.FAILED if missing.reason == "integrity" else RestoreOutcome.NONE


def _as_error(missing: Missing) -> GlowplugError:
    if missing.reason == "integrity":
        return IntegrityError("the key's manifest is damaged", code="bad-manifest")
    return NotFoundError(f"the store offers nothing for this key: {missing.reason}", code="key-not-found")


def _bring(
    store: Store,
    domain: str,
    offers: Sequence[Offer],
    cache_root: Path,
    deadline: Deadline,
    limits: Limits,
    *,
    whole: bool = False,
    replace: bool = False,
    allowed: Callable[[str], bool] | None = None,
) -> _Done:
    """Fetch and place. With `whole` the first fault ends it before anything is placed; else entries with a fault are left out."""
    parts = {
        part.sha256: part
        for offer in offers
        for part in (offer.parts if replace else arriving.missing(cache_root, offer.parts))
    }
    cache_root.mkdir(parents=True, exist_ok=True)
    for part in parts.values():
        bundle.check_claims(part, limits)
    with workspace(cache_root) as staging:
        room.check(
            staging, sum(part.unpacked_bytes for part in parts.values()), sum(part.files for part in parts.values())
        )
        fetched = _fetch_all(store, domain, parts, staging, deadline, limits, allowed or _anything)
        faults = {digest: outcome for digest, outcome in fetched.items() if isinstance(outcome, Exception)}
        if whole and faults:
            raise next(iter(faults.values()))
        good = [offer for offer in offers if not any(part.sha256 in faults for part in offer.parts)]
        if good:
            sync(staging, deadline.remaining())
        done = _Done(faults=tuple(faults.values()))
        for offer in good:
            done = _place(offer, fetched, staging, cache_root, done, replace=replace)
    return done


def _fetch_all(
    store: Store,
    domain: str,
    parts: Mapping[str, Part],
    staging: Path,
    deadline: Deadline,
    limits: Limits,
    allowed: Callable[[str], bool],
) -> dict[str, tuple[File, ...] | GlowplugError | OSError]:
    def fetch(part: Part) -> tuple[File, ...] | GlowplugError | OSError:
        try:
            files = bundle.fetch(store, domain, part, staging / part.sha256, deadline, limits)
        except (GlowplugError, OSError) as error:
            return error
        unlisted = next((item.path for item in files if not allowed(item.path)), None)
        if unlisted is None:
            return files
        return IntegrityError(f"{unlisted!r} is nothing that this engine's caches hold", code="bad-archive")

    if len(parts) == 1:
        return {digest: fetch(part) for digest, part in parts.items()}
    with workers(min(_STREAMS, len(parts))) as pool:
        return dict(zip(parts, pool.map(fetch, parts.values()), strict=True))


def _anything(_path: str) -> bool:
    return True


def _place(
    offer: Offer,
    fetched: Mapping[str, tuple[File, ...] | GlowplugError | OSError],
    staging: Path,
    cache_root: Path,
    done: _Done,
    *,
    replace: bool,
) -> _Done:
    """Support, then the entry, its index files last.

    What the engine left of this very entry without its index files is a compile that was killed, and is replaced.
    """
    for part in offer.parts:
        files = fetched.get(part.sha256)
        if not isinstance(files, tuple) or part.sha256 in done.parts:
            continue
        source = staging / part.sha256
        placed = arriving.put(source, part, files, cache_root, replace=replace or part.kind == ENTRY)
        done = dataclasses.replace(done, parts=(*done.parts, part.sha256), bytes=done.bytes + placed.bytes)
    return done
