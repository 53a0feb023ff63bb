"""How long a cold start may take before Kubernetes ends it, and what of a node one pod may ask for.

A startup probe that is too short kills every cold start and looks like a broken model; one that is too long only delays the news of
a really broken one. So the budget is generous: three halves of a pessimistic estimate, and never less than the AWS guide's probe.
Requests are the other way round: with a little too much a pod stays Pending, so they keep to `catalog/allocatable.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.catalog.allocatable import for_workloads
from glowplug.catalog.gpus import MIB
from glowplug.catalog.limits import fact

if TYPE_CHECKING:
    from glowplug.catalog.instances import Instance
    from glowplug.plan.outcome import Plan

GIB: Final = 1 << 30
_MARGIN: Final = 1.5
_SLOWER_THAN_BEST: Final = 2
_GUIDE_PERIOD: Final = 10
_MILLI: Final = 1000
_SHM_PER_RANK_GIB: Final = 2


def cold_seconds(plan: Plan) -> float:
    """A pessimistic cold start: the weights at half the speed of the slowest path planned for, the guide's longest compile, and
    the engine's own work."""
    return (
        _slowest(plan) * _SLOWER_THAN_BEST + fact("guide.compile_seconds_max").value + fact("plan.init_seconds").value
    )


def copy_seconds(plan: Plan) -> int:
    """What copying the model to the disk may take before the engine starts: the same bytes by the same path."""
    return math.ceil(_slowest(plan) * _SLOWER_THAN_BEST)


def startup_seconds(plan: Plan) -> int:
    """What a start that no probe watches is given."""
    return math.ceil(max(_MARGIN * cold_seconds(plan), fact("guide.startup_probe_seconds").value))


def undisturbed_seconds(plan: Plan) -> int:
    """For how long no startup probe may end the start. The guide's own, 30 s and 60 times 10 s, does at 620 s."""
    guide = fact("guide.startup_probe_seconds").value - _GUIDE_PERIOD
    return math.ceil(max(_MARGIN * cold_seconds(plan), guide))


def earliest_end(delay: int, period: int, failures: int) -> int:
    """Seconds of the container after which a probe may end it. kubelet asks first at some moment of the period that follows the
    delay, and then every period; so the last failure comes one period before `delay + period * failures`, at the earliest."""
    return delay + period * (failures - 1)


def failures(seconds: float, period: int, delay: int = 0) -> int:
    """How many failures end a start, so that none can before these seconds."""
    return max(1, math.ceil((seconds - delay) / period) + 1)


@dataclass(frozen=True)
class Memory:
    """Bytes that a pod asks for. `enough` is False where the node's share is less than the bound of what loading needs."""

    nbytes: int
    needed_bytes: int
    enough: bool

    @property
    def quantity(self) -> str:
        """As Kubernetes writes it."""
        return f"{self.nbytes // GIB}Gi" if self.nbytes % GIB == 0 else f"{self.nbytes // MIB}Mi"


def memory(plan: Plan, instance: Instance | None) -> Memory:
    """The bound of what loading needs in whole GiB, at most this pod's share of what the node has for workloads."""
    needed = plan.resources.host_memory_bytes
    asked = _up(needed, GIB)
    if instance is None:
        return Memory(asked, needed, enough=True)
    share = int(for_workloads(instance).memory_bytes * _share(plan, instance))
    if asked <= share:
        return Memory(asked, needed, enough=True)
    if _up(needed, MIB) <= share:
        return Memory(_up(needed, MIB), needed, enough=True)
    return Memory(max(share // GIB * GIB, GIB), needed, enough=False)


def cpus(plan: Plan, instance: Instance | None) -> int | None:
    """Whole CPUs: this pod's share of what the node has for workloads. None where the machine is not known."""
    if instance is None:
        return None
    return max(1, math.floor(for_workloads(instance).cpu_millis * _share(plan, instance) / _MILLI))


def _slowest(plan: Plan) -> float:
    """Seconds by the slowest path that was planned for."""
    estimate = plan.estimate
    loads = (estimate.load_seconds_single, estimate.load_seconds_fleet_nat, estimate.load_seconds_fleet_endpoint)
    known = [seconds for seconds in loads if seconds is not None]
    return max(known) if known else plan.model.weights_bytes * 8 / fact("nat.bits_per_second_min").value


def _up(nbytes: int, unit: int) -> int:
    return math.ceil(nbytes / unit) * unit


def guide_shortage(instance: Instance) -> str:
    """Which of the guide's requests that node cannot meet for one pod, "" where it meets them."""
    node = for_workloads(instance)
    found = []
    if fact("guide.cpus").value * _MILLI > node.cpu_millis:
        found.append(
            f"{fact('guide.cpus').value:.0f} CPUs where {instance.name} has {node.cpu_millis / _MILLI:g} to give"
        )
    if fact("guide.host_memory_bytes").value > node.memory_bytes:
        found.append(
            f"{fact('guide.host_memory_bytes').value / GIB:.0f}Gi of memory where it has {node.memory_bytes // GIB}Gi"
        )
    return " and ".join(found)


def shared_memory_gib(plan: Plan) -> int:
    """The roof over /dev/shm, through which the ranks of one pod talk; used pages count, not the roof."""
    return _SHM_PER_RANK_GIB * plan.placement.tensor_parallel_size


def _share(plan: Plan, instance: Instance) -> float:
    return min(1.0, plan.placement.tensor_parallel_size / max(1, instance.gpus))
