"""NodePools that are for GPUs and nothing else.

The catalogue has types with GPUs alone, so that a pool of any machine with more than three CPUs seems to buy them: what a pool is
for is said by a requirement that leaves no other machine, by its taint, or by its limits.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from glowplug.catalog.instances import instances
from glowplug.lint import nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from glowplug.lint.nodes import Requirement
    from glowplug.lint.view import Node

GPU: Final = "nvidia.com/gpu"
_GPU_LABEL: Final = "/instance-gpu-"
_PRESENT: Final = ("In", "Gt", "Gte", "Exists")


def is_for_gpus(node: Node) -> bool:
    """Whether the pool plainly buys machines with GPUs only, or keeps them for pods that want one."""
    if any(_leaves_gpus_only(one) for one in nodes.pool_requirements(node.pool)):
        return True
    template = node.pool.value.get("spec", "template", "spec")
    for name in ("taints", "startupTaints"):
        listed = template.get(name) if template is not None else None
        for taint in listed.elements() if listed is not None else ():
            key = taint.get("key")
            if key is not None and key.text == GPU:
                return True
    return node.pool.value.get("spec", "limits", GPU) is not None


def _leaves_gpus_only(one: Requirement) -> bool:
    if _GPU_LABEL in one.key:
        return one.operator in _PRESENT
    known = _MACHINES.get(one.key.rpartition("/")[2])
    return known is not None and one.operator == "In" and bool(one.values) and known().issuperset(one.values)


@functools.cache
def types() -> frozenset[str]:
    """Names of instance types with GPUs."""
    return frozenset(one.name for one in instances())


@functools.cache
def families() -> frozenset[str]:
    """Families of instance types with GPUs."""
    return frozenset(one.family for one in instances())


@functools.cache
def _categories() -> frozenset[str]:
    return frozenset({"g", "gr", "p"})


_MACHINES: Final[dict[str, Callable[[], frozenset[str]]]] = {
    "instance-type": types,
    "instance-family": families,
    "instance-category": _categories,
}
