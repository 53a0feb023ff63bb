"""catalog/allocatable.py: what pods may ask for is what both kubelet and Karpenter would give."""

from __future__ import annotations

import dataclasses

import pytest

from glowplug.catalog.allocatable import allocatable, for_workloads, pods
from glowplug.catalog.instances import Instance, instance, instances
from glowplug.core.tables import table

MIB = 1 << 20


@pytest.mark.parametrize(
    ("name", "most_pods", "memory_mib", "cpu_millis"),
    [
        # 16384 without 7.5 % (1229), 255 + 11 × 110, 100; by its addresses alone, 58 pods, it were 14162.
        ("g6.xlarge", 110, 16384 - 1229 - 255 - 11 * 110 - 100, 4000 - 60 - 10 - 10),
        ("g5.12xlarge", 737, 196608 - 14746 - 255 - 11 * 737 - 100, 48000 - 60 - 10 - 10 - 110),
        ("p5.48xlarge", 250, 2097152 - 157287 - 255 - 11 * 250 - 100, 192000 - 60 - 10 - 10 - 470),
        ("g5g.xlarge", 110, 8192 - 615 - 64 - 255 - 11 * 110 - 100, 4000 - 60 - 10 - 10),
    ],
)
def test_a_node_keeps_what_its_sources_say(name: str, most_pods: int, memory_mib: int, cpu_millis: int) -> None:
    one = instance(name)
    found = allocatable(one)
    assert (pods(one), found.memory_bytes // MIB, found.cpu_millis) == (most_pods, memory_mib, cpu_millis)


@pytest.mark.parametrize("one", instances(), ids=lambda one: one.name)
def test_workloads_have_less_than_the_node_and_something_at_all(one: Instance) -> None:
    node, left = allocatable(one), for_workloads(one)
    assert 0 < left.memory_bytes < node.memory_bytes < one.memory_bytes
    assert 0 < left.cpu_millis < node.cpu_millis < one.vcpus * 1000
    assert left.disk_bytes == node.disk_bytes < max(1, one.nvme_bytes)


def test_a_type_that_the_table_of_pods_lacks_has_what_eks_recommends() -> None:
    unknown = {cpus: dataclasses.replace(instance("g6.xlarge"), name="x9.new", vcpus=cpus) for cpus in (29, 30)}
    assert {cpus: pods(one) for cpus, one in unknown.items()} == {29: 110, 30: 250}


def test_the_table_of_pods_has_every_type_and_no_other() -> None:
    assert {row["name"] for row in table("glowplug.catalog", "max_pods")} == {one.name for one in instances()}
