"""What the store has for a key, and if it has nothing: by what it was missed.

The exact path is one GET. Only a miss costs a listing, and explains itself: the key of the same domain that differs in the
fewest fields, by the folders of the paths first and then by at most eight manifests, names the fields that keep it from fitting.
A miss is a value; only a store that cannot be asked raises.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import glowplug
from glowplug.cache import control, layout
from glowplug.cache import format as manifests
from glowplug.cache.format import Manifest, NewerManifestError, Part
from glowplug.cache.workers import workers
from glowplug.core.documents.fingerprint import conflicts
from glowplug.core.errors import BadInputError, GlowplugError, IntegrityError, NotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from glowplug.core.clock import Deadline
    from glowplug.core.documents.fingerprint import Key
    from glowplug.store.contract import Store

_NEAREST_READ: Final = 8
_FEWEST_DIGITS: Final = 8


@dataclass(frozen=True)
class Offer:
    """An entry and what it needs."""

    entry: Part
    support: Part | None

    @property
    def parts(self) -> tuple[Part, ...]:
        """In the order in which they are put in place."""
        return (self.entry,) if self.support is None else (self.support, self.entry)


@dataclass(frozen=True)
class Found:
    """The manifest and what of it fits the guards; never empty. `version` is the store's token."""

    path: str
    manifest: Manifest
    offers: tuple[Offer, ...]
    version: str = ""


@dataclass(frozen=True)
class Missing:
    """Nothing is offered. `reason` is the word for documents; `nearest` the key that it was compared with.

    Reasons: `restore_off`, `min_version`, `no_keys` (the domain is empty), `key:<field>[,…]`, `key:unknown` (there are keys, but
    none could be read), `guard:<field>[,…]`, `key_blocked`, `no_parts`, `newer_format`, `integrity`.
    """

    reason: str
    nearest: Key | None = None


def look_up(store: Store, key: Key, deadline: Deadline, *, guards: Mapping[str, str] | None = None) -> Found | Missing:
    """What the store offers for `key`. Raises the store's errors where it cannot be asked."""
    path = layout.manifest_path(key)
    with workers(1) as pool:
        switch = pool.submit(control.read, store, deadline)
        found = _read(store, path, deadline)
        allowed = switch.result()
    if not allowed.restore:
        return Missing("restore_off")
    if not allowed.admits(glowplug.__version__):
        return Missing("min_version")
    if found is None:
        return nearest(store, key, deadline)
    if isinstance(found, Missing):
        return found
    return _offers(found, guards or {})


def open_key(
    store: Store, domain: str, digits: str, deadline: Deadline, *, guards: Mapping[str, str] | None = None
) -> Found:
    """The key of `domain` whose digest begins with `digits` (8 or more), for a person who names it.

    Raises UsageError, NotFoundError (`key-not-found`, `key-ambiguous`), IntegrityError (`bad-manifest`), the store's errors.
    A blocked key is shown with its offers: the caller decides.
    """
    place = resolve(store, domain, digits, deadline)
    found = store.get(place.path, deadline, max_bytes=manifests.MANIFEST_BYTES)
    manifest = manifests.decode(found.data, path=place.path)
    return Found(place.path, manifest, offers_of(manifest, guards or {}), found.meta.version)


def resolve(store: Store, domain: str, digits: str, deadline: Deadline) -> layout.Place:
    """Where the key lies whose digest begins with `digits`. Raises UsageError, NotFoundError and the store's errors."""
    if len(digits) < _FEWEST_DIGITS or not layout.is_digest(digits.ljust(64, "0")):
        raise UsageError(f"not the beginning of a key digest: {digits!r} (8 or more hex digits)")
    matching = [place for place in keys(store, domain, deadline) if place.key_digest.startswith(digits)]
    if not matching:
        raise NotFoundError(f"no key of domain {domain!r} begins with {digits}", code="key-not-found")
    if len({place.key_digest for place in matching}) > 1:
        raise NotFoundError(f"{len(matching)} keys begin with {digits}", code="key-ambiguous")
    return matching[0]


def keys(store: Store, domain: str, deadline: Deadline) -> Iterator[layout.Place]:
    """Where the manifests of a domain lie. Raises the store's errors."""
    for meta in store.list(layout.keys_prefix(domain), deadline):
        place = layout.parse_manifest_path(meta.path)
        if place is not None:
            yield place


def nearest(store: Store, key: Key, deadline: Deadline) -> Missing:
    """Why nothing lies at the key's own path. A store that cannot be listed gives `key:unknown`."""
    try:
        places = [place for place in keys(store, key.domain, deadline) if place.key_digest != key.digest()]
        if not places:
            return Missing("no_keys")
        closest = nearest_keys(store, key, places, deadline)
    except GlowplugError:
        return Missing("key:unknown")
    if not closest:
        return Missing("key:unknown")
    return Missing("key:" + ",".join(key.differences(closest[0])), closest[0])


def nearest_keys(store: Store, key: Key, places: Sequence[layout.Place], deadline: Deadline) -> list[Key]:
    """The keys that differ least, best first; at most eight manifests are read. Those that cannot be read are left out."""
    wanted = layout.key_parts(key)

    def steps(place: layout.Place) -> tuple[int, str]:
        return sum(mine != theirs for mine, theirs in zip(wanted, place.parts, strict=True)), place.path

    def read(place: layout.Place) -> Key | None:
        try:
            found = store.get(place.path, deadline, max_bytes=manifests.MANIFEST_BYTES)
            return manifests.decode(found.data, path=place.path).key
        except (NotFoundError, IntegrityError, BadInputError):
            return None

    candidates = sorted(places, key=steps)[:_NEAREST_READ]
    with workers(_NEAREST_READ) as pool:
        read_keys = [found for found in pool.map(read, candidates) if found is not None]
    return sorted(read_keys, key=lambda other: (len(key.differences(other)), other.digest()))


def offers_of(manifest: Manifest, guards: Mapping[str, str]) -> tuple[Offer, ...]:
    """What of a manifest fits the guards, newest first; one entry of a name, since two would lie over each other."""
    names = dict.fromkeys(part.name for part in manifest.entries())
    entries = [entry for entry in (manifest.entry(name, guards) for name in names) if entry is not None]
    entries.sort(key=lambda part: part.created, reverse=True)
    return tuple(Offer(entry, manifest.support(entry)) for entry in entries)


def _offers(found: Found, guards: Mapping[str, str]) -> Found | Missing:
    manifest = found.manifest
    if manifest.blocked is not None:
        return Missing("key_blocked", manifest.key)
    offers = offers_of(manifest, guards)
    if offers:
        return Found(found.path, manifest, offers, found.version)
    if not manifest.entries():
        return Missing("no_parts", manifest.key)
    differing = sorted((conflicts(entry.guards, guards) for entry in manifest.entries()), key=len)
    return Missing("guard:" + ",".join(differing[0]), manifest.key)


def _read(store: Store, path: str, deadline: Deadline) -> Found | Missing | None:
    try:
        found = store.get(path, deadline, max_bytes=manifests.MANIFEST_BYTES)
        manifest = manifests.decode(found.data, path=path)
    except NewerManifestError:
        return Missing("newer_format")
    except NotFoundError:
        return None
    except IntegrityError:
        return Missing("integrity")
    return Found(path, manifest, (), found.meta.version)
