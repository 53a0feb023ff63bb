"""On-demand prices, as far as a source that can be cited says them. Prices change: each row has its region and date."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from glowplug.core.tables import table


@dataclass(frozen=True)
class Price:
    """US dollars for one hour of one instance (Linux, on demand) in a region, as of a date (YYYY-MM-DD or YYYY-MM)."""

    instance: str
    region: str
    usd_per_hour: float
    date: str
    source: str
    note: str


@functools.cache
def prices() -> tuple[Price, ...]:
    """All of them."""
    return tuple(
        Price(
            instance=row["instance"],
            region=row["region"],
            usd_per_hour=float(row["usd_per_hour"]),
            date=row["date"],
            source=row["source"],
            note=row["note"],
        )
        for row in table("glowplug.catalog", "prices")
    )


def price(instance: str) -> Price | None:
    """The price of an instance type, None where no source says it."""
    return next((one for one in prices() if one.instance == instance), None)
