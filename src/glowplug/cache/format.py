"""`glowplug.manifest/1`: the small object that says which parts a key has now.

Reading believes nothing before the digest fits. What a newer writer added is kept: unknown fields of the manifest, its parts
and rejections, and parts of an unknown kind, come back unchanged when an older glowplug writes the manifest again. A newer
`min_reader` means that keeping is not enough; such a manifest is as good as absent, and is never written over.

`docs/format.md` is the public statement of this format and `tests/formats/v1/` holds samples that never change.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from glowplug.cache import layout
from glowplug.core import canonical
from glowplug.core.documents import codec
from glowplug.core.documents.fingerprint import Key, conflicts
from glowplug.core.errors import BadInputError, IntegrityError, NotFoundError

SCHEMA: Final = "glowplug.manifest/1"
READER: Final = 1
"""The newest manifest this code understands; a manifest with a larger `min_reader` is treated as absent."""

MANIFEST_BYTES: Final = 1 << 20
ENTRY: Final = "entry"
SUPPORT: Final = "support"
LAST_REVISION: Final = 2
_PARTS: Final = 1000
_INDEX_FILES: Final = 256
_LARGEST: Final = 2**63 - 1


class NewerManifestError(NotFoundError):
    """The manifest asks for a newer glowplug than this one."""


@dataclass(frozen=True)
class Part:
    """One archive. `of` names the entry that a support part belongs to.

    `index`: the files by which the engine recognises the entry; they are put in place last. `revision` counts replacements of a
    support part. `guards` are those known where the
    entry was compiled, the same for entry and support; `observed` has `compile_ms`, `ready_ms` as far as known.
    `size` is the blob's, `unpacked_bytes` and `files` are what it becomes. `created` is RFC 3339 in UTC.
    """

    kind: str
    name: str
    sha256: str
    size: int
    unpacked_bytes: int
    files: int
    created: str
    of: str = ""
    revision: int = 0
    index: tuple[str, ...] = ()
    guards: Mapping[str, str] = field(default_factory=dict)
    observed: Mapping[str, int] = field(default_factory=dict)
    created_by: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Rejection:
    """An engine loaded an entry and threw it away."""

    start_id: str
    entry: str
    reason: str
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Manifest:
    """The parts that a key has now. `blocked` is the reason why nothing is offered or published, None otherwise.

    `foreign_parts` are parts of a kind unknown here, kept for those who know it. `signature` is empty where there is none.
    """

    key: Key
    parts: tuple[Part, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    blocked: str | None = None
    signature: str = ""
    min_reader: int = 1
    foreign_parts: tuple[Mapping[str, Any], ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key_digest(self) -> str:
        """The key's digest."""
        return self.key.digest()

    def entries(self) -> tuple[Part, ...]:
        """The entry parts, in the order of the manifest."""
        return tuple(part for part in self.parts if part.kind == ENTRY)

    def entry(self, name: str, guards: Mapping[str, str]) -> Part | None:
        """The entry of this name that fits these guards best: most of them known and equal, then the newest."""
        fitting = [part for part in self.entries() if part.name == name and not conflicts(part.guards, guards)]
        return max(fitting, key=lambda part: (len(part.guards.items() & guards.items()), part.created), default=None)

    def support(self, entry: Part) -> Part | None:
        """The support part of an entry: it names it and carries its guards."""
        return next((part for part in self.parts if part.kind == SUPPORT and identity(part) == identity(entry)), None)


def identity(part: Part) -> tuple[str, frozenset[tuple[str, str]]]:
    """What an entry and its support part share: the entry's name and the guards under which it was compiled.

    Engines may give one name to what different compilers made (vLLM's AOT directories do); the guards tell them apart.
    """
    return (part.of if part.kind == SUPPORT else part.name, frozenset(part.guards.items()))


def body(manifest: Manifest) -> dict[str, Any]:
    """The JSON value without `digest` and `signature`: what the digest is made of."""
    return {
        **manifest.extra,
        "schema": SCHEMA,
        "min_reader": manifest.min_reader,
        "key": codec.to_json(manifest.key),
        "key_digest": manifest.key_digest,
        "parts": [*(_flat(part) for part in manifest.parts), *(dict(part) for part in manifest.foreign_parts)],
        "rejections": [_flat(rejection) for rejection in manifest.rejections],
        "blocked": None if manifest.blocked is None else {"reason": manifest.blocked},
    }


def digest(manifest: Manifest) -> str:
    """What `digest` of this manifest has to be; signatures are made over it."""
    return canonical.digest(body(manifest))


def encode(manifest: Manifest) -> bytes:
    """The manifest's canonical bytes. Raises IntegrityError (`archive-limit`) beyond 1 MiB."""
    value = body(manifest)
    data = canonical.encode({**value, "digest": canonical.digest(value), "signature": manifest.signature or None})
    if len(data) > MANIFEST_BYTES:
        raise IntegrityError(f"a manifest of {len(data)} bytes", code="archive-limit")
    return data


def decode(data: bytes, *, path: str = "") -> Manifest:
    """The manifest in `data`, which lay at `path` of the store.

    Raises IntegrityError (`bad-manifest`) where anything is not as its digest or the format says, or lies under another key's
    path, and NewerManifestError where it is whole but meant for a newer reader.
    """
    where = path.rpartition("/")[2] or "manifest"
    value = _value(data, where)
    claimed = value.pop("digest", None)
    signature = value.pop("signature", None)
    try:
        actual = canonical.digest(value)
    except (TypeError, ValueError, RecursionError) as error:
        _bad(where, f"not canonical JSON ({error})")
    if claimed != actual:
        _bad(where, "its digest does not fit")
    if value.get("schema") != SCHEMA:
        _bad(where, "another kind of document")
    min_reader = value.get("min_reader")
    if not isinstance(min_reader, int) or isinstance(min_reader, bool):
        _bad(where, "min_reader is not a number")
    if not 0 <= min_reader <= _LARGEST:
        _bad(where, "min_reader is no version")
    if min_reader > READER:
        raise NewerManifestError(f"{where} needs a glowplug that reads manifests of version {min_reader}")
    if signature is not None and not isinstance(signature, str):
        _bad(where, "signature is not text")
    try:
        manifest = _manifest(value, signature or "", where)
    except (BadInputError, ValueError) as error:
        _bad(where, str(error))
    _check(manifest, value.get("key_digest"), path, where)
    return manifest


def _bad(where: str, what: str) -> NoReturn:
    raise IntegrityError(f"{where}: {what}", code="bad-manifest")


def _value(data: bytes, where: str) -> dict[str, Any]:
    if len(data) > MANIFEST_BYTES:
        raise IntegrityError(f"{where}: larger than {MANIFEST_BYTES} bytes", code="archive-limit")
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        _bad(where, f"not JSON ({error})")
    if not isinstance(value, dict):
        _bad(where, "not an object")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two readers may take two different values of a name that comes twice."""
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a name comes twice")
    return value


_PART_FIELDS: Final = frozenset(item.name for item in dataclasses.fields(Part)) - {"extra"}
_REJECTION_FIELDS: Final = frozenset(item.name for item in dataclasses.fields(Rejection)) - {"extra"}
_MANIFEST_FIELDS: Final = frozenset(
    ("schema", "min_reader", "key", "key_digest", "parts", "rejections", "blocked", "digest", "signature")
)


def _flat(item: Part | Rejection) -> dict[str, Any]:
    value: dict[str, Any] = codec.to_json(item)
    extra = value.pop("extra")
    return {**extra, **value}


def _split(value: object, known: frozenset[str], where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise BadInputError(f"{where} is not an object")
    mine = {name: item for name, item in value.items() if name in known}
    mine["extra"] = {name: item for name, item in value.items() if name not in known}
    return mine


def _manifest(value: Mapping[str, Any], signature: str, where: str) -> Manifest:
    parts, rejections, blocked = value.get("parts"), value.get("rejections"), value.get("blocked")
    if not isinstance(parts, list) or not isinstance(rejections, list):
        raise BadInputError("parts and rejections are lists")
    if blocked is not None and (not isinstance(blocked, Mapping) or not isinstance(blocked.get("reason"), str)):
        raise BadInputError("blocked is null or has a reason")
    own = [part for part in parts if not isinstance(part, Mapping) or part.get("kind") in (ENTRY, SUPPORT)]
    return Manifest(
        key=codec.from_json(Key, value.get("key"), f"{where}.key"),
        parts=tuple(codec.from_json(Part, _split(part, _PART_FIELDS, "a part"), "part") for part in own),
        rejections=tuple(
            codec.from_json(Rejection, _split(item, _REJECTION_FIELDS, "a rejection"), "rejection")
            for item in rejections
        ),
        blocked=None if blocked is None else blocked["reason"],
        signature=signature,
        min_reader=value["min_reader"],
        foreign_parts=tuple(
            part for part in parts if isinstance(part, Mapping) and part.get("kind") not in (ENTRY, SUPPORT)
        ),
        extra={name: item for name, item in value.items() if name not in _MANIFEST_FIELDS},
    )


def _check(manifest: Manifest, key_digest: object, path: str, where: str) -> None:
    if key_digest != manifest.key_digest:
        _bad(where, "key_digest is not the digest of the key")
    if path and path != layout.manifest_path(manifest.key):
        _bad(where, "it lies under the path of another key")
    if len(manifest.parts) > _PARTS:
        _bad(where, f"more than {_PARTS} parts")
    seen: set[object] = set()
    for part in manifest.parts:
        this = (part.kind, identity(part))
        if this in seen:
            _bad(where, f"{part.kind} {part.name!r} comes twice")
        seen.add(this)
        if not layout.is_digest(part.sha256):
            _bad(where, f"{part.name!r} has no digest")
        numbers = (part.size, part.unpacked_bytes, part.files, part.revision)
        if min(numbers) < 0:
            _bad(where, f"{part.name!r} has a negative number")
        if max(map(abs, (*numbers, *part.observed.values()))) > _LARGEST:
            _bad(where, f"{part.name!r} has a number that is larger than anything")
        if len(part.index) > _INDEX_FILES:
            _bad(where, f"{part.name!r} has too many index files")
