"""Garbage collection that cannot take what somebody is about to use.

Two phases with a grace period between them, and no lock. A blob that no manifest names is first noted with the moment
(`gc.json`); only a later run, a grace period on, deletes it, if still nobody names it and its own time stamp is as old. Publishers
write a blob again when it is older than half the grace, and name it within the other half; readers that hold an older manifest
have the whole grace to finish. As long as one manifest of a domain cannot be read, no blob of that domain is deleted: it may
be the one that is named there.

A listing alone takes nothing away: a proxy's page instead of it, or a page that breaks off, reads as a listing with fewer keys, and
then everything would be nobody's. So before blobs go the manifests are listed once more, between two objects put there for that,
which have to be in it; and a key goes only where its own mark of use, not the listing of marks, says that it was not used.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.cache import format as manifests
from glowplug.cache import layout, uses
from glowplug.cache.publish import GC_GRACE_SECONDS
from glowplug.core import canonical
from glowplug.core.clock import SYSTEM
from glowplug.core.errors import ConflictError, GlowplugError, IntegrityError, NotFoundError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from glowplug.core.clock import Clock, Deadline
    from glowplug.store.contract import Meta, Store

_MARKERS: Final = ("-gc", "zzzzzzzz-gc")
"""Below `keys/`: before and behind the keys of every processor, in a listing that is sorted."""


@dataclass(frozen=True)
class Collected:
    """Digests of the keys removed, of blobs deleted, of blobs noted for a later run; packed bytes of the deleted ones.

    `unreadable`: paths of manifests that kept blobs from being deleted.
    """

    keys: tuple[str, ...] = ()
    blobs: tuple[str, ...] = ()
    noted: tuple[str, ...] = ()
    bytes: int = 0
    unreadable: tuple[str, ...] = ()


def collect(
    store: Store,
    domain: str,
    deadline: Deadline,
    *,
    older_than: float | None = None,
    keep: int = 0,
    grace: float = GC_GRACE_SECONDS,
    dry_run: bool = False,
    clock: Clock = SYSTEM,
) -> Collected:
    """Remove keys unused for `older_than` seconds (None: none), except the `keep` used last, and blobs nobody names.

    With `dry_run` nothing is changed and the answer says what would be. Raises the store's errors, and UnavailableError where the
    store does not list what it holds.
    """
    now = clock.now()
    # Blobs are listed before manifests are read: one that is named only later is younger than this list.
    blobs = {digest: meta for meta in _listed(store, layout.blobs_prefix(domain), deadline) if (digest := _blob(meta))}
    listed = [meta for meta in _listed(store, layout.keys_prefix(domain), deadline) if _key(meta)]
    expired = [] if older_than is None else _expired(store, domain, listed, deadline, now - older_than, keep)
    if not dry_run:
        expired = [
            meta for meta in expired if _delete_unchanged(store, domain, meta, deadline, now - (older_than or 0.0))
        ]
    gone = {meta.path for meta in expired}
    named, unreadable = _named(store, [meta for meta in listed if meta.path not in gone], deadline)
    unnamed = {} if unreadable else {digest: meta for digest, meta in blobs.items() if digest not in named}
    before = _notes(store, domain, deadline)
    ripe = {
        digest: meta
        for digest, meta in unnamed.items()
        if now - meta.modified > grace and digest in before and now - before[digest] >= grace
    }
    if ripe and not dry_run:
        named, unreadable = _named(store, _listed_again(store, domain, deadline), deadline)
        ripe = {} if unreadable else {digest: meta for digest, meta in ripe.items() if digest not in named}
    waiting = {digest: before.get(digest, int(now)) for digest in unnamed if digest not in ripe}
    if not dry_run:
        for meta in ripe.values():
            store.delete(meta.path, deadline)
        for path in gone:
            store.delete(layout.uses_path(domain, _digest_of(path)), deadline)
        if not unreadable:
            _note(store, domain, waiting, deadline)
    return Collected(
        tuple(sorted(map(_digest_of, gone))),
        tuple(sorted(ripe)),
        tuple(sorted(waiting)),
        sum(meta.size for meta in ripe.values()),
        tuple(unreadable),
    )


def remove(store: Store, path: str, deadline: Deadline) -> None:
    """Remove one key's manifest, as a person asked; its blobs go with a later collection. Raises the store's errors."""
    store.delete(path, deadline)


def _listed(store: Store, prefix: str, deadline: Deadline) -> list[Meta]:
    return list(store.list(prefix, deadline))


def _blob(meta: Meta) -> str:
    return layout.parse_blob_path(meta.path) or ""


def _key(meta: Meta) -> bool:
    return layout.parse_manifest_path(meta.path) is not None


def _digest_of(path: str) -> str:
    place = layout.parse_manifest_path(path)
    return place.key_digest if place else ""


def _expired(store: Store, domain: str, listed: list[Meta], deadline: Deadline, before: float, keep: int) -> list[Meta]:
    """Keys neither written nor used since `before`, without the `keep` most recent of all."""
    marks = uses.last_used(store, domain, deadline)
    ranked = sorted(
        ((max(meta.modified, marks.get(_digest_of(meta.path), 0.0)), meta) for meta in listed),
        key=lambda pair: pair[0],
        reverse=True,
    )
    return [meta for moment, meta in ranked[max(keep, 0) :] if moment < before]


def _delete_unchanged(store: Store, domain: str, meta: Meta, deadline: Deadline, before: float) -> bool:
    """Delete a manifest unless somebody wrote it since it was listed, or its mark says that it is in use, listed or not."""
    used = store.head(layout.uses_path(domain, _digest_of(meta.path)), deadline)
    if used is not None and used.modified >= before:
        return False
    now = store.head(meta.path, deadline)
    if now is None or now.version != meta.version:
        return False
    store.delete(meta.path, deadline)
    return True


def _listed_again(store: Store, domain: str, deadline: Deadline) -> list[Meta]:
    """All manifests, by a listing that is known to be whole. Raises the store's errors, UnavailableError where it is not."""
    prefix = layout.keys_prefix(domain)
    markers = {f"{prefix}/{name}" for name in _MARKERS}
    try:
        for path in markers:
            store.put(path, b"", deadline)
        listed = _listed(store, prefix, deadline)
    finally:
        for path in markers:
            with contextlib.suppress(GlowplugError):
                store.delete(path, deadline)
    if not markers <= {meta.path for meta in listed}:
        raise UnavailableError(f"{store.url} does not list what it holds below {prefix}: nothing is deleted")
    return [meta for meta in listed if _key(meta)]


def _named(store: Store, listed: list[Meta], deadline: Deadline) -> tuple[set[str], list[str]]:
    """Digests that manifests name, and the paths of manifests that could not be read."""
    named: set[str] = set()
    unreadable: list[str] = []
    for meta in listed:
        try:
            data = store.get(meta.path, deadline, max_bytes=manifests.MANIFEST_BYTES).data
            manifest = manifests.decode(data, path=meta.path)
        except (IntegrityError, manifests.NewerManifestError):
            unreadable.append(meta.path)
            continue
        except NotFoundError:
            continue
        named.update(part.sha256 for part in manifest.parts)
        named.update(str(part["sha256"]) for part in manifest.foreign_parts if "sha256" in part)
    return named, unreadable


def _notes(store: Store, domain: str, deadline: Deadline) -> dict[str, int]:
    try:
        value = json.loads(store.get(layout.gc_path(domain), deadline, max_bytes=64 << 20).data)
        return {digest: int(moment) for digest, moment in value["unnamed"].items() if layout.is_digest(digest)}
    except (
        NotFoundError,
        IntegrityError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        OverflowError,
        RecursionError,
    ):
        return {}


def _note(store: Store, domain: str, waiting: Mapping[str, int], deadline: Deadline) -> None:
    data = canonical.encode({"schema": "glowplug.gc/1", "unnamed": dict(waiting)})
    path = layout.gc_path(domain)
    known = store.head(path, deadline)
    if known is None and not waiting:
        return
    with contextlib.suppress(ConflictError):  # another collector was faster; its notes are as good
        if known is None:
            store.put_new(path, data, deadline)
        else:
            store.put_if(path, data, known.version, deadline)
