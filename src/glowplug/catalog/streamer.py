"""Environment variables that the Run:ai Model Streamer reads, with what it does to a value. Data: data/streamer.csv."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final

from glowplug.catalog import spelling
from glowplug.catalog.releases import version_key
from glowplug.core.tables import table

# How much alike a name must be: nothing else begins with RUNAI_STREAMER_, but anybody may call a variable AWS_SECRET_NAME.
_PREFIXES: Final = {"RUNAI_STREAMER_": 0.6, "AWS_": 0.69, "AZURE_STORAGE_": 0.69}
_FIRST_WORDS: Final = ("RUNAI", "RUN", "AWS")
_ALIKE: Final = 0.6


@dataclass(frozen=True)
class Variable:
    """One variable.

    `type` is integer, float, boolean, enum, list, text, path or url; `values` are those of an enum. `default`, `minimum` and
    `maximum` hold for the newest version, numbers in `unit`; None where there is none. `since` is the first version with the
    variable, "" where no version is known to lack it; `until` the first one without it, "" while it lives, and `instead` the
    variable that took its place. `refuses` says what makes a load fail: `type` a text that is no such number or switch (measured
    with 0.17.1, read in the C++ before), `range` one out of bounds, `values` one that is not among them. `clamping` says in words
    what happens.
    """

    name: str
    type: str
    default: str
    unit: str
    since: str
    until: str
    instead: str
    minimum: float | None
    maximum: float | None
    values: tuple[str, ...]
    refuses: frozenset[str]
    clamping: str
    what: str
    source: str
    date: str

    @property
    def dead(self) -> bool:
        """Whether the newest version no longer reads it."""
        return self.until != ""

    @property
    def default_number(self) -> float | None:
        """The default as a number, None where it is none."""
        return _number(self.default) if self.type in ("integer", "float") else None

    def known_to(self, version: str) -> bool:
        """Whether that version of the streamer reads it."""
        wanted = version_key(version)
        begun = not self.since or version_key(self.since) <= wanted
        return begun and not (self.until and version_key(self.until) <= wanted)


@functools.cache
def variables() -> tuple[Variable, ...]:
    """All of them, dead ones too."""
    return tuple(
        Variable(
            name=row["name"],
            type=row["type"],
            default=row["default"],
            unit=row["unit"],
            since=row["since"],
            until=row["until"],
            instead=row["instead"],
            minimum=_number(row["minimum"]),
            maximum=_number(row["maximum"]),
            values=tuple(row["values"].split()),
            refuses=frozenset(row["refuses"].split()),
            clamping=row["clamping"],
            what=row["what"],
            source=row["source"],
            date=row["date"],
        )
        for row in table("glowplug.catalog", "streamer")
    )


def variable(name: str) -> Variable | None:
    """The variable of exactly that name, None where the streamer reads none (names are case-sensitive)."""
    return _by_name().get(name)


def nearest(name: str) -> str | None:
    """The living variable that a misspelt name most likely means; None for a name that is right, or like none of them.

    Names that others read (data/neighbours.csv) are right, except `AWS_ENDPOINT_URL_S3`, which the streamer does not read.
    Only what follows a common prefix is compared: `RUNAI_STREAMER_` alone is most of every name.
    """
    spelled = name.strip().upper().replace("-", "_")
    if name in _by_name() or name in _neighbours():
        return None
    for prefix, alike in _PREFIXES.items():
        if spelled.startswith(prefix):
            rests = [known[len(prefix) :] for known in _by_name() if known.startswith(prefix)]
            found = spelling.nearest(spelled[len(prefix) :], rests, 1, alike)
            return _living(prefix + found[0]) if found else None
    if not spelling.nearest(spelled.partition("_")[0], _FIRST_WORDS, 1, _ALIKE):
        return None
    found = spelling.nearest(spelled, _by_name(), 1, _ALIKE)
    return _living(found[0]) if found else None


def _living(name: str) -> str:
    return _by_name()[name].instead or name


@functools.cache
def _by_name() -> dict[str, Variable]:
    return {one.name: one for one in variables()}


@functools.cache
def _neighbours() -> frozenset[str]:
    return frozenset(row["name"] for row in table("glowplug.catalog", "neighbours"))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
