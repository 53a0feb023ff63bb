"""All keys of a domain with their manifests, and the domains of a store: what a person looks through.

A start never lists like this (`lookup` reads one path). One damaged manifest must not hide the others, so a fault is a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.cache import format as manifests
from glowplug.cache import layout, uses
from glowplug.cache.workers import workers
from glowplug.core.errors import IntegrityError, NotFoundError

if TYPE_CHECKING:
    from glowplug.cache.format import Manifest
    from glowplug.core.clock import Deadline
    from glowplug.store.contract import Meta, Store

_AT_ONCE: Final = 16


@dataclass(frozen=True)
class Row:
    """A key of a store. `last_used` and `modified`: seconds since the epoch, of the key's marker and of its manifest.

    `manifest` is None where it cannot be read; `fault` is the code that says why.
    """

    place: layout.Place
    modified: float
    last_used: float
    manifest: Manifest | None
    fault: str = ""


def rows(store: Store, domain: str, deadline: Deadline) -> list[Row]:
    """All keys of a domain, those used last first. Raises the store's errors."""
    listed = [
        (place, meta)
        for meta in store.list(layout.keys_prefix(domain), deadline)
        if (place := layout.parse_manifest_path(meta.path)) is not None
    ]
    if not listed:
        return []
    marks = uses.last_used(store, domain, deadline)

    def read(item: tuple[layout.Place, Meta]) -> Row | None:
        place, meta = item
        used = max(meta.modified, marks.get(place.key_digest, 0.0))
        try:
            data = store.get(place.path, deadline, max_bytes=manifests.MANIFEST_BYTES).data
            return Row(place, meta.modified, used, manifests.decode(data, path=place.path))
        except manifests.NewerManifestError:
            return Row(place, meta.modified, used, None, "newer-format")
        except IntegrityError as error:
            return Row(place, meta.modified, used, None, error.code)
        except NotFoundError:
            return None  # removed since it was listed

    with workers(min(_AT_ONCE, len(listed))) as pool:
        found = [row for row in pool.map(read, listed) if row is not None]
    return sorted(found, key=lambda row: (-row.last_used, row.place.path))


def domains(store: Store, deadline: Deadline) -> tuple[str, ...]:
    """Names of the domains that have anything in this store, sorted. Raises the store's errors.

    A path holds only the slug of a domain's name; the name is taken from a manifest, or is the slug where none can be read.
    """
    found: dict[str, list[str]] = {}
    for meta in store.list(layout.ROOT, deadline):
        pieces = meta.path.split("/")
        if len(pieces) > 2:
            manifests_there = found.setdefault(pieces[1], [])
            if layout.parse_manifest_path(meta.path) is not None:
                manifests_there.append(meta.path)
    names = (_name(store, slug, paths, deadline) for slug, paths in found.items())
    return tuple(sorted(name for name in names if name))


def _name(store: Store, slug: str, paths: list[str], deadline: Deadline) -> str:
    if layout.slug(slug) == slug and not slug[-9:].startswith("-"):
        return slug
    for path in paths:
        try:
            data = store.get(path, deadline, max_bytes=manifests.MANIFEST_BYTES).data
            return manifests.decode(data, path=path).key.domain
        except (IntegrityError, NotFoundError):
            continue
    return slug if layout.slug(slug) == slug else ""
