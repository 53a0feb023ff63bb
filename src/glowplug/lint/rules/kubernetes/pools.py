"""NodePools whose nodes have GPUs."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from glowplug.catalog.gpus import gpus
from glowplug.catalog.instances import instances
from glowplug.lint.rules.kubernetes import parallel, selection, taints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from glowplug.lint.rules.kubernetes.selection import Term
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
    terms = tuple(selection.of_pool(node))
    if any(_GPU_LABEL in term.key and term.operator in ("In", "Gt", "Gte", "Exists") for term in terms):
        return True
    if any(_names_gpus_only(term) for term in terms):
        return True
    if any(taint.key == taints.GPU for taint in taints.of(node)):
        return True
    return node.pool.value.get("spec", "limits", taints.GPU) is not None


def _names_gpus_only(term: Term) -> bool:
    """Whether a requirement leaves nothing but types with GPUs."""
    known = _MACHINES.get(term.key.rpartition("/")[2])
    return known is not None and term.operator == "In" and bool(term.values) and known().issuperset(term.texts)


@functools.cache
def _types() -> frozenset[str]:
    return frozenset(one.name for one in instances())


@functools.cache
def _families() -> frozenset[str]:
    return frozenset(one.family for one in instances())


def _categories() -> frozenset[str]:
    return frozenset({"g", "gr", "p"})


_MACHINES: Final[dict[str, Callable[[], frozenset[str]]]] = {
    "instance-type": _types,
    "instance-family": _families,
    "instance-category": _categories,
}


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
    "instance-type": _types,
    "instance-family": _families,
    "instance-gpu-name": _cards,
}


def name(node: Node) -> Value:
    """Where the pool's name stands."""
    return node.pool.value.get("metadata", "name") or node.pool.value
