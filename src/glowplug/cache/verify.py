"""Is everything in the store what it says? Without `deep` by listing and manifests, with it by every byte.

Faults are data here: one damaged key must not hide the next one.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from glowplug.cache import bundle, layout
from glowplug.cache import format as manifests
from glowplug.cache.format import NewerManifestError
from glowplug.cache.lookup import keys, resolve
from glowplug.core.errors import GlowplugError, IntegrityError, NotFoundError
from glowplug.tree.model import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from glowplug.cache.format import Manifest, Part
    from glowplug.core.clock import Deadline
    from glowplug.store.contract import Store


@dataclass(frozen=True)
class Fault:
    """`part` is a part's name, empty where the manifest itself is meant; `code` as in docs/errors.md."""

    key_digest: str
    part: str
    code: str
    message: str


@dataclass(frozen=True)
class Verified:
    """What was looked at and what was wrong. `bytes` are packed."""

    keys: int = 0
    parts: int = 0
    bytes: int = 0
    faults: tuple[Fault, ...] = ()

    def error(self) -> GlowplugError | None:
        """The error that a command ends with: damage before absence, None where all is well."""
        damaged = [fault for fault in self.faults if fault.code != "blob-missing"]
        if damaged:
            return IntegrityError(_sentence(damaged), code=damaged[0].code)
        return NotFoundError(_sentence(list(self.faults)), code="blob-missing") if self.faults else None


def verify(
    store: Store,
    domain: str,
    deadline: Deadline,
    *,
    digits: str = "",
    deep: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    policy: Callable[[Manifest], None] | None = None,
) -> Verified:
    """Check one key (`digits`) or all of a domain. `deep` fetches and unpacks every part into a temporary directory.

    `policy` may refuse a manifest by raising IntegrityError (signatures). Raises the store's errors, and NotFoundError where no
    key begins with `digits`.
    """
    places = [resolve(store, domain, digits, deadline)] if digits else list(keys(store, domain, deadline))
    total = Verified()
    for place in places:
        total = _plus(total, _verify_key(store, domain, place, deadline, deep=deep, limits=limits, policy=policy))
    return total


def _verify_key(
    store: Store,
    domain: str,
    place: layout.Place,
    deadline: Deadline,
    *,
    deep: bool,
    limits: Limits,
    policy: Callable[[Manifest], None] | None,
) -> Verified:
    try:
        data = store.get(place.path, deadline, max_bytes=manifests.MANIFEST_BYTES).data
        manifest = manifests.decode(data, path=place.path)
        if policy is not None:
            policy(manifest)
    except NewerManifestError:
        return Verified(keys=1)  # not ours to judge
    except (IntegrityError, NotFoundError) as error:
        return Verified(keys=1, faults=(Fault(place.key_digest, "", error.code, error.message),))
    faults = []
    for part in manifest.parts:
        try:
            (_verify_bytes if deep else _verify_presence)(store, domain, part, deadline, limits)
        except (IntegrityError, NotFoundError) as error:
            faults.append(Fault(place.key_digest, part.name, error.code, error.message))
    return Verified(1, len(manifest.parts), sum(part.size for part in manifest.parts), tuple(faults))


def _verify_presence(store: Store, domain: str, part: Part, deadline: Deadline, limits: Limits) -> None:
    bundle.check_claims(part, limits)
    meta = store.head(layout.blob_path(domain, part.sha256), deadline)
    if meta is None:
        raise NotFoundError(f"the store lacks the blob of {part.name!r}", code="blob-missing")
    if meta.size != part.size:
        raise IntegrityError(f"the blob of {part.name!r} has {meta.size} bytes, not {part.size}")


def _verify_bytes(store: Store, domain: str, part: Part, deadline: Deadline, limits: Limits) -> None:
    with tempfile.TemporaryDirectory(prefix="glowplug-verify-") as folder:
        bundle.fetch(store, domain, part, Path(folder) / "part", deadline, limits)


def _plus(one: Verified, other: Verified) -> Verified:
    return Verified(one.keys + other.keys, one.parts + other.parts, one.bytes + other.bytes, one.faults + other.faults)


def _sentence(faults: list[Fault]) -> str:
    first = faults[0]
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"key {first.key_digest[:12]}: {first.message}{more}"
