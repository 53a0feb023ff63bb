"""What of a node its pods may ask for: its memory and its CPUs without what the virtual machine, kubelet and daemon sets keep.

A request that is a little too large never runs, and nothing says why but an event: Karpenter does not even buy the node. So
what is assumed is the less favourable of what occurs: Karpenter's share for the virtual machine, and as many pods as the type's
addresses or EKS' recommendation allow, since kubelet reserves memory for each. Data: data/limits.csv (`node.…`), data/max_pods.csv.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.catalog.gpus import MIB
from glowplug.catalog.limits import fact
from glowplug.core.tables import table

if TYPE_CHECKING:
    from glowplug.catalog.instances import Instance

_MILLI: Final = 1000
_ARM: Final = "arm64"


@dataclass(frozen=True)
class Allocatable:
    """Memory in bytes, CPU in thousandths, ephemeral storage in bytes (of the instance store; 0 without one)."""

    memory_bytes: int
    cpu_millis: int
    disk_bytes: int


def pods(one: Instance) -> int:
    """The most pods that a node of this type is taken to be set up for."""
    small, large = fact("node.pods_small"), fact("node.pods_large")
    recommended = large if one.vcpus >= fact("node.pods_large_cpus").value else small
    return max(int(recommended.value), _by_addresses().get(one.name, 0))


def allocatable(one: Instance) -> Allocatable:
    """What kubelet reports, and Karpenter expects, for pods of every kind."""
    overhead = math.ceil(one.memory_bytes * fact("node.vm_overhead_share").value / MIB) * MIB
    arm = fact("node.arm_reserved_bytes").value if one.arch == _ARM else 0
    reserved = fact("node.kube_reserved_bytes").value + fact("node.kube_reserved_bytes_per_pod").value * pods(one)
    memory = one.memory_bytes - overhead - arm - reserved - fact("node.eviction_bytes").value
    disk = one.nvme_bytes * (1 - fact("node.ephemeral_eviction_share").value)
    return Allocatable(
        memory_bytes=int(memory),
        cpu_millis=one.vcpus * _MILLI - _reserved_millis(one.vcpus),
        disk_bytes=max(0, int(disk - fact("node.ephemeral_reserved_bytes").value)),
    )


def for_workloads(one: Instance) -> Allocatable:
    """The same after the daemon sets of the node."""
    found = allocatable(one)
    return Allocatable(
        memory_bytes=found.memory_bytes - int(fact("node.daemonsets_bytes").value),
        cpu_millis=found.cpu_millis - int(fact("node.daemonsets_cpus").value * _MILLI),
        disk_bytes=found.disk_bytes,
    )


def _reserved_millis(cpus: int) -> int:
    """Of CPU, by rank of the CPU. Rounded up at each step, as neither source does: a thousandth less is nothing."""
    steps = (
        (1, "node.first_cpu_reserved_share"),
        (1, "node.second_cpu_reserved_share"),
        (2, "node.next_cpus_reserved_share"),
        (max(0, cpus - 4), "node.more_cpus_reserved_share"),
    )
    return sum(math.ceil(count * _MILLI * fact(name).value) for count, name in steps)


@functools.cache
def _by_addresses() -> dict[str, int]:
    return {row["name"]: int(row["pods"]) for row in table("glowplug.catalog", "max_pods")}
