"""Numbers that planning assumes, each with where it is from. Data: data/assumptions.csv.

They are apart from `catalog/limits` since they are no limits: what was seen to gain something, an engine's default, an estimate of
our own. A plan that depends on one says so in its reasons.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from glowplug.catalog.limits import of_table

if TYPE_CHECKING:
    from glowplug.catalog.limits import Fact


def assumed(name: str) -> Fact:
    """The assumption of that name. Raises KeyError for one that the table lacks: a programming error."""
    return _by_name()[name]


@functools.cache
def _by_name() -> dict[str, Fact]:
    return {one.name: one for one in of_table("glowplug.plan", "assumptions")}
