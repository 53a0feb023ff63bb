"""NodePools whose nodes have GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.lint.rules.kubernetes import parallel, selection, taints

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Manifests, Node
    from glowplug.manifests.values import Value

_GPU_LABEL: Final = "/instance-gpu-"


def with_gpus(manifests: Manifests) -> Iterator[Node]:
    """Those that plainly are for GPUs: by their machines, their requirements, their taint, or a pod that goes there for one."""
    wanted = {
        node.pool.name
        for workload in manifests.workloads
        if parallel.asked(workload.container)
        for node in workload.nodes
    }
    for node in manifests.nodes:
        if node.pool.name in wanted or _has_gpus(node):
            yield node


def _has_gpus(node: Node) -> bool:
    if node.machines and all(machine.gpu is not None for machine in node.machines):
        return True
    if any(
        _GPU_LABEL in term.key and term.operator in ("In", "Gt", "Gte", "Exists") for term in selection.of_pool(node)
    ):
        return True
    if any(taint.key == taints.GPU for taint in taints.of(node)):
        return True
    return node.pool.value.get("spec", "limits", taints.GPU) is not None


def name(node: Node) -> Value:
    """Where the pool's name stands."""
    return node.pool.value.get("metadata", "name") or node.pool.value
