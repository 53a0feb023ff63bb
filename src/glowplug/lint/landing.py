"""On which nodes a pod may land: the NodePools that its selectors and tolerations allow, and the machines that this leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.catalog.gpus import meanings
from glowplug.catalog.instances import instances
from glowplug.lint import nodes
from glowplug.lint.nodes import Requirement
from glowplug.lint.pods import text_of
from glowplug.lint.view import Machine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from glowplug.lint.view import Container, Manifests, Node
    from glowplug.manifests.values import Value

GPU: Final = "nvidia.com/gpu"
_PRODUCT: Final = "nvidia.com/gpu.product"
_NODEGROUP: Final = ("eks.amazonaws.com/nodegroup", "alpha.eksctl.io/nodegroup-name")
_COMPUTE_TYPE: Final = "eks.amazonaws.com/compute-type"
_KEEPING_OUT: Final = ("NoSchedule", "NoExecute")
# Labels that every node has, whatever a pool says of it (Karpenter's well-known ones beside those of the machine).
_WELL_KNOWN: Final = frozenset(
    {
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "topology.k8s.aws/zone-id",
        "karpenter.sh/capacity-type",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        nodes.INSTANCE_TYPE,
        "failure-domain.beta.kubernetes.io/zone",
        "beta.kubernetes.io/instance-type",
    }
)


@dataclass(frozen=True)
class Landed:
    """Where one pod may land."""

    nodes: tuple[Node, ...]
    machines: tuple[Machine, ...]
    compute: str


@dataclass(frozen=True)
class _Pool:
    node: Node
    requirements: dict[str, list[Requirement]]
    taints: tuple[tuple[str, str, str], ...]


class Landing:
    """Answers for all pods of the input; what is asked of pools is read once."""

    def __init__(self, manifests: Manifests) -> None:
        self._compute = manifests.compute
        self._pools = [_pool(node) for node in manifests.nodes]

    def of(self, spec: Value, container: Container) -> Landed:
        """Where the pod of this spec may land. `container` is the engine, whose GPUs a machine must have."""
        alternatives = list(_alternatives(spec))
        gpus = container.quantity("limits", GPU) or container.quantity("requests", GPU) or 0
        found = [
            (pool, fitting)
            for pool in self._pools
            if _tolerated(pool, spec)
            for fitting in [_fitting(pool, alternatives)]
            if fitting is not None
        ]
        machines = _own_machines(alternatives) or _of_pools(found, gpus)
        if gpus:
            # A pool that can only buy machines without GPUs is none for this pod.
            found = [one for one in found if one[1] or not _without_gpus(one[0])]
        landed = tuple(pool.node for pool, _ in found)
        return Landed(landed, machines, self._compute or _compute(alternatives, landed))


def _pool(node: Node) -> _Pool:
    requirements: dict[str, list[Requirement]] = {}
    for one in nodes.pool_requirements(node.pool):
        requirements.setdefault(one.key, []).append(one)
    listed = node.pool.value.get("spec", "template", "spec", "taints")
    taints = tuple(
        (text_of(taint.get("key")), text_of(taint.get("value")), text_of(taint.get("effect")))
        for taint in (listed.elements() if listed is not None else ())
    )
    return _Pool(node, requirements, taints)


def _alternatives(spec: Value) -> Iterator[list[Requirement]]:
    """The pod's demands: the node selector, and one of the terms of its required node affinity."""
    selected: list[Requirement] = []
    selector = spec.get("nodeSelector")
    for key, value in selector.items() if selector is not None else ():
        selected.append(Requirement(key, "In", (value.text,), value))
    terms = spec.get("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    if terms is None or not terms.elements():
        yield selected
        return
    for term in terms.elements():
        listed = term.get("matchExpressions")
        found = [nodes.requirement(one) for one in listed.elements()] if listed is not None else []
        yield [*selected, *(one for one in found if one is not None)]


def tolerates(spec: Value, key: str, value: str, effect: str) -> bool:
    """Whether a pod tolerates a taint."""
    listed = spec.get("tolerations")
    return any(_tolerates(one, key, value, effect) for one in (listed.elements() if listed is not None else ()))


def _tolerates(one: Value, key: str, value: str, effect: str) -> bool:
    if not one.is_mapping:
        return False
    for_effect, for_key = text_of(one.get("effect")), text_of(one.get("key"))
    operator = text_of(one.get("operator")) or "Equal"
    if for_effect and for_effect != effect:
        return False
    if not for_key:
        return operator == "Exists"
    return for_key == key and (operator == "Exists" or text_of(one.get("value")) == value)


def _tolerated(pool: _Pool, spec: Value) -> bool:
    return all(
        tolerates(spec, key, value, effect) for key, value, effect in pool.taints if effect in _KEEPING_OUT and key
    )


def _fitting(pool: _Pool, alternatives: Sequence[Sequence[Requirement]]) -> tuple[Machine, ...] | None:
    """The pool's machines that one of the alternatives allows; None where the pool's labels allow none."""
    found: dict[int, Machine] = {}
    possible = False
    for demands in alternatives:
        if not all(_compatible(pool, one) for one in demands):
            continue
        asked = [one for one in demands if nodes.is_machine_label(one.key)]
        left = {one.name for one in nodes.matching(asked)} if asked else None
        machines = [one for one in pool.node.machines if left is None or (one.instance and one.instance.name in left)]
        if pool.node.machines and not machines:
            continue
        possible = True
        found.update({id(one): one for one in machines})
    return tuple(found.values()) if possible else None


def _compatible(pool: _Pool, demand: Requirement) -> bool:
    """Whether a node of the pool can have a value of the label that the pod will take (Karpenter: requirements.go)."""
    own = pool.requirements.get(demand.key)
    if own is None:
        if demand.key == "karpenter.sh/nodepool":
            return demand.allows(pool.node.pool.name)
        if demand.key == _COMPUTE_TYPE:
            return demand.allows("auto" if pool.node.auto_mode else None)
        if demand.key in _NODEGROUP:
            return demand.allows(None)
        if nodes.is_machine_label(demand.key):
            group = nodes.AUTO_MODE_GROUP if pool.node.auto_mode else nodes.KARPENTER_GROUP
            return demand.key.startswith((f"{group}/", "node.", "kubernetes.")) or demand.allows(None)
        return demand.key in _WELL_KNOWN or demand.allows(None)
    values = [value for one in own if one.operator == "In" for value in one.values]
    if values:
        return any(demand.allows(value) and all(one.allows(value) for one in own) for value in values)
    if any(one.operator == "DoesNotExist" for one in own):
        return demand.allows(None)
    if demand.operator == "In":
        return any(all(one.allows(value) for one in own) for value in demand.values)
    return demand.operator != "DoesNotExist"


def _without_gpus(pool: _Pool) -> bool:
    """Whether the pool names machines, and none of them can have a GPU: EC2's are of the families p and g."""
    named = [
        value
        for key, given in pool.requirements.items()
        if key == nodes.INSTANCE_TYPE or key.endswith(("/instance-family", "/instance-category"))
        for one in given
        if one.operator == "In"
        for value in one.values
    ]
    return bool(named) and not any(value.startswith(("p", "g")) for value in named)


def _of_pools(found: Sequence[tuple[_Pool, tuple[Machine, ...]]], gpus: int) -> tuple[Machine, ...]:
    """The machines of all pools; () as soon as one of them may buy anything."""
    if any(not machines and not _without_gpus(pool) for pool, machines in found):
        return ()
    every = [one for _, machines in found for one in machines]
    large = [one for one in every if one.instance is not None and one.instance.gpus >= gpus]
    return tuple(large or every)


def _own_machines(alternatives: Sequence[Sequence[Requirement]]) -> tuple[Machine, ...]:
    """What the pod itself says of its machine; () where one of its alternatives says nothing."""
    every: list[Machine] = []
    for demands in alternatives:
        found = _named(demands)
        if not found:
            return ()
        every += found
    return tuple(every)


def _named(demands: Sequence[Requirement]) -> list[Machine]:
    by_type = next((one for one in demands if one.key == nodes.INSTANCE_TYPE and one.operator == "In"), None)
    if by_type is not None:
        known = {one.name: one for one in instances()}
        found = [known.get(value.lower()) for value in by_type.values]
        return [Machine(one, one.gpu, by_type.at) for one in found if one] if all(found) else []
    asked = [one for one in demands if nodes.is_machine_label(one.key)]
    telling = [
        one for one in asked if one.operator == "In" and one.key.endswith(("/instance-family", "/instance-gpu-name"))
    ]
    if telling:
        return [Machine(one, one.gpu, telling[0].at) for one in nodes.matching(asked)]
    product = next((one for one in demands if one.key == _PRODUCT and one.operator == "In"), None)
    if product is None:
        return []
    return [Machine(None, card, product.at) for value in product.values for card in meanings(value)]


def _compute(alternatives: Sequence[Sequence[Requirement]], landed: Sequence[Node]) -> str:
    """How the pod's nodes are made: by what it selects, else by the pools that it may land on."""
    said = {_said(demands) for demands in alternatives}
    if said and said != {""}:
        return said.pop() if len(said) == 1 else ""
    kinds = {"auto-mode" if node.auto_mode else "karpenter" for node in landed}
    return kinds.pop() if len(kinds) == 1 else ""


def _said(demands: Sequence[Requirement]) -> str:
    keys = {one.key for one in demands if one.needs_label}
    values = {one.key: one.values for one in demands if one.operator == "In"}
    if keys.intersection(_NODEGROUP):
        return "nodegroup"
    if values.get(_COMPUTE_TYPE) == ("auto",) or any(
        key.startswith(f"{nodes.AUTO_MODE_GROUP}/instance-") for key in keys
    ):
        return "auto-mode"
    return "karpenter" if any(key.startswith(f"{nodes.KARPENTER_GROUP}/") for key in keys) else ""
