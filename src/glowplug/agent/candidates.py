"""Which processors the pods of this node may compile for, by the names that keys have: NVML's, else the CPU's instruction sets.

An agent has no GPU of its own, and without one NVML answers nobody. The kernel driver's files say the cards by name wherever
they can be read; before the driver is there, and where it is hidden, the node's labels say them, and some labels mean several
cards. Too many candidates cost a listing each; one too few costs its pods their warm start.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from glowplug.catalog import labels
from glowplug.fingerprint import hardware
from glowplug.host import cpu

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from glowplug.kube.contract import Object

_DEVICES: Final = re.compile(
    r"(?:nvidia\.com/(?:gpu|mig-).*|amd\.com/gpu|gpu\.intel\.com/.*|aws\.amazon\.com/neuron.*)"
)


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
    named = labels.named(_texts(node, "metadata", "labels"))
    cards = tuple(seen())
    if cards:
        # A part of a card has a name that only a label tells.
        parts = tuple(f"{card} MIG " for card in cards)
        named = (*cards, *(name for name in named if name.startswith(parts)))
    if named:
        return tuple(dict.fromkeys(named))
    return () if _has_devices(node) else (processor(),)


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
