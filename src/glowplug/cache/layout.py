"""Where things lie in a store: the paths of docs/format.md.

Everything of a trust domain is below one prefix, so that an IAM policy is one line and a listing of one domain never names
another's keys. Path parts of a key are slugs for people to read and for `nearest` to compare; only the digest at the end is
the identity.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.core.canonical import is_digest

if TYPE_CHECKING:
    from glowplug.core.documents.fingerprint import Key

__all__ = ["is_digest"]

ROOT: Final = "v1"
CONTROL: Final = f"{ROOT}/control.json"

_LONGEST: Final = 63
_OTHER: Final = re.compile(r"[^a-z0-9._-]")
_SUFFIX: Final = ".json"
_SUFFIXED: Final = re.compile(r"-[0-9a-f]{8}\Z")


def slug(text: str) -> str:
    """`text` as one path part: lower case, `[^a-z0-9._-]` → `-`, at most 63 characters.

    Where that changed anything, `-` and 8 hex digits of the original's digest follow. A part of dots alone would be a step in
    a path, and one that ends as if digits had been added could be another text's: both count as changed.
    """
    short = _OTHER.sub("-", text.lower())[:_LONGEST]
    if short == text and short.strip(".") and not _SUFFIXED.search(short):
        return short
    readable = short if short.strip(".") else "-"
    return f"{readable}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


@dataclass(frozen=True)
class Place:
    """A manifest's path taken apart again. `parts`: gpu, engine, torch, tp, model, as slugs."""

    path: str
    key_digest: str
    parts: tuple[str, ...]


def domain_prefix(domain: str) -> str:
    """Below this lies everything of a trust domain."""
    return f"{ROOT}/{slug(domain)}"


def keys_prefix(domain: str) -> str:
    """Below this lie the manifests of a domain."""
    return f"{domain_prefix(domain)}/keys"


def blobs_prefix(domain: str) -> str:
    """Below this lie the blobs of a domain."""
    return f"{domain_prefix(domain)}/blobs/sha256"


def uses_prefix(domain: str) -> str:
    """Below this lies a marker for each key that was used."""
    return f"{domain_prefix(domain)}/uses"


def gc_path(domain: str) -> str:
    """The notes of garbage collection between its two phases."""
    return f"{domain_prefix(domain)}/gc.json"


def key_parts(key: Key) -> tuple[str, ...]:
    """gpu, engine and its version, torch, tp, model: the folders of a key."""
    return (
        slug(key.gpu),
        slug(f"{key.engine}-{key.engine_version}"),
        slug(f"torch-{key.torch}"),
        f"tp{key.layout.tp}",
        slug(key.model),
    )


def manifest_path(key: Key) -> str:
    """The manifest's path of a key."""
    return "/".join([keys_prefix(key.domain), *key_parts(key), key.digest() + _SUFFIX])


def blob_path(domain: str, digest: str) -> str:
    """The path of a part's bytes."""
    return f"{blobs_prefix(domain)}/{digest[:2]}/{digest}.tar.zst"


def uses_path(domain: str, key_digest: str) -> str:
    """The marker that says when a key was used last."""
    return f"{uses_prefix(domain)}/{key_digest}"


def parse_manifest_path(path: str) -> Place | None:
    """The parts of a manifest's path, None where it is not one."""
    pieces = path.split("/")
    if len(pieces) != 9 or pieces[0] != ROOT or pieces[2] != "keys" or not pieces[8].endswith(_SUFFIX):
        return None
    digest = pieces[8][: -len(_SUFFIX)]
    return Place(path, digest, tuple(pieces[3:8])) if is_digest(digest) else None


def parse_blob_path(path: str) -> str | None:
    """The digest of a blob's path, None where it is not one."""
    name = path.rpartition("/")[2]
    digest = name.removesuffix(".tar.zst")
    return digest if digest != name and is_digest(digest) else None
