"""What a load needs on the node besides the GPU: host memory, connections, open files; and how far concurrency may go with it.

All of it are upper bounds: what the streamer's buffers, the pools of its S3 clients and the engine's processes can come to
together. The streamer's memory rules changed with its versions, hence `Streamer`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.catalog.allocatable import for_workloads
from glowplug.catalog.instances import instance
from glowplug.catalog.limits import fact
from glowplug.catalog.releases import version_key
from glowplug.plan.assumptions import assumed
from glowplug.plan.outcome import Resources

if TYPE_CHECKING:
    from glowplug.plan.request import Machine

RING_SINCE: Final = "0.17.0"
_WINDOW_SINCE: Final = "0.16.1"
_UNLIMITED_WHEN_DISTRIBUTED: Final = ("0.15.0", "0.16.1")
_FORTY_GB_SINCE: Final = "0.15.0"
_TWENTY_GB: Final = ("0.13.4", 20_000_000_000)


@dataclass(frozen=True)
class Streamer:
    """The streamer of one version; `inferred` where it is the newest of the engine's release day and not a probed one."""

    version: str
    inferred: bool = True

    def at_least(self, version: str) -> bool:
        """Whether it is that version or newer."""
        return version_key(self.version) >= version_key(version)

    @property
    def rings(self) -> bool:
        """Whether each process reads through a ring of buffers, and ranks that share the reading share one limit for them."""
        return self.at_least(RING_SINCE)

    def unlimited(self, *, distributed: bool) -> bool:
        """Whether it ignores its memory limit."""
        first, last = _UNLIMITED_WHEN_DISTRIBUTED
        forced = distributed and self.at_least(first) and not version_key(self.version) > version_key(last)
        return forced or not self.at_least(_TWENTY_GB[0])

    @property
    def memory_limit(self) -> float:
        """Its default limit in bytes, of the node or of one process (`Reading.has_one_limit`)."""
        return fact("streamer.memory_limit_bytes").value if self.at_least(_FORTY_GB_SINCE) else _TWENTY_GB[1]


@dataclass(frozen=True)
class Reading:
    """One pod's load: `weights_bytes` by `ranks` processes with `clients` each, in chunks of `chunk_bytes`."""

    weights_bytes: float
    ranks: int
    distributed: bool
    chunk_bytes: int
    clients: int
    memory_limit: float | None = None

    @property
    def rank_bytes(self) -> float:
        """What one rank reads."""
        return self.weights_bytes / self.ranks if self.distributed else self.weights_bytes

    def has_one_limit(self, streamer: Streamer) -> bool:
        """Whether the memory limit is that of all ranks together. Only the reading that ranks share divides it among them
        (`rank_memory_limit` in distributed_streamer.py, from 0.17.0 on); a process that reads alone takes it whole."""
        return self.distributed and streamer.rings


def ring_bytes(reading: Reading, streamer: Streamer) -> float:
    """Host memory of the streamer's own buffers, all ranks together."""
    everything = reading.rank_bytes * reading.ranks
    if streamer.unlimited(distributed=reading.distributed):
        return everything
    limit = streamer.memory_limit if reading.memory_limit is None else reading.memory_limit
    return min(everything, limit if reading.has_one_limit(streamer) else limit * reading.ranks)


def window_bytes(chunk_bytes: int, streamer: Streamer) -> float:
    """What one S3 client can hold in flight: its pool, or less where the version has a window."""
    pool = fact("streamer.crt_pool_bytes_per_client").value
    if not streamer.at_least(_WINDOW_SINCE):
        return pool
    return min(pool, max(fact("streamer.window_bytes_min").value, 2.0 * chunk_bytes))


def resources(reading: Reading, streamer: Streamer) -> Resources:
    """The bounds for one pod. Open files are those of one process, since the limit counts for each."""
    clients = reading.clients * reading.ranks
    pools = min(clients * window_bytes(reading.chunk_bytes, streamer), reading.rank_bytes * reading.ranks)
    return Resources(
        host_memory_bytes=round(ring_bytes(reading, streamer) + pools + base_bytes(reading.ranks)),
        connections=clients * int(fact("streamer.connections_per_client").value),
        file_descriptors=reading.clients * int(fact("streamer.descriptors_per_client").value),
    )


def base_bytes(ranks: int) -> float:
    """The engine's processes besides the streamer."""
    return assumed("host.bytes_per_rank").value * ranks


def budget_bytes(machine: Machine, pods_per_node: int) -> float | None:
    """Host memory that one pod can ask for when the node is full of them, None where the machine is not known."""
    if machine.instance is None:
        return None
    return for_workloads(instance(machine.instance)).memory_bytes / max(1, pods_per_node)
