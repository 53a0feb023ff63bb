"""NodePools with their classes: what they demand of a node, and which machines that leaves.

An instance type of the catalogue has labels, those that Karpenter and EKS Auto Mode compute from EC2's description; a pool's
requirements are asked of them. Types without a GPU are not in the catalogue: a pool that leaves none of it has none.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.catalog.gpus import MIB
from glowplug.catalog.instances import Instance, instances
from glowplug.lint.pods import text_of
from glowplug.lint.view import Machine, Manifests, Node, Object

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from glowplug.manifests.values import Value

AUTO_MODE_GROUP: Final = "eks.amazonaws.com"
KARPENTER_GROUP: Final = "karpenter.k8s.aws"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
# Both say the same of a machine; each kind of node has one of them.
_PREFIXES: Final = (f"{KARPENTER_GROUP}/", f"{AUTO_MODE_GROUP}/")
_GB: Final = 1000**3
_MBPS: Final = 1_000_000


@dataclass(frozen=True)
class Requirement:
    """One line of a pool's requirements or of a pod's affinity. `at` is where it stands."""

    key: str
    operator: str
    values: tuple[str, ...]
    at: Value

    def allows(self, label: str | None) -> bool:
        """Whether a node with this value of the label (None: without it) will do."""
        if self.operator == "In":
            return label in self.values
        if self.operator == "NotIn":
            return label is None or label not in self.values
        if self.operator == "Exists":
            return label is not None
        if self.operator == "DoesNotExist":
            return label is None
        if self.operator in _COMPARE:
            return label is not None and _compares(self.operator, label, self.values)
        return True

    @property
    def needs_label(self) -> bool:
        """Whether a node without the label will not do."""
        return not self.allows(None)


_COMPARE: Final = ("Gt", "Lt", "Gte", "Lte")


def _compares(operator: str, label: str, values: tuple[str, ...]) -> bool:
    if len(values) != 1 or not label.isdecimal() or not values[0].isdecimal() or len(values[0]) > 19:
        return False
    left, right = int(label), int(values[0])
    return {"Gt": left > right, "Lt": left < right, "Gte": left >= right, "Lte": left <= right}[operator]


def requirement(value: Value) -> Requirement | None:
    """A requirement as NodePools and node affinities write it; None for what is none."""
    key, operator = text_of(value.get("key")), text_of(value.get("operator"))
    if not key or not operator:
        return None
    listed = value.get("values")
    return Requirement(key, operator, tuple(one.text for one in listed.elements()) if listed is not None else (), value)


def read(manifests: Manifests) -> tuple[Node, ...]:
    """The NodePools of the input."""
    return tuple(_node(one, manifests) for one in manifests.of_kind("NodePool") if one.group == "karpenter.sh")


def _node(pool: Object, manifests: Manifests) -> Node:
    reference = pool.value.get("spec", "template", "spec", "nodeClassRef")
    group = text_of(reference.get("group")) if reference is not None else ""
    kind = text_of(reference.get("kind")) if reference is not None else ""
    name = text_of(reference.get("name")) if reference is not None else ""
    auto_mode = group == AUTO_MODE_GROUP or (not group and kind == "NodeClass")
    node_class = manifests.named(kind or ("NodeClass" if auto_mode else "EC2NodeClass"), name) if name else None
    found = list(pool_requirements(pool))
    return Node(pool, node_class, auto_mode, {one.key: one.at for one in found}, tuple(_machines(found, auto_mode)))


def pool_requirements(pool: Object) -> Iterator[Requirement]:
    """What a pool demands: its requirements, and the labels that it puts on its nodes."""
    listed = pool.value.get("spec", "template", "spec", "requirements")
    for value in listed.elements() if listed is not None else ():
        one = requirement(value)
        if one is not None:
            yield one
    labels = pool.value.get("spec", "template", "metadata", "labels")
    for key, value in labels.items() if labels is not None else ():
        yield Requirement(key, "In", (value.text,), value)


def _machines(found: list[Requirement], auto_mode: bool) -> Iterator[Machine]:
    """The types of the catalogue that a pool may buy, () where nothing narrows them."""
    telling = [one for one in found if is_machine_label(one.key)]
    narrowing = next((one for one in sorted(telling, key=_rank) if one.operator in ("In", "Gt", "Gte")), None)
    if narrowing is None:
        return
    for one in matching(telling):
        if not auto_mode or one.auto_mode:
            yield Machine(one, one.gpu, narrowing.at)


def _rank(one: Requirement) -> int:
    """What says most of a machine comes first."""
    order = (INSTANCE_TYPE, "instance-family", "instance-gpu-name", "instance-gpu-count", "instance-category")
    name = one.key if one.key == INSTANCE_TYPE else one.key.rpartition("/")[2]
    return order.index(name) if name in order else len(order)


def is_machine_label(key: str) -> bool:
    """Whether a label says what machine a node is."""
    return (
        key == INSTANCE_TYPE
        or key == "kubernetes.io/arch"
        or key.startswith((f"{_PREFIXES[0]}instance-", f"{_PREFIXES[1]}instance-"))
    )


def matching(requirements: Iterable[Requirement]) -> list[Instance]:
    """The types of the catalogue that all of these allow."""
    asked = [(_bare(one.key), one) for one in requirements if is_machine_label(one.key)]
    return [
        one
        for one in instances()
        if all(requirement.allows(_labels(one).get(key)) for key, requirement in asked if key in _KNOWN)
    ]


def _bare(key: str) -> str:
    return key.rpartition("/")[2] if key.startswith(_PREFIXES) else key


# The labels that the catalogue can compute; others (zone, hypervisor) leave every type in.
_KNOWN: Final = frozenset(
    {
        INSTANCE_TYPE,
        "kubernetes.io/arch",
        "instance-family",
        "instance-category",
        "instance-generation",
        "instance-size",
        "instance-cpu",
        "instance-memory",
        "instance-gpu-name",
        "instance-gpu-manufacturer",
        "instance-gpu-count",
        "instance-gpu-memory",
        "instance-local-nvme",
        "instance-network-bandwidth",
        "instance-ebs-bandwidth",
    }
)


@functools.cache
def _labels(one: Instance) -> Mapping[str, str]:
    """The labels of a type without their group; source: karpenter-provider-aws, pkg/apis/v1/labels.go."""
    family, _, size = one.name.partition(".")
    labels = {
        INSTANCE_TYPE: one.name,
        "kubernetes.io/arch": one.arch,
        "instance-family": family,
        "instance-category": _letters(family),
        "instance-generation": _digits(family),
        "instance-size": size,
        "instance-cpu": str(one.vcpus),
        "instance-memory": str(one.memory_bytes // MIB),
        "instance-gpu-name": one.gpu.ec2_name,
        "instance-gpu-manufacturer": "nvidia",
        "instance-gpu-count": str(one.gpus),
        "instance-gpu-memory": str(one.gpu.ec2_memory_bytes // MIB),
        "instance-network-bandwidth": str(int(one.network_bps) // _MBPS),
        "instance-ebs-bandwidth": str(int(one.ebs_bps) // _MBPS),
    }
    if one.nvme_bytes:
        labels["instance-local-nvme"] = str(one.nvme_bytes // _GB)
    return labels


def _letters(family: str) -> str:
    """`p` of p5en, `gr` of gr6: the letters before the generation."""
    return family[: next((at for at, letter in enumerate(family) if letter.isdigit()), len(family))]


def _digits(family: str) -> str:
    rest = family[len(_letters(family)) :]
    return rest[: next((at for at, letter in enumerate(rest) if not letter.isdigit()), len(rest))]
