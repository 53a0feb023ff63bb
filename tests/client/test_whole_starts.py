"""Starts by what `make` builds, as pods make them: a cold one publishes to a real store, the next on a new node hits."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import s3
from tests.launch.pod import Pod
from tests.parts import requires

pytestmark = [pytest.mark.slow, requires("s3")]


@pytest.fixture
def pod(tmp_path: Path, packed: Path) -> Iterator[Pod]:
    """With the client, and a store in S3."""
    with s3.serve(buckets=["cache"]) as server:
        one = Pod(tmp_path, store="s3://cache/glowplug", launcher=(sys.executable, "-I", str(packed)))
        one.store_env = server.env()
        yield one
        one.close()


@pytest.fixture
def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_the_client_publishes_and_the_next_pod_hits(pod: Pod, free_port: int) -> None:
    cold = pod.serve(free_port)
    assert (cold.verdict, cold.publish) == ("miss", ("published", "")), cold
    assert cold.document["source"] == "exec"
    pod.move()
    warm = pod.serve(free_port)
    assert (warm.restore, warm.verdict) == (("restored", ""), "hit"), warm


def test_the_archive_observes_a_start_that_it_restores_nothing_for(pod: Pod, archive: Path, free_port: int) -> None:
    """It knows no store; the pod's log says so, and what came of the start."""
    pod.launcher = (sys.executable, "-I", str(archive))
    started = pod.serve(free_port)
    assert started.verdict == "miss", started
    assert "no_client" in started.out + started.err
