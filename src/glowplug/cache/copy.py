"""Keys from one store into another: regions, staging to production, an air gap.

Every byte is verified on the way (a copy of damage would be believed), blobs first, the manifest after. What the target has is
kept whole; lists are merged by the same rule as for publishing. A signature is not copied but made anew, or absent: it says who
vouches for the manifest there.
"""

from __future__ import annotations

import dataclasses
import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from glowplug.cache import bundle, commit, layout
from glowplug.cache import format as manifests
from glowplug.cache.format import ENTRY, Manifest, NewerManifestError, Part, identity
from glowplug.cache.lookup import keys, resolve
from glowplug.core.documents.fingerprint import conflicts
from glowplug.core.errors import IntegrityError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable

    from glowplug.cache.commit import Signs
    from glowplug.core.clock import Deadline
    from glowplug.store.contract import Store


@dataclass(frozen=True)
class Copied:
    """Key digests that changed in the target, those that were equal there, blobs and bytes sent; paths left out and why."""

    keys: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    blobs: int = 0
    bytes: int = 0
    left_out: tuple[tuple[str, str], ...] = ()


def copy(
    source: Store,
    target: Store,
    domain: str,
    deadline: Deadline,
    *,
    digits: str = "",
    sign: Signs | None = None,
    policy: Callable[[Manifest], None] | None = None,
    dry_run: bool = False,
) -> Copied:
    """Copy one key (`digits`) or all of a domain. Damaged keys are left out and named. Raises the stores' errors.

    With `dry_run` nothing is written and no blob is read; the answer says what would be sent.
    """
    places = [resolve(source, domain, digits, deadline)] if digits else list(keys(source, domain, deadline))
    total = Copied()
    seen: set[str] = set()
    for place in places:
        try:
            total = _copy_key(source, target, domain, place, total, deadline, sign, policy, seen, dry_run=dry_run)
        except NewerManifestError:
            total = dataclasses.replace(total, left_out=(*total.left_out, (place.path, "newer-format")))
        except (IntegrityError, NotFoundError) as error:
            total = dataclasses.replace(total, left_out=(*total.left_out, (place.path, error.code)))
    return total


def merged(current: Manifest | None, incoming: Manifest) -> Manifest | None:
    """The target's manifest with what it lacks; None where it lacks nothing or is blocked. Pure."""
    if current is None:
        return dataclasses.replace(incoming, signature="")
    if current.blocked is not None:
        return None
    parts = current.parts
    for entry in incoming.entries():
        rivals = [
            part for part in parts if identity(part)[0] == entry.name and not conflicts(part.guards, entry.guards)
        ]
        support = incoming.support(entry)
        if not rivals:
            parts = (*parts, entry, *([support] if support else []))
        elif support is not None and any(part.kind == ENTRY and part.sha256 == entry.sha256 for part in rivals):
            parts = _with_newer_support(parts, support)
    return None if parts == current.parts else dataclasses.replace(current, parts=parts, signature="")


def _with_newer_support(parts: tuple[Part, ...], support: Part) -> tuple[Part, ...]:
    old = next((part for part in parts if part.kind == support.kind and identity(part) == identity(support)), None)
    if old is not None and old.revision >= support.revision:
        return parts
    return (*(part for part in parts if part is not old), support)


def _copy_key(
    source: Store,
    target: Store,
    domain: str,
    place: layout.Place,
    total: Copied,
    deadline: Deadline,
    sign: Signs | None,
    policy: Callable[[Manifest], None] | None,
    seen: set[str],
    *,
    dry_run: bool,
) -> Copied:
    data = source.get(place.path, deadline, max_bytes=manifests.MANIFEST_BYTES).data
    manifest = manifests.decode(data, path=place.path)
    if policy is not None:
        policy(manifest)
    current = commit.read(target, place.path, deadline).manifest
    if sign is not None:
        current = sign.own(current)
    wanted = merged(current, manifest)
    if wanted is None:
        return dataclasses.replace(total, unchanged=(*total.unchanged, place.key_digest))
    known = {*seen, *(part.sha256 for part in current.parts)} if current else set(seen)
    new = {part.sha256: part for part in wanted.parts if part.sha256 not in known}
    send = _lacking if dry_run else _copy_blob
    seen.update(new)
    sent = [size for part in new.values() if (size := send(source, target, domain, part, deadline))]
    if not dry_run:
        commit.change(target, place.path, lambda there: merged(there, manifest), deadline, sign=sign)
    return dataclasses.replace(
        total,
        keys=(*total.keys, place.key_digest),
        blobs=total.blobs + len(sent),
        bytes=total.bytes + sum(sent),
    )


def _lacking(source: Store, target: Store, domain: str, part: Part, deadline: Deadline) -> int:
    """The bytes that would be sent for one blob. Raises NotFoundError (`blob-missing`) where the source lacks it too."""
    path = layout.blob_path(domain, part.sha256)
    known = target.head(path, deadline)
    if known is not None and known.size == part.size:
        return 0
    if source.head(path, deadline) is None:
        raise NotFoundError(f"the store lacks the blob of {part.name!r}", code="blob-missing")
    return part.size


def _copy_blob(source: Store, target: Store, domain: str, part: Part, deadline: Deadline) -> int:
    """Send one blob, verified first; the bytes sent, 0 where the target has it."""
    path = layout.blob_path(domain, part.sha256)
    known = target.head(path, deadline)
    if known is not None and known.size == part.size:
        return 0
    with tempfile.TemporaryDirectory(prefix="glowplug-copy-") as folder:
        local = Path(folder) / "blob"
        digest = hashlib.sha256()
        with local.open("wb") as handle:
            for chunk in bundle.stream(source, domain, part, deadline):
                digest.update(chunk)
                handle.write(chunk)
        if digest.hexdigest() != part.sha256 or local.stat().st_size != part.size:
            raise IntegrityError(f"the blob of {part.name!r} is not what its digest says")
        target.put(path, local, deadline)
    return part.size
