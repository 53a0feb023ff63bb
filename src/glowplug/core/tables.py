"""CSV tables that ship with a package. Read through the loader, so that they are found inside a zip archive too."""

from __future__ import annotations

import csv
import functools
import pkgutil
from collections.abc import Mapping

Row = Mapping[str, str]


@functools.cache
def table(package: str, name: str) -> tuple[Row, ...]:
    """The rows of `data/<name>.csv` of a package. Lines that start with `#` say where the facts come from."""
    return tuple(csv.DictReader(line for line in _lines(package, name) if not line.startswith("#")))


@functools.cache
def source(package: str, name: str) -> str:
    """The comment lines at the head of a table, joined: where its facts come from."""
    return " ".join(line.lstrip("# ").strip() for line in _lines(package, name) if line.startswith("#"))


def _lines(package: str, name: str) -> list[str]:
    data = pkgutil.get_data(package, f"data/{name}.csv")
    if data is None:
        raise FileNotFoundError(f"{package}/data/{name}.csv")
    return data.decode("utf-8").splitlines()
