"""The sealed archives of one pod, sorted: an entry with its support is one arrival, which is published as one.

A pod seals the support before the entry that needs it. So where the entry is there, all is there; support alone is either the rest
that an entry made on its first hit, or the beginning of an arrival that is still being sealed: only the end of its start tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from glowplug.core.documents.node import ENTRY, SUPPORT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from glowplug.core.documents.fingerprint import Key
    from glowplug.core.documents.node import OutboxPart


@dataclass(frozen=True)
class Archive:
    """One sealed archive: its file's name and size, and what the pod says of it."""

    name: str
    start_id: str
    part: OutboxPart
    size: int


@dataclass(frozen=True)
class Arrival:
    """What one start hands over of one entry. All archives claim the same key and guards; none is of the same kind as another."""

    start_id: str
    entry: str
    key: Key
    archives: tuple[Archive, ...]

    @property
    def whole(self) -> bool:
        """Whether the entry itself is in it."""
        return any(archive.part.kind == ENTRY for archive in self.archives)

    @property
    def size(self) -> int:
        """Bytes of all archives."""
        return sum(archive.size for archive in self.archives)

    @property
    def claim(self) -> OutboxPart:
        """What the pod says, of the entry where it is in it."""
        return next((archive.part for archive in self.archives if archive.part.kind == ENTRY), self.archives[0].part)


def sort(archives: Iterable[Archive]) -> list[Arrival]:
    """Arrivals in the order of their first archives. Pure."""
    found: dict[tuple[object, ...], list[Archive]] = {}
    for archive in archives:
        part = archive.part
        name = part.of if part.kind == SUPPORT else part.name
        same = (archive.start_id, name, part.key.digest(), frozenset(part.guards.items()))
        rows = found.setdefault(same, [])
        if any(other.part.kind == part.kind for other in rows):
            rows = found.setdefault((*same, archive.name), [])  # sealed twice: the second stands for itself
        rows.append(archive)
    return [
        Arrival(rows[0].start_id, rows[0].part.of or rows[0].part.name, rows[0].part.key, tuple(rows))
        for rows in found.values()
    ]
