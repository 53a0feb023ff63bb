"""What `check network` is asked: which buckets, by how many nodes, how much, on what machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glowplug.catalog.instances import Instance


@dataclass(frozen=True)
class Bucket:
    """A bucket that is to be read, below a prefix ("" for all of it); `region` is "" where nobody said."""

    name: str
    prefix: str = ""
    region: str = ""


@dataclass(frozen=True)
class Question:
    """What for: these buckets, by so many nodes at once, so many bytes each (None: not told), on this machine."""

    buckets: tuple[Bucket, ...] = ()
    nodes: int = 1
    size: int | None = None
    machine: Instance | None = None
