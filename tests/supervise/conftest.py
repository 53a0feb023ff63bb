"""A fresh machine for each test, without a store, with one in a directory, or with one on the real S3 server behind a proxy."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import s3
from lab.faults import Proxy
from tests.silence import Silent
from tests.supervise.machine import Machine


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Machine]:
    """A machine that knows of no store."""
    one = Machine(tmp_path)
    yield one
    one.close()


@pytest.fixture
def machine(bare: Machine) -> Machine:
    """A machine with a store in a directory."""
    bare.store = (bare.base / "store").as_uri()
    return bare


@pytest.fixture(scope="session")
def s3_server() -> Iterator[s3.Server]:
    with s3.serve(["lab"]) as server:
        yield server


@pytest.fixture
def proxy(s3_server: s3.Server) -> Iterator[Proxy]:
    with Proxy(s3_server) as one:
        yield one


@pytest.fixture
def remote(bare: Machine, proxy: Proxy) -> Machine:
    """A machine with a store on S3, reached through the proxy."""
    bare.store = f"s3://lab/{secrets.token_hex(8)}"
    bare.store_env = proxy.server.env()
    return bare


@pytest.fixture
def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def silence() -> Iterator[Silent]:
    with Silent() as one:
        yield one


@pytest.fixture
def silent(bare: Machine, silence: Silent) -> Machine:
    """A machine with a store that accepts and does not answer: `silence`."""
    bare.store = "s3://lab/silent"
    bare.store_env = s3.Server(silence.port).env()
    return bare
