"""The arithmetic of a load: which limit is reached first, how long that takes at best, what it costs.

A roofline, no simulation: every limit alone would need so many seconds, the largest number is the bound. Nothing is faster than
that; a real load also lists, opens connections, waits for first bytes and shares the machine, so it takes longer. All limits come
from `catalog/limits`, where each has its date and source.

Two facts decide most answers. Without `distributed` every tensor-parallel rank reads the *whole* model over the same network card.
And S3's client cuts what it reads along its own grid of 8 MiB, whatever the streamer's chunk is: a larger chunk only saves the
one extra request at each of its borders.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from glowplug.catalog.limits import fact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from glowplug.catalog.instances import Instance

GB: Final = 1e9
_BITS: Final = 8


class Path(enum.Enum):
    """How the nodes reach S3."""

    GATEWAY = "gateway"
    NAT = "nat"
    INTERFACE = "interface"
    INTERNET = "internet"


@dataclass(frozen=True)
class Load:
    """One node's load at best. `bound` is the name of the limit that is reached first; `limits` has the seconds of each."""

    seconds: float
    bound: str
    limits: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Fleet:
    """Several nodes that load at the same moment.

    `seconds` until the last one has it, at the full speed of a gateway; `seconds_at_start` at the speed that a NAT gateway or an
    interface endpoint has before it scales (how long that takes is published nowhere). `usd` is what the bytes cost, hours aside.
    `connections_over` is how many connections more than NAT can hold to one destination would be opened (0: they fit).
    """

    seconds: float
    seconds_at_start: float
    bound: str
    usd: float
    bytes: float
    gets: float
    connections_over: int = 0
    limits: Mapping[str, float] = field(default_factory=dict)


def fleet(
    bytes_per_node: float,
    nodes: int,
    machine: Instance | float,
    path: Path,
    nats: int = 1,
    *,
    gets_per_node: float | None = None,
    connections_per_node: int = 0,
    zones: int = 1,
    prefixes: int = 1,
) -> Fleet:
    """`nodes` machines that each read `bytes_per_node` from S3 at once over one kind of path.

    `machine` is an instance type, or the bit/s of the network card that S3 traffic uses. `nats` NAT gateways share the nodes
    evenly; `zones` is in how many availability zones an interface endpoint stands; `prefixes` over how many of S3's partitions
    the requests spread. `gets_per_node` is 8 MiB requests where not given. No node is faster than the streamer was ever seen to be.
    """
    card = machine if isinstance(machine, (int, float)) else _card(machine, path)
    everything = bytes_per_node * nodes
    gets = nodes * (bytes_per_node / fact("streamer.crt_part_bytes").value if gets_per_node is None else gets_per_node)
    limits = {
        "streamer": bytes_per_node / fact("streamer.bytes_per_second_seen").value,
        "primary-network": bytes_per_node * _BITS / card if card else math.inf,
        "s3-request-rate": gets / (fact("s3.get_per_second_per_prefix").value * prefixes),
    }
    start = dict(limits)
    usd_per_gb = 0.0
    over = 0
    if path is Path.NAT:
        limits["nat"] = everything * _BITS / (fact("nat.bits_per_second_max").value * nats)
        start["nat"] = everything * _BITS / (fact("nat.bits_per_second_min").value * nats)
        usd_per_gb = fact("nat.usd_per_gb").value
        over = max(0, connections_per_node * nodes - nats * int(fact("nat.connections_per_destination").value))
    elif path is Path.INTERFACE:
        limits["endpoint"] = everything * _BITS / (fact("interface.bits_per_second_per_az_max").value * zones)
        start["endpoint"] = everything * _BITS / (fact("interface.bits_per_second_per_az").value * zones)
        usd_per_gb = fact("interface.usd_per_gb").value
    bound = _largest(limits)
    return Fleet(
        seconds=limits[bound],
        seconds_at_start=max(start.values()),
        bound=bound,
        usd=everything / GB * usd_per_gb,
        bytes=everything,
        gets=gets,
        connections_over=over,
        limits=limits,
    )


def single(
    weights_bytes: float,
    *,
    ranks: int,
    distributed: bool,
    chunk_bytes: float,
    connections: int,
    network_bps: float | None,
    pcie_bytes_per_second: float | None,
) -> Load:
    """One pod that loads alone on its node. Limits that are not known (None) do not count.

    `connections` is the sum over all ranks. Over PCIe goes each rank's share only: what a rank does not keep stays in host memory.
    """
    wire = wire_bytes(weights_bytes, ranks=ranks, distributed=distributed)
    limits = {
        "streamer": wire / fact("streamer.bytes_per_second_seen").value,
        "s3-connections": wire / (fact("s3.bytes_per_second_per_request").value * max(1, connections)),
        "s3-request-rate": gets(wire, chunk_bytes) / fact("s3.get_per_second_per_prefix").value,
    }
    if network_bps:
        limits["primary-network"] = wire * _BITS / network_bps
    if pcie_bytes_per_second:
        limits["pcie"] = weights_bytes / ranks / pcie_bytes_per_second
    bound = _largest(limits)
    return Load(limits[bound], bound, limits)


def wire_bytes(weights_bytes: float, *, ranks: int, distributed: bool) -> float:
    """What crosses the network card: the model once where the ranks share the reading, else once for each rank."""
    return weights_bytes if distributed else weights_bytes * ranks


def gets(size: float, chunk_bytes: float) -> float:
    """GET requests for reading that many bytes: one for each part of S3's client, and one more at each border of a chunk.

    A safetensors header moves chunk borders off the client's grid. Measured: chunks of 8 MiB double the requests, one chunk of
    512 MiB needs 65.
    """
    return math.ceil(size / fact("streamer.crt_part_bytes").value) + math.ceil(size / chunk_bytes)


def _card(machine: Instance, path: Path) -> float:
    """The first card's bit/s; over an internet gateway half of it from 32 vCPUs up, else 5 Gbit/s."""
    if path is not Path.INTERNET:
        return machine.primary_network_bps
    if machine.vcpus >= fact("cross_region.full_vcpus").value:
        return machine.primary_network_bps * fact("cross_region.bandwidth_share").value
    return min(machine.primary_network_bps, fact("cross_region.bits_per_second_small").value)


def _largest(limits: Mapping[str, float]) -> str:
    return max(limits, key=lambda name: limits[name])
