"""The node store as a pod sees it: what its node holds of a key, what of that fits, and whether waiting is worth while.

The agent has verified what lies here, on a disk that may fail all the same, and it may be adding and removing at this moment. So
documents are checked as if they came from afar, and a key that goes away while it is read is one that was never there.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.core import canonical
from glowplug.core.documents.fingerprint import conflicts
from glowplug.core.documents.node import ENTRY, KEY_SCHEMA, NODE_SCHEMA, SUPPORT, HeldPart, Node, NodeKey
from glowplug.core.errors import GlowplugError, IntegrityError, NotFoundError
from glowplug.nodestore import documents, layout
from glowplug.tree import archive, paths
from glowplug.tree.model import DEFAULT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from glowplug.core.clock import Deadline
    from glowplug.core.documents.fingerprint import Key
    from glowplug.tree.model import File, Limits

__all__ = ["Held", "HeldPart", "Node", "NodeStore", "Offer"]

_PARTS: Final = 1000
_INDEX_FILES: Final = 256
_LARGEST: Final = 2**63 - 1


@dataclass(frozen=True)
class Offer:
    """An entry and what it needs."""

    entry: HeldPart
    support: HeldPart | None

    @property
    def parts(self) -> tuple[HeldPart, ...]:
        """In the order in which they are put in place."""
        return (self.entry,) if self.support is None else (self.support, self.entry)


@dataclass(frozen=True)
class Held:
    """A key that is on this node. `blocked` is the reason why nothing is offered, "" otherwise; `place` its directory."""

    key: Key
    key_digest: str
    blocked: str
    parts: tuple[HeldPart, ...]
    place: Path

    def entries(self) -> tuple[HeldPart, ...]:
        """The entry parts."""
        return tuple(part for part in self.parts if part.kind == ENTRY)

    def offers(self, guards: Mapping[str, str]) -> tuple[Offer, ...]:
        """What fits the guards, newest first; of one name the entry with most guards known and equal, then the newest."""
        best: dict[str, HeldPart] = {}
        for part in self.entries():
            if conflicts(part.guards, guards):
                continue
            rival = best.get(part.name)
            if rival is None or _rank(part, guards) > _rank(rival, guards):
                best[part.name] = part
        chosen = sorted(best.values(), key=lambda part: part.created, reverse=True)
        return tuple(Offer(entry, self._support(entry)) for entry in chosen)

    def _support(self, entry: HeldPart) -> HeldPart | None:
        wanted = (entry.name, dict(entry.guards))
        return next(
            (part for part in self.parts if part.kind == SUPPORT and (part.of, dict(part.guards)) == wanted), None
        )

    def table(self, part: HeldPart, limits: Limits = DEFAULT_LIMITS) -> tuple[File, ...]:
        """The files of a part of this key.

        Raises NotFoundError (`blob-missing`), IntegrityError, AccessDeniedError, UnavailableError.
        """
        if part.files > limits.files or part.unpacked_bytes > limits.unpacked_bytes:
            raise IntegrityError(f"part {part.name!r} is larger than the limits allow", code="archive-limit")
        path = layout.files(self.place / part.sha256)
        try:
            data = documents.read_bytes(path, limits.table_bytes)
        except NotFoundError as error:
            raise NotFoundError(f"part {part.name!r} is not on this node any more", code="blob-missing") from error
        files = archive.parse_table(data, limits)
        found = {item.path for item in files}
        if (
            (part.table_sha256 and hashlib.sha256(data).hexdigest() != part.table_sha256)
            or len(files) != part.files
            or sum(item.size for item in files) != part.unpacked_bytes
            or not found.issuperset(part.index)
        ):
            raise IntegrityError(f"part {part.name!r} does not hold what is said of it")
        return files


class NodeStore:
    """A trust domain's directory on this node, mounted read-only or not at all."""

    def __init__(self, mount: Path) -> None:
        self.mount = mount

    def exists(self) -> bool:
        """Whether there is anything to ask."""
        return self.mount.is_dir()

    def node(self) -> Node | None:
        """The agent's word; None where there is none, or none that this code understands."""
        try:
            return documents.read(Node, NODE_SCHEMA, self.mount / layout.NODE)
        except GlowplugError:
            return None

    def said_at(self) -> float:
        """When the agent's word was written last, in seconds since the epoch; 0.0 where there is none."""
        try:
            return (self.mount / layout.NODE).stat().st_mtime
        except OSError:
            return 0.0

    def ready(self) -> bool:
        """Whether what the pods of this node are likely to need has been fetched."""
        return os.path.lexists(self.mount / layout.READY)

    def held(self, key_digest: str) -> Held | None:
        """What is here of a key; None where nothing is, or in a form newer than this code.

        Raises IntegrityError (`bad-document`) where it is damaged, AccessDeniedError, UnavailableError.
        """
        try:
            return self._held(key_digest)
        except NotFoundError:
            return None

    def newer(self, key_digest: str) -> bool:
        """Whether something is here of a key that only a newer glowplug understands."""
        try:
            self._held(key_digest)
        except documents.NewerDocumentError:
            return True
        except GlowplugError:
            pass
        return False

    def all(self, deadline: Deadline) -> Iterator[Held]:
        """All keys that can be read, in no order, until the deadline. Raises nothing."""
        try:
            names = [found.name for found in os.scandir(self.mount) if canonical.is_digest(found.name)]
        except OSError:
            return
        for name in names:
            if deadline.passed():
                return
            try:
                yield self._held(name)
            except GlowplugError:
                continue

    def _held(self, key_digest: str) -> Held:
        path = layout.key_document(self.mount, key_digest)
        said = documents.read(NodeKey, KEY_SCHEMA, path)
        fault = _fault(said, key_digest)
        if fault:
            raise IntegrityError(f"key {key_digest[:12]}: {fault}", code="bad-document")
        parts = tuple(part for part in said.parts if part.kind in (ENTRY, SUPPORT))
        return Held(said.key, key_digest, said.blocked, parts, path.parent)


def _rank(part: HeldPart, guards: Mapping[str, str]) -> tuple[int, str]:
    return len(part.guards.items() & guards.items()), part.created


def _fault(said: NodeKey, key_digest: str) -> str:
    """What is wrong with a key's document, "" where it may be believed."""
    if said.key_digest != key_digest or said.key.digest() != key_digest:
        return "it is another key's document"
    if len(said.parts) > _PARTS:
        return f"more than {_PARTS} parts"
    seen: set[object] = set()
    for part in said.parts:
        this = (part.kind, part.of if part.kind == SUPPORT else part.name, frozenset(part.guards.items()))
        if this in seen:
            return f"{part.kind} {part.name!r} comes twice"
        seen.add(this)
        if not canonical.is_digest(part.sha256):
            return f"{part.name!r} has no digest"
        if not all(0 <= number <= _LARGEST for number in (part.size, part.unpacked_bytes, part.files)):
            return f"{part.name!r} has a number that none can be"
        if len(part.index) > _INDEX_FILES or any(paths.fault(path) for path in part.index):
            return f"{part.name!r} has index files that it cannot have"
    return ""
