"""Numbers that planning and checking rest on, each with unit, date and source. Data: data/limits.csv.

Names are dotted, `nat.bits_per_second_max`: the thing, then what of it in which unit. A number that only a secondary page
states says so in its note.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from glowplug.core.tables import table


@dataclass(frozen=True)
class Fact:
    """One number. `date` is when the source said it (YYYY, YYYY-MM or YYYY-MM-DD)."""

    name: str
    value: float
    unit: str
    date: str
    source: str
    note: str


@functools.cache
def of_table(package: str, name: str) -> tuple[Fact, ...]:
    """The facts of `data/<name>.csv` of a package, in the table's order."""
    return tuple(
        Fact(
            name=row["name"],
            value=float(row["value"]),
            unit=row["unit"],
            date=row["date"],
            source=row["source"],
            note=row["note"],
        )
        for row in table(package, name)
    )


def facts() -> tuple[Fact, ...]:
    """All of them."""
    return of_table("glowplug.catalog", "limits")


def fact(name: str) -> Fact:
    """The fact of that name. Raises KeyError for a name that the table lacks: a programming error."""
    return _by_name()[name]


@functools.cache
def _by_name() -> dict[str, Fact]:
    return {one.name: one for one in facts()}
