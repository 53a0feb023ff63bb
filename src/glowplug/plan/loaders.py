"""What an engine's weight loader understands, by version. Data: data/loaders.csv.

The table explains and gives defaults. A version that the catalogue does not have is treated like the one in `Loader.known`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from glowplug.catalog.releases import version_key
from glowplug.core.tables import Row, table

STREAMER: Final = "runai_streamer"
UNKNOWN: Final = "unknown"
PUBLISHED: Final = {"tensorrt-llm": "1.0.0"}
"""A version that the engine's own documentation deploys, for engines whose releases the catalogue does not list."""
_PACKAGE: Final = "glowplug.plan"


@dataclass(frozen=True)
class Behaviour:
    """A value and where it was read; both "" where the table has nothing."""

    value: str = ""
    source: str = ""


@dataclass(frozen=True)
class Loader:
    """The loader of one engine in one version, which behaves like `known` ("": like itself)."""

    engine: str
    version: str
    known: str = ""

    def behaviour(self, name: str) -> Behaviour:
        """What the table says of a behaviour in this version."""
        for row in table(_PACKAGE, "loaders"):
            if row["engine"] == self.engine and row["behaviour"] == name and _holds(row, self.known or self.version):
                return Behaviour(row["value"], row["source"])
        return Behaviour()

    @property
    def name(self) -> str:
        """Engine and version as people say them; the engine alone where no version is known."""
        return self.engine if self.version == UNKNOWN else f"{self.engine} {self.version}"

    @property
    def streams(self) -> bool:
        """Whether there is a Run:ai loader."""
        return self.behaviour("load_format").value == STREAMER

    @property
    def shares(self) -> bool:
        """Whether it knows `distributed`, by which the ranks share the reading."""
        return self.behaviour("distributed_key").value == "yes"

    def first_with(self, name: str, value: str) -> str:
        """The first version in which a behaviour has this value, "" for none."""
        rows = table(_PACKAGE, "loaders")
        found = (
            row["from_version"]
            for row in rows
            if (row["engine"], row["behaviour"], row["value"]) == (self.engine, name, value)
        )
        return next(found, "")


def _holds(row: Row, version: str) -> bool:
    wanted = version_key(version)
    begun = not row["from_version"] or version_key(row["from_version"]) <= wanted
    return begun and not (row["to_version"] and wanted > version_key(row["to_version"]))
