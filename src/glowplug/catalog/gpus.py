"""GPUs of EC2 under all the names they go by.

NVML and torch say `NVIDIA A100-SXM4-40GB`, GPU feature discovery makes the label `NVIDIA-A100-SXM4-40GB` of it (with `-SHARED`
when time-sliced, with `-MIG-1g.5gb` for a part), Karpenter and EKS Auto Mode say `a100`, which is two cards, and people say
"a100 40gb". A name that means two cards is refused, never guessed: one of them has half the memory. `meanings` is for those who
must serve every card that a label can mean. Data: data/gpus.csv.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Final

from glowplug.catalog.spelling import did_you_mean, folded, nearest, shown
from glowplug.core.errors import BadInputError, UsageError
from glowplug.core.tables import table

MIB: Final = 1024**2
# EC2 states what is usable, NVML what the driver manages, vendors round: the same card differs by up to 12 % (T4: 16384 and
# 15360), two cards of one name by 100 %.
_MEMORY_TOLERANCE: Final = 0.15
_SHARED: Final = re.compile(r"-shared\Z")
_PART: Final = re.compile(r"-mig-\d+[cg]-.*\Z")


@dataclass(frozen=True)
class Gpu:
    """One kind of card. Memory is of one GPU, in bytes; "" and None where no source says it."""

    name: str
    nvml_name: str
    label: str
    ec2_name: str
    capability: str
    ec2_memory_bytes: int
    nvml_memory_bytes: int | None
    families: tuple[str, ...]
    aliases: tuple[str, ...]
    source: str
    date: str
    note: str

    @property
    def memory_bytes(self) -> int:
        """Memory of one GPU that a plan may count on: the smaller of what EC2 states and what NVML reports."""
        return min(self.ec2_memory_bytes, self.nvml_memory_bytes or self.ec2_memory_bytes)

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every name that this card goes by, the catalogue's own first."""
        names = (self.name, self.nvml_name, self.label, self.ec2_name, *self.aliases)
        return tuple(dict.fromkeys(name for name in names if name))


@functools.cache
def gpus() -> tuple[Gpu, ...]:
    """All of them, in the table's order."""
    return tuple(
        Gpu(
            name=row["name"],
            nvml_name=row["nvml_name"],
            label=row["label"],
            ec2_name=row["ec2_name"],
            capability=row["capability"],
            ec2_memory_bytes=int(row["ec2_mib"]) * MIB,
            nvml_memory_bytes=int(row["nvml_mib"]) * MIB if row["nvml_mib"] else None,
            families=tuple(row["families"].split()),
            aliases=tuple(alias for alias in row["aliases"].split("; ") if alias),
            source=row["source"],
            date=row["date"],
            note=row["note"],
        )
        for row in table("glowplug.catalog", "gpus")
    )


def gpu(name: str) -> Gpu:
    """The card of any of its names, in any case and with any separators.

    Raises BadInputError: `ambiguous-gpu` for a name of several cards (`a100`), `partial-gpu` for a MIG part, which has neither
    the memory nor the speed of its card. Raises UsageError `unknown-gpu` with the names that are like it.
    """
    spelled = folded(name)
    if _PART.search(spelled):
        whole = " or ".join(card.name for card in meanings(name)) or "a card that the catalogue does not have"
        raise BadInputError(f"{shown(name)} is a MIG part of {whole}, not the whole card", code="partial-gpu")
    found = _cards(spelled)
    if not found:
        alike = [card.name for near in nearest(_bare(spelled), _by_spelling()) for card in _by_spelling()[near]]
        raise UsageError(f"no GPU is called {shown(name)}", code="unknown-gpu", hint=did_you_mean(alike))
    if len(found) > 1:
        names = " or ".join(card.name for card in found)
        raise BadInputError(
            f"{shown(name)} is the name of several cards: {names}", code="ambiguous-gpu", hint=f"write {names}"
        )
    return found[0]


def meanings(name: str, memory_mib: int | None = None) -> tuple[Gpu, ...]:
    """Every card that a name or node label can mean, () for an unknown one.

    `memory_mib` is what a label beside it says of one GPU's memory (EC2's number or NVML's, MiB): cards of other sizes are left
    out, all of them where none has that size (a fractional g6f). The label of a MIG part means the card it is a part of, whatever
    memory the part has, since kernels are compiled for the card.
    """
    spelled = folded(name)
    whole = _PART.sub("", spelled)
    found = _cards(whole)
    if memory_mib is None or whole != spelled:
        return found
    return tuple(card for card in found if _has(card, memory_mib * MIB))


def _has(card: Gpu, size: int) -> bool:
    stated = (card.ec2_memory_bytes, card.nvml_memory_bytes or card.ec2_memory_bytes)
    return any(abs(size - memory) <= _MEMORY_TOLERANCE * memory for memory in stated)


def _cards(spelled: str) -> tuple[Gpu, ...]:
    return _by_spelling().get(_bare(spelled), ())


def _bare(spelled: str) -> str:
    return _SHARED.sub("", spelled).removeprefix("nvidia-")


@functools.cache
def _by_spelling() -> dict[str, tuple[Gpu, ...]]:
    cards: dict[str, tuple[Gpu, ...]] = {}
    for card in gpus():
        for key in dict.fromkeys(_bare(folded(spelling)) for spelling in card.spellings):
            cards[key] = (*cards.get(key, ()), card)
    return cards
