"""A fresh pod for each test: without a store, with one in a directory, or with one that never answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import s3
from tests.launch.pod import Pod
from tests.silence import Silent


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Pod]:
    """A pod that knows of no store."""
    one = Pod(tmp_path)
    yield one
    one.close()


@pytest.fixture
def pod(bare: Pod) -> Pod:
    """A pod with a store in a directory."""
    bare.store = (bare.base / "store").as_uri()
    return bare


@pytest.fixture
def silence() -> Iterator[Silent]:
    with Silent() as one:
        yield one


@pytest.fixture
def silent(bare: Pod, silence: Silent) -> Pod:
    """A pod with a store that accepts and does not answer: `silence`."""
    bare.store = "s3://lab/silent"
    bare.store_env = s3.Server(silence.port).env()
    return bare


@pytest.fixture
def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
