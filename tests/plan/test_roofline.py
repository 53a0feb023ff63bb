"""What bounds a load: each limit by a case in which it is the one, and what must never happen whatever is asked."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.catalog.instances import instance
from glowplug.plan import roofline
from glowplug.plan.bounds import SAID
from glowplug.plan.roofline import Path, fleet, single
from tests.plan.known import plan

GIB = 2**30
MIB = 2**20
ALONE: dict[str, Any] = {
    "ranks": 1,
    "distributed": False,
    "chunk_bytes": 4 * GIB,
    "connections": 1000,
    "network_bps": 1e15,
    "pcie_bytes_per_second": None,
}


@pytest.mark.parametrize(
    ("changes", "bound", "seconds"),
    [
        ({"network_bps": 100e6 * 8}, "primary-network", 100.0),
        ({"network_bps": 100e6 * 8, "ranks": 4}, "primary-network", 400.0),  # each rank reads all of it
        ({"network_bps": 100e6 * 8, "ranks": 4, "distributed": True}, "primary-network", 100.0),
        ({"connections": 1}, "s3-connections", 10e9 / 85e6),
        ({"pcie_bytes_per_second": 1e9}, "pcie", 10.0),
        ({"pcie_bytes_per_second": 1e9, "ranks": 4, "distributed": True}, "pcie", 2.5),  # each keeps a quarter
        ({}, "streamer", 10e9 / 8.12e9),
        ({"network_bps": None}, "streamer", 10e9 / 8.12e9),
    ],
)
def test_each_limit_is_a_bound(changes: dict[str, Any], bound: str, seconds: float) -> None:
    found = single(10e9, **{**ALONE, **changes})
    assert found.bound == bound
    assert found.seconds == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("size", "chunk", "requests"),
    [
        (512 * MIB, 4 * GIB, 65),  # measured: 66 with one for the header
        (512 * MIB, 8 * MIB, 128),  # measured: twice the parts
        (140_000_000_000, 8 * MIB, 2 * 16690),
        (140_000_000_000, 4 * GIB, 16690 + 33),
    ],
)
def test_requests(size: int, chunk: int, requests: int) -> None:
    assert roofline.gets(size, chunk) == requests


def test_one_nat_gateway_is_shared_and_costs() -> None:
    found = fleet(67e9, 10, instance("p5.48xlarge"), Path.NAT)
    assert found.bound == "nat"
    assert found.seconds == pytest.approx(670e9 * 8 / 100e9)
    assert found.seconds_at_start == pytest.approx(670e9 * 8 / 5e9)
    assert found.usd == pytest.approx(670 * 0.045)
    assert fleet(67e9, 10, instance("p5.48xlarge"), Path.NAT, nats=2).seconds == pytest.approx(found.seconds / 2)


def test_a_gateway_endpoint_is_neither() -> None:
    found = fleet(67e9, 2, instance("g6.xlarge"), Path.GATEWAY)
    assert (found.bound, found.usd) == ("primary-network", 0.0)
    assert found.seconds == pytest.approx(67e9 * 8 / 2.5e9)


def test_ten_pods_of_140_gb_are_at_the_line_of_one_prefix() -> None:
    found = fleet(140e9, 10, 100e9, Path.GATEWAY)
    assert found.bound == "s3-request-rate"
    assert found.seconds == pytest.approx(30.3, abs=0.1)
    assert fleet(140e9, 10, 100e9, Path.GATEWAY, prefixes=10).bound == "streamer"
    assert fleet(140e9, 10, 50e9, Path.GATEWAY, prefixes=10).bound == "primary-network"


@given(st.floats(1, 1e15), st.integers(1, 5000), st.sampled_from(Path))
def test_no_node_is_faster_than_any_was_seen_to_be(size: float, nodes: int, path: Path) -> None:
    """Also where the network card is not known."""
    assert fleet(size, nodes, math.inf, path).seconds >= size / 8.12e9


def test_every_limit_has_words() -> None:
    several = [fleet(1e9, 2, 1e9, path).limits for path in Path]
    alone = single(1e9, **{**ALONE, "pcie_bytes_per_second": 1e9})
    assert {name for limits in (*several, alone.limits) for name in limits} == set(SAID)


def test_an_interface_endpoint_starts_slow_in_each_zone() -> None:
    found = fleet(100e9, 20, 100e9, Path.INTERFACE, zones=2, prefixes=100)
    assert found.bound == "endpoint"
    assert found.seconds == pytest.approx(2000e9 * 8 / 200e9)
    assert found.seconds_at_start == pytest.approx(10 * found.seconds)
    assert found.usd == pytest.approx(20.0)


@pytest.mark.parametrize(("name", "bps"), [("p5.48xlarge", 50e9), ("g6.xlarge", 2.5e9), ("p5.4xlarge", 5e9)])
def test_over_the_internet_large_machines_have_half_and_small_ones_five(name: str, bps: float) -> None:
    found = fleet(10e9, 1, instance(name), Path.INTERNET)
    assert found.seconds == pytest.approx(10e9 * 8 / bps)


def test_connections_that_nat_cannot_hold() -> None:
    assert fleet(1e9, 100, 100e9, Path.NAT, connections_per_node=1000).connections_over == 45_000
    assert fleet(1e9, 100, 100e9, Path.NAT, nats=2, connections_per_node=1000).connections_over == 0
    assert fleet(1e9, 100, 100e9, Path.GATEWAY, connections_per_node=1000).connections_over == 0


BYTES = st.floats(1, 1e15)
COUNT = st.integers(1, 5000)
PATHS = st.sampled_from(Path)
CARD = st.floats(1e6, 1e13)


@given(BYTES, COUNT, COUNT, CARD, PATHS)
def test_more_nodes_are_never_faster_and_never_cheaper(
    size: float, few: int, more: int, card: float, path: Path
) -> None:
    one, other = fleet(size, few, card, path), fleet(size, few + more, card, path)
    assert one.seconds <= other.seconds
    assert one.usd <= other.usd


@given(BYTES, COUNT, CARD, CARD, PATHS)
def test_a_faster_card_is_never_slower(size: float, nodes: int, card: float, more: float, path: Path) -> None:
    assert fleet(size, nodes, card + more, path).seconds <= fleet(size, nodes, card, path).seconds


@given(BYTES, COUNT, CARD, PATHS, st.integers(1, 8))
def test_more_gateways_are_never_slower(size: float, nodes: int, card: float, path: Path, nats: int) -> None:
    assert fleet(size, nodes, card, path, nats).seconds <= fleet(size, nodes, card, path).seconds


@given(BYTES, COUNT, CARD, PATHS)
def test_the_bound_is_the_slowest_limit_and_none_is_beaten(size: float, nodes: int, card: float, path: Path) -> None:
    found = fleet(size, nodes, card, path)
    assert found.seconds == found.limits[found.bound] == max(found.limits.values())
    assert found.seconds_at_start >= found.seconds


@given(st.integers(0, 10**15), st.integers(5 * MIB, 2**40), st.integers(0, 2**40))
def test_a_larger_chunk_never_needs_more_requests(size: int, chunk: int, more: int) -> None:
    assert roofline.gets(size, chunk + more) <= roofline.gets(size, chunk)


@given(st.integers(0, 10**14), st.integers(1, 64), st.booleans(), st.integers(1, 10_000), CARD)
def test_sharing_the_reading_is_never_slower(size: int, ranks: int, pcie: bool, connections: int, card: float) -> None:
    given_ = {
        "ranks": ranks,
        "chunk_bytes": 4 * GIB,
        "connections": connections,
        "network_bps": card,
        "pcie_bytes_per_second": 1e10 if pcie else None,
    }
    together, apart = single(size, distributed=True, **given_), single(size, distributed=False, **given_)
    assert together.seconds <= apart.seconds
    assert math.isfinite(apart.seconds)


@given(st.floats(0.1, 5000), st.integers(1, 200), st.integers(1, 200))
def test_a_plan_for_more_nodes_is_never_faster(gb: float, few: int, more: int) -> None:
    one, other = plan(gb, nodes=few).estimate, plan(gb, nodes=few + more).estimate
    assert one.load_seconds_fleet_nat <= other.load_seconds_fleet_nat
    assert one.load_seconds_fleet_endpoint <= other.load_seconds_fleet_endpoint
    assert one.load_seconds_single == other.load_seconds_single <= one.load_seconds_fleet_endpoint


def test_s3_traffic_has_one_network_card() -> None:
    found = plan(67).estimate
    assert found.network_gbps == 100
    assert found.load_seconds_single >= 5.36
