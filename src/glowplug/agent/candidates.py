"""Which processors the pods of this node may compile for, by the names that keys have: NVML's, else the CPU's instruction sets.

An agent has no GPU of its own, and without one NVML answers nobody. The kernel driver's files say the cards by name wherever
they can be read; before the driver is there, and where it is hidden, the node's labels say them, and some labels mean several
cards. Too many candidates cost a listing each; one too few costs its pods their warm start.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from glowplug.catalog.gpus import meanings
from glowplug.catalog.instances import instances
from glowplug.fingerprint import hardware
from glowplug.host import cpu

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from glowplug.kube.contract import Object

_PRODUCT: Final = re.compile(r"nvidia\.com/(?:gpu|mig-[\w.-]+)\.product", re.ASCII)
_MEMORY: Final = "nvidia.com/gpu.memory"
_EC2: Final = ("karpenter.k8s.aws/instance-gpu-", "eks.amazonaws.com/instance-gpu-")
_TYPE: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_DEVICES: Final = re.compile(
    r"(?:nvidia\.com/(?:gpu|mig-).*|amd\.com/gpu|gpu\.intel\.com/.*|aws\.amazon\.com/neuron.*)"
)
_SHARED: Final = re.compile(r"-SHARED\Z", re.IGNORECASE)
_MIG: Final = re.compile(r"(?P<card>.+)-MIG-(?P<part>\d+[cg].*)", re.IGNORECASE)
# GPU feature discovery writes a name's spaces as `-`; these have some of their own (A100-SXM4-40GB, A100-PCIE-40GB).
_DASHED: Final = re.compile(r"\b([APV]\d{2,3}) (SXM\d|PCIE)(?: (\d+GB))?")


def on_this_node() -> tuple[str, ...]:
    """The names of the cards that the kernel's driver has found, () without a driver or without its files."""
    return tuple(dict.fromkeys(card.name for card in hardware.from_proc(hardware.PROC) if card.name))


def gpus(
    node: Object,
    *,
    seen: Callable[[], Sequence[str]] = on_this_node,
    processor: Callable[[], str] = cpu.here,
) -> tuple[str, ...]:
    """Every `gpu` that a key of this node's pods can have, the likeliest first.

    () for a node with devices that nothing names. `seen` and `processor` are what this machine says of itself.
    """
    labels = _texts(node, "metadata", "labels")
    named = list(_named(labels))
    cards = list(seen())
    if cards:
        named = [*cards, *(name for name in named if name.startswith(tuple(f"{card} MIG " for card in cards)))]
    if named:
        return tuple(dict.fromkeys(named))
    return () if _has_devices(node) else (processor(),)


def _named(labels: Mapping[str, str]) -> list[str]:
    found: list[str] = []
    for label, value in sorted(labels.items()):
        if value and _PRODUCT.fullmatch(label):
            found += _of_product(value, labels)
    for prefix in () if found else _EC2:
        name, memory = labels.get(f"{prefix}name", ""), _number(labels.get(f"{prefix}memory", ""))
        # A fractional card's memory is that of no card: it is the card all the same.
        found += [card.nvml_name for card in (meanings(name, memory) or meanings(name))] if name else []
    if not found:
        kinds = {labels[label] for label in _TYPE if label in labels}
        found = [one.gpu.nvml_name for one in instances() if one.name in kinds]
    return [name for name in found if name]


def _of_product(value: str, labels: Mapping[str, str]) -> list[str]:
    """NVML's names for a value of `nvidia.com/gpu.product`."""
    bare = _SHARED.sub("", value)
    part = _MIG.fullmatch(bare)
    whole, suffix = (part["card"], f" MIG {part['part'].replace('.me', '+me')}") if part else (bare, "")
    cards = meanings(whole, None if part else _number(labels.get(_MEMORY, ""))) or meanings(whole)
    names = [card.nvml_name for card in cards]
    # `a100` is what people and EC2 write, no name of a driver's.
    if whole not in [_label(name) for name in names] and not (names and whole.islower()):
        names.append(_guessed(whole))
    return [name + suffix for name in names]


def _label(name: str) -> str:
    """What GPU feature discovery makes of a name (NVIDIA/k8s-device-plugin, internal/lm/resource.go)."""
    return re.sub(r"\s+", "-", name)


def _guessed(label: str) -> str:
    """The name behind a label of a card, or of a driver's spelling, that the catalogue does not have."""
    return _DASHED.sub(lambda found: "-".join(filter(None, found.groups())), label.replace("-", " "))


def _has_devices(node: Object) -> bool:
    return any(
        _DEVICES.fullmatch(name) and amount != "0" for name, amount in _texts(node, "status", "capacity").items()
    )


def _texts(node: Object, *names: str) -> Mapping[str, str]:
    value: Any = node
    for name in names:
        value = value.get(name) if hasattr(value, "get") else None
    if not hasattr(value, "items"):
        return {}
    return {str(name): str(text) for name, text in value.items()}


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
