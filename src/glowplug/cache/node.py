"""A key's parts from the store into a node's own store, before pods ask for them.

Above the line, since it decompresses and may check signatures; what a pod finds afterwards needs neither. All entries of a key are
brought, whatever their guards: which of them fits is known only in the pod. What is on the node already is not fetched again,
and an entry that cannot be brought whole is left out, or left as the node has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.cache import bundle
from glowplug.cache import format as manifests
from glowplug.cache.workers import workers
from glowplug.core.documents.node import HeldPart, NodeKey
from glowplug.core.errors import BadInputError, GlowplugError, IntegrityError
from glowplug.nodestore import layout as nodes
from glowplug.nodestore import write
from glowplug.nodestore.read import NodeStore
from glowplug.nodestore.write import Unpacked
from glowplug.tree import room
from glowplug.tree.model import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from glowplug.cache.format import Manifest, Part
    from glowplug.core.clock import Deadline
    from glowplug.store.contract import Store

_STREAMS: Final = 4
"""Fewer than a start would use: a node that fetches has pods that load weights over the same card."""


@dataclass(frozen=True)
class Fetched:
    """`parts` are the blob digests that the node holds since, `bytes` what they are unpacked; `faults` why entries were left out.

    What came of an entry that did not come whole is in none of them: it is thrown away, since no pod could use it.
    """

    key_digest: str
    parts: tuple[str, ...] = ()
    bytes: int = 0
    faults: tuple[GlowplugError | OSError, ...] = ()


def fetch(
    store: Store,
    path: str,
    domain: str,
    root: Path,
    *,
    deadline: Deadline,
    verify: Callable[[Manifest], None] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    skip: frozenset[str] = frozenset(),
) -> Fetched:
    """Let the node below `root` hold what the manifest at `path` says (`lookup.resolve` gives the path of a digest).

    A blocked key is held without parts, so that pods learn the reason. `verify` may refuse a manifest by raising IntegrityError.
    Entries with a part in `skip` are left out, and leave the node where it holds them.
    Raises BadInputError where the manifest is of another domain, IntegrityError, NotFoundError, UnavailableError (`no-space`,
    `timeout` …), the store's errors, OSError: pods find what they found before then.
    """
    found = store.get(path, deadline, max_bytes=manifests.MANIFEST_BYTES)
    manifest = manifests.decode(found.data, path=path)
    if manifest.key.domain != domain:
        raise BadInputError(f"{path} is none of the domain {domain}")
    if verify is not None:
        verify(manifest)
    digest = manifest.key_digest
    if manifest.blocked is not None:
        write.add(root, domain, NodeKey(manifest.key, digest, blocked=manifest.blocked), {})
        return Fetched(digest)
    with write.staging(root, domain) as work:
        place = nodes.key(nodes.store(root, domain), digest)
        pairs = [_pair(manifest, entry) for entry in manifest.entries()]
        pairs = [pair for pair in pairs if not any(part.sha256 in skip for part in pair)]
        wanted = {part.sha256: part for pair in pairs for part in pair if not (place / part.sha256).exists()}
        for part in wanted.values():
            bundle.check_claims(part, limits)
        room.check(
            work, sum(part.unpacked_bytes for part in wanted.values()), sum(part.files for part in wanted.values())
        )
        came, faults = _fetch_all(store, domain, wanted.values(), work, deadline, limits)
        parts: list[HeldPart] = []
        for pair in pairs:
            if any(part.sha256 in faults for part in pair):
                parts += _as_before(root, domain, digest, pair[-1])
            else:
                parts += map(_held, pair)
        named = {part.sha256 for part in parts}
        if parts or not faults:
            write.add(root, domain, NodeKey(manifest.key, digest, tuple(parts)), came)
        came = {sha256: unpacked for sha256, unpacked in came.items() if sha256 in named}
    size = sum(item.size for unpacked in came.values() for item in unpacked.files)
    return Fetched(digest, tuple(came), size, tuple(faults.values()))


def _pair(manifest: Manifest, entry: Part) -> tuple[Part, ...]:
    """An entry with its support before it."""
    support = manifest.support(entry)
    return (entry,) if support is None else (support, entry)


def _fetch_all(
    store: Store, domain: str, parts: Iterable[Part], work: Path, deadline: Deadline, limits: Limits
) -> tuple[dict[str, Unpacked], dict[str, GlowplugError | OSError]]:
    def one(part: Part) -> Unpacked | GlowplugError | OSError:
        try:
            into = work / f"fetched-{part.sha256}"
            return Unpacked(into, bundle.fetch(store, domain, part, into, deadline, limits))
        except (GlowplugError, OSError) as error:
            return error

    wanted = list(parts)
    with workers(_STREAMS) as pool:
        outcomes = dict(zip((part.sha256 for part in wanted), pool.map(one, wanted), strict=True))
    came = {sha256: outcome for sha256, outcome in outcomes.items() if isinstance(outcome, Unpacked)}
    return came, {sha256: outcome for sha256, outcome in outcomes.items() if not isinstance(outcome, Unpacked)}


def _as_before(root: Path, domain: str, key_digest: str, entry: Part) -> list[HeldPart]:
    """What the node has of an entry: perhaps with an older support part, which is as good as it was."""
    try:
        held = NodeStore(nodes.store(root, domain)).held(key_digest)
    except IntegrityError:
        return []
    if held is None:
        return []
    for offer in held.offers(entry.guards):
        if offer.entry.sha256 == entry.sha256:
            return list(offer.parts)
    return []


def _held(part: Part) -> HeldPart:
    return HeldPart(
        kind=part.kind,
        name=part.name,
        of=part.of,
        sha256=part.sha256,
        size=part.size,
        unpacked_bytes=part.unpacked_bytes,
        files=part.files,
        guards=part.guards,
        observed=part.observed,
        index=part.index,
        created=part.created,
    )
