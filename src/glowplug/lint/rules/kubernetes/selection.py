"""What a pod requires of the labels of its node: nodeSelector and the required terms of node affinity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Node
    from glowplug.manifests.values import Value


_NODE_GROUPS: Final = ("eks.amazonaws.com/nodegroup", "alpha.eksctl.io/nodegroup-name")
# Groups of labels that every node of Karpenter or of EKS Auto Mode has.
_EVERYWHERE: Final = (
    "karpenter.sh",
    "karpenter.k8s.aws",
    "eks.amazonaws.com",
    "node.kubernetes.io",
    "kubernetes.io",
    "topology.kubernetes.io",
    "topology.k8s.aws",
)


@dataclass(frozen=True)
class Term:
    """One requirement. `values` are those written (of a nodeSelector the one); `only` says that no other term would do instead."""

    key: str
    operator: str
    values: tuple[Value, ...]
    only: bool = True

    @property
    def texts(self) -> tuple[str, ...]:
        """The values' texts."""
        return tuple(value.text for value in self.values)


def required(pod: Value) -> Iterator[Term]:
    """In the order in which they are written. Preferences are none."""
    selector = pod.get("nodeSelector")
    for key, value in selector.items() if selector is not None else ():
        yield Term(key, "In", (value,))
    wanted = pod.get("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    terms = wanted.elements() if wanted is not None else ()
    for term in terms:
        expressions = term.get("matchExpressions")
        for one in expressions.elements() if expressions is not None else ():
            yield from _expression(one, only=len(terms) == 1)


def of_pool(node: Node) -> Iterator[Term]:
    """Requirements of a NodePool's template."""
    found = node.pool.value.get("spec", "template", "spec", "requirements")
    for one in found.elements() if found is not None else ():
        yield from _expression(one, only=True)


def _expression(one: Value, *, only: bool) -> Iterator[Term]:
    key, operator, values = (one.get(name) for name in ("key", "operator", "values"))
    if key is not None and operator is not None:
        yield Term(key.text, operator.text, tuple(values.elements()) if values is not None else (), only)


def may_land(pod: Value, node: Node) -> bool:
    """Whether nothing that is written keeps a pod of this spec off the pool's nodes, taints aside.

    A label that neither side explains may be put on the node by somebody else.
    """
    known = _known(node)
    return not any(
        (term.key in known and not set(term.texts) & set(known[term.key])) or term.key in _NODE_GROUPS
        for term in required(pod)
        if term.only and term.operator == "In"
    )


def is_planned(pod: Value, node: Node) -> bool:
    """Whether Karpenter would buy a node of the pool for it, taints aside: it has to know every label that the pod asks for."""
    known = _known(node)
    return may_land(pod, node) and all(
        term.key in known or term.key.partition("/")[0] in _EVERYWHERE
        for term in required(pod)
        if term.only and term.operator in ("In", "Exists")
    )


def _known(node: Node) -> dict[str, tuple[str, ...]]:
    """The values of labels that the pool's nodes may have, as far as it says them; read once for each pool."""
    found = _SEEN.get(node)
    if found is None:
        found = _SEEN[node] = _read(node)
    return found


_SEEN: Final[WeakKeyDictionary[Node, dict[str, tuple[str, ...]]]] = WeakKeyDictionary()


def _read(node: Node) -> dict[str, tuple[str, ...]]:
    labels = node.pool.value.get("spec", "template", "metadata", "labels")
    known: dict[str, tuple[str, ...]] = {}
    known |= {key: (value.text,) for key, value in labels.items()} if labels is not None else {}
    known |= {term.key: term.texts for term in of_pool(node) if term.operator == "In"}
    known["karpenter.sh/nodepool"] = (node.pool.name,)
    return known
