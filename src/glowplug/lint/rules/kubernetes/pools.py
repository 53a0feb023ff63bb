"""NodePools whose nodes have GPUs, by whatever says so: what taints, mixed machines and the agent are asked about."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from glowplug.catalog.gpus import gpus
from glowplug.lint.gpu_pools import families, is_for_gpus, types
from glowplug.lint.rules.kubernetes import parallel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from glowplug.lint.rules.kubernetes.selection import Term
    from glowplug.lint.view import Manifests, Node
    from glowplug.manifests.values import Value


@functools.lru_cache(maxsize=1)
def with_gpus(manifests: Manifests) -> tuple[Node, ...]:
    """Those that plainly are for GPUs: by their machines, their requirements, their taint, or a pod that goes there for one.

    Remembered, since it is asked for each workload and looks at all of them.
    """
    wanted = {
        node.pool.name
        for workload in manifests.workloads
        if workload.nodes and parallel.asked(workload.container)
        for node in workload.nodes
    }
    return tuple(node for node in manifests.nodes if node.pool.name in wanted or is_for_gpus(node))


def is_complete(terms: Iterable[Term]) -> bool:
    """Whether these name types, families or cards that the catalogue all has, so that no other machine is possible."""
    return any(
        term.only
        and term.operator == "In"
        and bool(term.values)
        and (known := _LISTED.get(term.key.rpartition("/")[2])) is not None
        and known().issuperset(term.texts)
        for term in terms
    )


@functools.cache
def _cards() -> frozenset[str]:
    return frozenset(card.ec2_name for card in gpus() if card.ec2_name)


_LISTED: Final[dict[str, Callable[[], frozenset[str]]]] = {
    "instance-type": types,
    "instance-family": families,
    "instance-gpu-name": _cards,
}


def name(node: Node) -> Value:
    """Where the pool's name stands."""
    return node.pool.value.get("metadata", "name") or node.pool.value
