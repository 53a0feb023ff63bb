"""What labels of nodes say of the GPU: as NVML names it, which is what keys hold.

`nvidia.com/gpu.product` is GPU feature discovery's, `instance-gpu-name` Karpenter's and EKS Auto Mode's, the instance type
everybody's. A node has them, a pod that wants such a node selects by them. Some mean several cards, and a card that the catalogue
does not have is guessed by the rule by which its label was made.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Optional

from glowplug.catalog.gpus import meanings
from glowplug.catalog.instances import instances

if TYPE_CHECKING:
    from collections.abc import Mapping

_PRODUCT: Final = re.compile(r"nvidia\.com/(?:gpu|mig-[\w.-]+)\.product", re.ASCII)
_MEMORY: Final = "nvidia.com/gpu.memory"
_EC2: Final = ("karpenter.k8s.aws/instance-gpu-", "eks.amazonaws.com/instance-gpu-")
_TYPE: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_SHARED: Final = re.compile(r"-SHARED\Z", re.IGNORECASE)
_MIG: Final = re.compile(r"(?P<card>.+)-MIG-(?P<part>\d+[cg].*)", re.IGNORECASE)
# GPU feature discovery writes a name's spaces as `-`; these have some of their own (A100-SXM4-40GB, A100-PCIE-40GB).
_DASHED: Final = re.compile(r"\b([APV]\d{2,3}) (SXM\d|PCIE)(?: (\d+GB))?")


def named(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Every name that NVML may give the GPU of a node with these labels, the likeliest first; () where none speaks of one."""
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
    return tuple(dict.fromkeys(name for name in found if name))


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


def _number(text: str) -> Optional[int]:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
