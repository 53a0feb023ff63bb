"""`model.safetensors.index.json`: which shard holds which tensor. An engine may go by it; a streamer goes by names of files.

Whoever wrote it may mean harm or may have copied half a folder, so a shard's name is only ever compared with a listing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from glowplug.models import json_text
from glowplug.models.json_text import JsonError
from glowplug.models.safetensors import PREFIX_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME: Final = "model.safetensors.index.json"
SUFFIX: Final = ".safetensors"
LARGEST: Final = 16 << 20
"""Bytes of a file that is read. The largest that is known has 10 MB."""

_MOST_VALUES: Final = 2_000_000
_LONGEST_NAME: Final = 255  # bytes of a file's name
_DESCRIPTION: Final = 120  # bytes of a header that describe a tensor beside its name: dtype, shape of five, two offsets
_METADATA: Final = 256  # bytes of a header that belong to no tensor


@dataclass(frozen=True)
class Index:
    """What the index says. `shard_of` maps tensors to shards that can lie beside it; `outside` are the names that cannot.

    `total_size` is the bytes of all tensors, None where that is missing or no number.
    """

    shard_of: Mapping[str, str] = field(default_factory=dict)
    outside: tuple[str, ...] = ()
    total_size: int | None = None

    @property
    def shards(self) -> frozenset[str]:
        """Names of the shards."""
        return frozenset(self.shard_of.values())

    def head_bytes(self) -> dict[str, int]:
        """For each shard, in how many bytes from its beginning its header most likely ends."""
        sizes: dict[str, int] = {}
        for tensor, shard in self.shard_of.items():
            sizes[shard] = sizes.get(shard, PREFIX_BYTES + _METADATA) + len(tensor) + _DESCRIPTION
        return sizes


def parse(data: bytes) -> Index:
    """Raises JsonError where this is no index."""
    value = json_text.load(data, _MOST_VALUES)
    weight_map = value.get("weight_map") if isinstance(value, dict) else None
    if not isinstance(weight_map, dict):
        raise JsonError("it has no object weight_map")
    inside: dict[str, str] = {}
    outside: set[str] = set()
    for tensor, shard in weight_map.items():
        if not isinstance(shard, str):
            raise JsonError("weight_map holds something that is no name of a file")
        if is_beside(shard):
            inside[tensor] = shard
        else:
            outside.add(shard)
    return Index(inside, tuple(sorted(outside)), _total(value.get("metadata")))


def is_beside(name: str) -> bool:
    """Whether this can be the name of a safetensors file in the folder itself: no path, nothing hidden, no other kind of file."""
    return (
        name.endswith(SUFFIX)
        and len(name) <= _LONGEST_NAME
        and not name.startswith(".")
        and "/" not in name
        and "\\" not in name
        and name.isprintable()
    )


def _total(metadata: Any) -> int | None:
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if type(total) is float and total.is_integer():
        total = int(total)  # some tools write 1.5e10
    return total if type(total) is int and 0 <= total < 1 << 63 else None
