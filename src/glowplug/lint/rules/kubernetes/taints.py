"""Taints of a NodePool against the tolerations of a pod, as the scheduler compares them.

What is of no known shape counts as tolerated: a rule that says "it does not tolerate" has to be certain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from glowplug.manifests.edit import Insert, Put

if TYPE_CHECKING:
    from collections.abc import Iterable

    from glowplug.lint.view import Node
    from glowplug.manifests.edit import Operation
    from glowplug.manifests.values import Value

GPU: Final = "nvidia.com/gpu"
_TEMPLATE: Final = ("spec", "template", "spec")
_BLOCKING: Final = ("NoSchedule", "NoExecute")
# What the DaemonSet controller adds to its pods by itself.
_OF_DAEMON_SETS: Final = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unschedulable",
)


@dataclass(frozen=True)
class Taint:
    """One taint of a pool that keeps pods off. `startup` says that Karpenter takes it for one that goes away."""

    key: str
    value: str
    effect: str
    at: Value
    startup: bool

    @property
    def written(self) -> str:
        """As kubectl writes it: `key=value:Effect`."""
        value = f"={self.value}" if self.value else ""
        return f"{self.key}{value}:{self.effect}"


def of(node: Node) -> tuple[Taint, ...]:
    """Those of the pool's template, the lasting ones first; read once for each pool."""
    found = _SEEN.get(node)
    if found is None:
        found = _SEEN[node] = _of(node)
    return found


_SEEN: Final[WeakKeyDictionary[Node, tuple[Taint, ...]]] = WeakKeyDictionary()


def _of(node: Node) -> tuple[Taint, ...]:
    template = node.pool.value.get(*_TEMPLATE)
    if template is None:
        return ()
    return (*_read(template.get("taints"), startup=False), *_read(template.get("startupTaints"), startup=True))


def lasting(node: Node) -> tuple[Taint, ...]:
    """Those that a pod has to tolerate: Karpenter plans as if startup taints were gone."""
    return tuple(one for one in of(node) if not one.startup)


def _read(sequence: Value | None, *, startup: bool) -> Iterable[Taint]:
    for entry in sequence.elements() if sequence is not None else ():
        key, effect = _text(entry, "key"), _text(entry, "effect")
        if key and effect in _BLOCKING:
            yield Taint(key, _text(entry, "value"), effect, entry, startup)


def tolerated(taint: Taint, pod: Value) -> bool:
    """Whether the pod of this spec tolerates it."""
    tolerations = pod.get("tolerations")
    if tolerations is None or tolerations.data is None:
        return False
    if not tolerations.is_sequence:
        return True
    return any(_covers(entry, taint) for entry in tolerations.elements())


def tolerated_by_daemons(taint: Taint, pod: Value) -> bool:
    """The same for the pods of a DaemonSet, which get some tolerations without being asked."""
    return taint.key in _OF_DAEMON_SETS or tolerated(taint, pod)


def tolerates_key(pod: Value, key: str, effect: str = "NoSchedule") -> bool:
    """Whether it tolerates a taint of this key whose value is not known: with some value it does."""
    tolerations = pod.get("tolerations")
    if tolerations is None or tolerations.data is None:
        return False
    if not tolerations.is_sequence:
        return True
    return any(
        not entry.is_mapping or (_text(entry, "key") in ("", key) and _text(entry, "effect") in ("", effect))
        for entry in tolerations.elements()
    )


def _covers(toleration: Value, taint: Taint) -> bool:
    if not toleration.is_mapping:
        return True
    effect, key = _text(toleration, "effect"), _text(toleration, "key")
    if effect and effect != taint.effect:
        return False
    operator = _text(toleration, "operator") or "Equal"
    if operator == "Exists":
        return key in ("", taint.key)
    if operator != "Equal":
        return key == taint.key
    return key == taint.key and _text(toleration, "value") == taint.value


def _text(mapping: Value, name: str) -> str:
    found = mapping.get(name)
    return found.text if found is not None else ""


def toleration(taint: Taint) -> dict[str, Any]:
    """What tolerates it, whatever its value."""
    return {"key": taint.key, "operator": "Exists", "effect": taint.effect}


def add(pod: Value, *entries: dict[str, Any]) -> tuple[Operation, ...]:
    """The change that gives a pod's spec these tolerations too."""
    present = pod.get("tolerations")
    if present is None or present.data is None or not present.elements():
        return (Put(pod, "tolerations", list(entries), after=_before_tolerations(pod)),)
    return tuple(Insert(present, entry) for entry in entries)


def _before_tolerations(pod: Value) -> str:
    return next((name for name in ("nodeSelector", "serviceAccountName") if pod.get(name) is not None), "")
