"""Numbers inside the sentences of checks: counts, dollars, Gbit/s; subnets with name and zone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glowplug.aws.network import Subnet


def label(subnet: Subnet) -> str:
    """Id, name and zone."""
    return f"{subnet.id} ({', '.join(part for part in (subnet.name, subnet.zone) if part)})"


def usd(value: float | None) -> str:
    """US dollars; prices per GB with all their digits."""
    return f"${value or 0:.2f}" if (value or 0) >= 0.1 or not value else f"${value:.3g}"


def gbps(bits: float) -> str:
    """Gbit/s of bit/s, without the unit."""
    return f"{bits / 1e9:g}"


def count(number: int, noun: str) -> str:
    """`1 subnet`, `2 subnets`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
