"""Where things lie below the agent's root, and below the two mounts that a pod has of it.

A pod sees `<root>/store/<domain>` and `<root>/outbox/<pod uid>` only, so every path is a function of what is mounted, not of the
root. Names that come from elsewhere are checked here before they are joined to anything.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from glowplug.core import canonical
from glowplug.core.errors import BadInputError

if TYPE_CHECKING:
    from pathlib import Path

STORE: Final = "store"
OUTBOX: Final = "outbox"

NODE: Final = "node.json"
READY: Final = "ready"
PROGRAM: Final = "glowplug.pyz"
KEY: Final = "key.json"
USED: Final = "used"
FILES: Final = "files.json"
TREE: Final = "tree"
SEALED: Final = ".sealed"
JSON: Final = ".json"
GONE: Final = ".gone-"
"""Before a directory is removed it gets a name with this prefix, so that nobody finds half of it."""

WAIT_SECONDS: Final = 15
"""So long a start waits for its node's agent, for the client and for artifacts together."""

_DOMAIN: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?\Z")
_POD_UID: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})\Z")
_START_ID: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_]{0,62})\Z")
_PART: Final = re.compile(r"(?P<start>[A-Za-z0-9][A-Za-z0-9_]{0,62})-(?P<number>[0-9]{1,6})\Z")


def stores(root: Path) -> Path:
    """Below it lies a directory for each trust domain."""
    return root / STORE


def store(root: Path, domain: str) -> Path:
    """What the pods of a trust domain have mounted read-only. Raises BadInputError for a domain that is no name of a directory."""
    if not _DOMAIN.match(domain):
        raise BadInputError(f"the trust domain {domain[:80]!r} cannot be the name of a directory")
    return stores(root) / domain


def is_domain(name: str) -> bool:
    """Whether a directory of `stores` is a trust domain's."""
    return bool(_DOMAIN.match(name))


def outboxes(root: Path) -> Path:
    """Below it kubelet makes a directory for each pod, named by the pod's UID."""
    return root / OUTBOX


def outbox(root: Path, pod_uid: str) -> Path:
    """What one pod has mounted as its outbox. Raises BadInputError for what is no UID."""
    if not is_pod_uid(pod_uid):
        raise BadInputError(f"{pod_uid[:80]!r} is no pod's UID")
    return outboxes(root) / pod_uid


def is_pod_uid(name: str) -> bool:
    """Whether this can be the UID of a pod (static pods have other forms of it)."""
    return bool(_POD_UID.match(name))


def is_start_id(text: str) -> bool:
    """Whether a start of this id can leave anything in an outbox."""
    return bool(_START_ID.match(text))


def key(mount: Path, key_digest: str) -> Path:
    """The directory of a key. Raises BadInputError for what is no digest."""
    return mount / _digest(key_digest)


def key_document(mount: Path, key_digest: str) -> Path:
    """Written last: a directory without it is not there."""
    return key(mount, key_digest) / KEY


def used(mount: Path, key_digest: str) -> Path:
    """Its time stamp says when the key was used last."""
    return key(mount, key_digest) / USED


def part(mount: Path, key_digest: str, sha256: str) -> Path:
    """The directory of a part; it appears whole."""
    return key(mount, key_digest) / _digest(sha256)


def files(part_directory: Path) -> Path:
    """The table of a part's files, in the form of an archive's (`glowplug.files/1`)."""
    return part_directory / FILES


def tree(part_directory: Path) -> Path:
    """A part's files, below this."""
    return part_directory / TREE


def start(mount: Path, start_id: str) -> Path:
    """The document of a start in an outbox."""
    return mount / f"{_start(start_id)}{JSON}"


def sealed(mount: Path, start_id: str, number: int) -> Path:
    """A sealed archive in an outbox; it appears whole."""
    return mount / f"{_start(start_id)}-{number}{SEALED}"


def description(sealed_archive: Path) -> Path:
    """What is said of a sealed archive, beside it."""
    return sealed_archive.with_suffix(JSON)


def part_of(name: str) -> tuple[str, int] | None:
    """Start id and number of the name of a sealed archive, None for any other name."""
    match = _PART.match(name[: -len(SEALED)]) if name.endswith(SEALED) else None
    return (match["start"], int(match["number"])) if match else None


def start_of(name: str) -> str | None:
    """The start id of the name of a start document, None for any other name."""
    text = name[: -len(JSON)] if name.endswith(JSON) else ""
    return text if is_start_id(text) else None


def _digest(text: str) -> str:
    if not canonical.is_digest(text):
        raise BadInputError(f"{text[:80]!r} is no digest")
    return text


def _start(start_id: str) -> str:
    if not is_start_id(start_id):
        raise BadInputError(f"{start_id[:80]!r} cannot be the id of a start")
    return start_id
