"""Which keys of a domain this node ought to hold, and in which order they are brought: data in, data out.

What pods of the cluster ask for comes first, then what was used last. Keys are taken in that order until the next would not fit;
a smaller one behind it may still. The choice of a moment is stable: a relist that finds the same chooses the same, so nothing is
fetched and thrown away in turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from glowplug.cache import layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from glowplug.cache.layout import Place

About: TypeAlias = tuple[str, str]
"""A key on a node: its trust domain and its digest. Never the digest alone, which whoever writes to another domain may choose."""
BLOCK: Final = 4096


@dataclass(frozen=True)
class Wish:
    """What a pod asks for, as far as a pod's specification says it. `version` "" where the image's tag does not tell it."""

    engine: str
    model: str
    tp: int
    version: str = ""

    def fits(self, place: Place) -> int:
        """How well a key answers this: 0 not at all, 2 with the engine's version known and equal, else 1."""
        _, engine, _, tp, model = place.parts
        if tp != f"tp{self.tp}" or model != layout.slug(self.model) or not engine.startswith(f"{self.engine}-"):
            return 0
        return 2 if self.version and engine == layout.slug(f"{self.engine}-{self.version}") else 1


@dataclass(frozen=True)
class Listed:
    """A key of the store. `used`: seconds since the epoch of its last use; `version`: the store's token of its manifest."""

    place: Place
    version: str
    used: float


@dataclass(frozen=True)
class Size:
    """What a key takes on the node, at most."""

    bytes: int
    inodes: int


def ordered(found: Mapping[str, Iterable[Listed]], wishes: Mapping[str, Sequence[Wish]]) -> tuple[About, ...]:
    """Keys, best first; both arguments are by trust domain, and what a pod of one asks for says nothing of another's."""
    ranked: list[tuple[int, float, str, str]] = []
    for domain, listed in found.items():
        asked = wishes.get(domain, ())
        for one in listed:
            best = max((wish.fits(one.place) for wish in asked), default=0)
            ranked.append((-best, -one.used, one.place.key_digest, domain))
    return tuple((domain, digest) for _, _, digest, domain in sorted(ranked))


def chosen(order: Sequence[About], sizes: Mapping[About, Size], most: Size) -> tuple[About, ...]:
    """Of the keys in `order` those that fit into `most` together. Keys of unknown size are left out."""
    taken: list[About] = []
    left_bytes, left_inodes = most.bytes, most.inodes
    for about in order:
        size = sizes.get(about)
        if size is not None and size.bytes <= left_bytes and size.inodes <= left_inodes:
            taken.append(about)
            left_bytes -= size.bytes
            left_inodes -= size.inodes
    return tuple(taken)
