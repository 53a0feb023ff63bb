"""Host memory, connections and open files of a load, by the rules of the streamer's versions."""

from __future__ import annotations

from typing import Any

import pytest

from glowplug.catalog.allocatable import for_workloads
from glowplug.catalog.instances import instance
from glowplug.plan import auto, hosting
from glowplug.plan.hosting import Reading, Streamer
from tests.plan.known import on, plan

MIB = 2**20
GIB = 2**30
READING: dict[str, Any] = {
    "weights_bytes": 100e9,
    "ranks": 4,
    "distributed": False,
    "chunk_bytes": 4 * GIB,
    "clients": 8,
}


@pytest.mark.parametrize(
    ("version", "changes", "size"),
    [
        ("0.17.1", {}, 160e9),  # one limit for each process
        ("0.17.1", {"distributed": True}, 40e9),  # one for all that share the reading
        ("0.17.1", {"weights_bytes": 8e9, "distributed": True}, 8e9),  # no more than there is to read
        ("0.17.1", {"weights_bytes": 8e9}, 32e9),  # each rank reads all of it
        ("0.17.1", {"memory_limit": 10e9}, 40e9),
        ("0.17.1", {"memory_limit": 10e9, "distributed": True}, 10e9),
        ("0.16.1", {}, 160e9),
        ("0.16.1", {"memory_limit": 10e9}, 40e9),
        ("0.16.1", {"distributed": True}, 100e9),  # the limit is ignored when ranks share the reading
        ("0.16.1", {"distributed": True, "memory_limit": 10e9}, 100e9),
        ("0.15.0", {"distributed": True}, 100e9),
        ("0.14.0", {}, 80e9),  # 20 GB then
        ("0.13.3", {}, 400e9),  # none before
    ],
)
def test_the_ring(version: str, changes: dict[str, Any], size: float) -> None:
    assert hosting.ring_bytes(Reading(**{**READING, **changes}), Streamer(version)) == size


@pytest.mark.parametrize(
    ("version", "chunk", "size"),
    [
        ("0.17.1", 4 * GIB, 2 * GIB),  # two chunks, but never more than the pool
        ("0.17.1", 256 * MIB, 512 * MIB),
        ("0.16.1", 256 * MIB, 512 * MIB),
        ("0.17.1", 8 * MIB, 187_500_000),
        ("0.16.0", 8 * MIB, 2 * GIB),  # no window then
    ],
)
def test_what_a_client_holds_in_flight(version: str, chunk: int, size: int) -> None:
    assert hosting.window_bytes(chunk, Streamer(version)) == size


def test_everything_together() -> None:
    found = hosting.resources(Reading(**{**READING, "distributed": True}), Streamer("0.17.1"))
    assert found.connections == 8 * 4 * 25
    assert found.file_descriptors == 8 * 64
    assert found.host_memory_bytes == 40_000_000_000 + 8 * 4 * 2 * GIB + 4 * 4 * GIB
    few = hosting.resources(Reading(**{**READING, "weights_bytes": 1e9, "distributed": True}), Streamer("0.17.1"))
    assert few.host_memory_bytes == 2_000_000_000 + 4 * 4 * GIB  # what is not there fills no buffer twice over


def test_pods_share_a_node() -> None:
    machine = on("p5.48xlarge")
    whole = for_workloads(instance("p5.48xlarge")).memory_bytes
    assert hosting.budget_bytes(machine, 4) == pytest.approx(whole / 4)
    assert whole < 2048 * GIB * 0.925
    alone, eight = plan(16, "g6.48xlarge", tensor_parallel_size=8), plan(16, "g6.48xlarge", tensor_parallel_size=1)
    assert alone.resources.host_memory_bytes <= 768 * GIB * 0.9
    assert eight.resources.host_memory_bytes <= 768 * GIB * 0.9 / 8


def test_ranks_that_read_alone_have_the_whole_limit_each() -> None:
    clients = {sharing: auto.useful_clients(200e9, sharing, 512 * MIB, Streamer("0.17.1")) for sharing in (1, 4)}
    assert clients == {1: 18 * 4, 4: 18}
    assert Reading(**READING).has_one_limit(Streamer("0.17.1")) is False
    assert Reading(**{**READING, "distributed": True}).has_one_limit(Streamer("0.16.1")) is False
    assert Reading(**{**READING, "distributed": True}).has_one_limit(Streamer("0.17.1")) is True


def test_more_ranks_share_the_rings_limit() -> None:
    """Buffers are smaller then, so fewer small chunks are in flight in each rank."""
    one = plan(300, "p5en.48xlarge", chunk_bytes=512 * MIB, tensor_parallel_size=4)
    assert one.streaming.concurrency == 16
    two = plan(240, "p5en.48xlarge", chunk_bytes=1024 * MIB, tensor_parallel_size=2)
    assert two.streaming.concurrency == 18  # 40 GB / 2 ranks / 18 buffers hold one chunk of 1 GiB, not two
