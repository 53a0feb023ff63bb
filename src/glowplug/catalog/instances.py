"""GPU instances of EC2 as a plan needs them. Data: data/instances.csv, whose head names the sources.

Two numbers are easily misread. `network_bps` is EC2's (and Karpenter's) label: the baseline summed over all network cards, of
which S3 traffic uses the first, `primary_network_bps`. And types up to 16 vCPUs, which EC2 sells as "up to", are listed with
their baseline: they may burst above it for some minutes after launch, best effort.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.catalog import prices
from glowplug.catalog.gpus import MIB, Gpu, gpu
from glowplug.catalog.spelling import did_you_mean, nearest, shown
from glowplug.core.errors import UsageError
from glowplug.core.tables import table

if TYPE_CHECKING:
    from glowplug.core.tables import Row

_GB: Final = 1000**3
_MBPS: Final = 1e6


@dataclass(frozen=True)
class Instance:
    """One instance type. Sizes in bytes, network and EBS in bit/s (baseline), PCIe in bytes/s from host to one GPU.

    `gpus` is EC2's count: 0 for the `fractional` types, which carry a part of a card. `gpu_memory_bytes` is what a plan may
    count on per GPU, or in that part. `network_how` says how the first card's share is known: `one card`, `stated` by EC2, or
    `divided` evenly by us. `burst_bps` is what that card may reach for a while, its baseline where it cannot burst; `ebs_bps` is
    the most, `ebs_baseline_bps` what lasts.
    """

    name: str
    family: str
    gpu: Gpu
    gpus: int
    gpu_memory_bytes: int
    vcpus: int
    memory_bytes: int
    nvme_bytes: int
    network_bps: float
    network_cards: int
    primary_network_bps: float
    burst_bps: float
    network_how: str
    ebs_bps: float
    ebs_baseline_bps: float
    pcie_bytes_per_second: float | None
    auto_mode: bool
    arch: str
    fractional: bool
    source: str
    date: str
    note: str

    @property
    def usd_per_hour(self) -> float | None:
        """On-demand price of data/prices.csv (us-east-1, dated there), None without a source."""
        price = prices.price(self.name)
        return price.usd_per_hour if price else None


@functools.cache
def instances() -> tuple[Instance, ...]:
    """All of them, family by family, small to large."""
    return tuple(_instance(row) for row in table("glowplug.catalog", "instances"))


@functools.cache
def without_instance_store() -> tuple[str, ...]:
    """Families of which at least one type has none."""
    return tuple(dict.fromkeys(one.family for one in instances() if not one.nvme_bytes))


def _instance(row: Row) -> Instance:
    card = gpu(row["gpu"])
    fractional = row["gpu_mib"] != ""
    return Instance(
        name=row["name"],
        family=row["name"].partition(".")[0],
        gpu=card,
        gpus=int(row["gpus"]),
        gpu_memory_bytes=int(row["gpu_mib"]) * MIB if fractional else card.memory_bytes,
        vcpus=int(row["vcpus"]),
        memory_bytes=int(row["memory_mib"]) * MIB,
        nvme_bytes=int(row["nvme_gb"]) * _GB,
        network_bps=int(row["network_mbps"]) * _MBPS,
        network_cards=int(row["cards"]),
        primary_network_bps=int(row["primary_mbps"]) * _MBPS,
        burst_bps=int(row["burst_mbps"]) * _MBPS,
        network_how=row["network_how"],
        ebs_bps=int(row["ebs_mbps"]) * _MBPS,
        ebs_baseline_bps=int(row["ebs_baseline_mbps"]) * _MBPS,
        pcie_bytes_per_second=float(row["pcie_gb_per_s"]) * _GB if row["pcie_gb_per_s"] else None,
        auto_mode=row["auto_mode"] == "1",
        arch=row["arch"],
        fractional=fractional,
        source=row["source"],
        date=row["date"],
        note=row["note"],
    )


def instance(name: str) -> Instance:
    """The instance type of that name, in any case. Raises UsageError `unknown-instance` with the names that are like it."""
    known = _by_name()
    spelled = name.strip().lower()
    if spelled in known:
        return known[spelled]
    family = [known_name for known_name in known if known_name.startswith(f"{spelled}.")]
    hint = did_you_mean(family or nearest(spelled, known))
    raise UsageError(f"no GPU instance type is called {shown(name)}", code="unknown-instance", hint=hint)


@functools.cache
def _by_name() -> dict[str, Instance]:
    return {one.name: one for one in instances()}
