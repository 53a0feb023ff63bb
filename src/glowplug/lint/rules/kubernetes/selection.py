"""What a pod requires of the labels of its node: nodeSelector and the required terms of node affinity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Node
    from glowplug.manifests.values import Value


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
    """Whether nothing that is written keeps a pod of this spec off the pool's nodes, taints aside."""
    labels = node.pool.value.get("spec", "template", "metadata", "labels")
    known: dict[str, tuple[str, ...]] = {}
    known |= {key: (value.text,) for key, value in labels.items()} if labels is not None else {}
    known |= {term.key: term.texts for term in of_pool(node) if term.operator == "In"}
    known["karpenter.sh/nodepool"] = (node.pool.name,)
    return not any(
        term.only and term.operator == "In" and term.key in known and not set(term.texts) & set(known[term.key])
        for term in required(pod)
    )
