"""Stores under test: a fresh, empty one of each back end, and the real S3 server behind a proxy that fails on purpose."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from glowplug.core.clock import Deadline
from glowplug.store.contract import Store
from glowplug.store.schemes import open_store
from lab import s3
from lab.faults import Proxy
from tests.parts import requires


@dataclass(frozen=True)
class Place:
    """An empty place for objects: everything that opens `url` with `environ` sees the same objects (not for memory)."""

    url: str
    environ: Mapping[str, str]

    def open(self) -> Store:
        return open_store(self.url, self.environ)


@pytest.fixture
def soon() -> Deadline:
    """A deadline for calls that ought to succeed."""
    return Deadline.after(120)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[s3.Server]:
    with s3.serve(["lab"]) as server:
        yield server


@pytest.fixture
def s3_place(s3_server: s3.Server) -> Place:
    return Place(f"s3://lab/{secrets.token_hex(8)}", s3_server.env())


@pytest.fixture
def proxy(s3_server: s3.Server) -> Iterator[Proxy]:
    with Proxy(s3_server) as one:
        yield one


@pytest.fixture(params=["memory", "file", pytest.param("s3", marks=requires("s3"))])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    match request.param:
        case "memory":
            return Place("memory://", {})
        case "file":
            return Place((tmp_path / "store").as_uri(), {})
        case _:
            found: Place = request.getfixturevalue("s3_place")
            return found


@pytest.fixture(params=["file", pytest.param("s3", marks=requires("s3"))])
def shared_place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A place that several processes can open."""
    if request.param == "file":
        return Place((tmp_path / "store").as_uri(), {})
    found: Place = request.getfixturevalue("s3_place")
    return found


@pytest.fixture
def store(place: Place) -> Store:
    return place.open()
