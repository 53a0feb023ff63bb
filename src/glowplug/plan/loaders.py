"""What an engine's weight loader understands, by version. Data: data/loaders.csv and data/loader_keys.csv.

The table explains and gives defaults. A version that the catalogue does not have is treated like the one in `Loader.known`.
"""

from __future__ import annotations

import functools
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
class Key:
    """A key of `--model-loader-extra-config`. `type` is boolean, integer or text; `minimum` is None where there is none; `first` is
    the first version that knows it, "" where all do."""

    name: str
    type: str
    minimum: int | None
    first: str
    source: str


@dataclass(frozen=True)
class Loader:
    """The loader of one engine in one version, which behaves like `known` ("": like itself)."""

    engine: str
    version: str
    known: str = ""

    def behaviour(self, name: str) -> Behaviour:
        """What the table says of a behaviour in this version."""
        return _behaviour(self.engine, self.known or self.version, name)

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

    def keys(self, load_format: str) -> tuple[Key, ...]:
        """The keys that this version's loader of that format knows; () where the table has none."""
        return _keys(self.engine, self.known or self.version, load_format)

    def first_with(self, name: str, value: str) -> str:
        """The first version in which a behaviour has this value, "" for none."""
        rows = table(_PACKAGE, "loaders")
        found = (
            row["from_version"]
            for row in rows
            if (row["engine"], row["behaviour"], row["value"]) == (self.engine, name, value)
        )
        return next(found, "")


@functools.cache
def all_keys(engine: str, load_format: str) -> tuple[Key, ...]:
    """The keys that any version's loader of that format knows."""
    return tuple(
        Key(
            row["key"], row["type"], int(row["minimum"]) if row["minimum"] else None, row["from_version"], row["source"]
        )
        for row in table(_PACKAGE, "loader_keys")
        if row["engine"] == engine and row["load_format"] == load_format
    )


@functools.lru_cache(maxsize=1024)
def _behaviour(engine: str, version: str, name: str) -> Behaviour:
    for row in table(_PACKAGE, "loaders"):
        if row["engine"] == engine and row["behaviour"] == name and _holds(row, version):
            return Behaviour(row["value"], row["source"])
    return Behaviour()


@functools.lru_cache(maxsize=1024)
def _keys(engine: str, version: str, load_format: str) -> tuple[Key, ...]:
    return tuple(one for one in all_keys(engine, load_format) if _begun(one.first, version))


def _holds(row: Row, version: str) -> bool:
    return _begun(row["from_version"], version) and not (
        row["to_version"] and version_key(version) > version_key(row["to_version"])
    )


def _begun(first: str, version: str) -> bool:
    return not first or version_key(first) <= version_key(version)
