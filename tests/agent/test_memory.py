"""Memory of an agent that fetches large keys side by side: bounded by what is read at once, whatever the blobs' size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from glowplug.agent.reading import STREAMS
from glowplug.cache import layout
from glowplug.cache.publish import publish
from glowplug.core.clock import Deadline
from tests.agent import fetching
from tests.agent.hearing import DOMAIN
from tests.cache import making
from tests.parts import requires
from tests.store.conftest import Place, s3_place, s3_server

__all__ = ["s3_place", "s3_server"]

BLOB = 120_000_000
A_STREAM = 150
"""Megabytes that a blob may take while it is read: five ranges of 8 MiB, each twice for a moment; a window; what malloc keeps."""


@pytest.fixture
def paths(s3_place: Place, tmp_path: Path) -> list[str]:
    """Manifests of keys that hold one and the same large entry, which is incompressible."""
    root = making.tree(tmp_path / "made", files=1)
    with (root / "vllm" / "e1" / "graph0").open("wb") as file:
        for _ in range(BLOB // 1_000_000):
            file.write(os.urandom(1_000_000))
    found = []
    for number in range(2 * STREAMS):
        key = making.key(model=f"m{number}")
        done = publish(s3_place.open(), key, {}, making.parts(root)[:1], deadline=Deadline.after(300))
        assert done.reason == ""
        found.append(layout.manifest_path(key))
    return found


@requires("s3")
@pytest.mark.slow
def test_it_grows_neither_with_the_blobs_nor_with_their_number(
    s3_place: Place, paths: list[str], tmp_path: Path
) -> None:
    command = [sys.executable, fetching.__file__, str(tmp_path / "root"), s3_place.url, DOMAIN, *paths]
    environ = {**os.environ, **s3_place.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    grown, came = json.loads(done.stdout)
    assert came == len(paths)
    assert grown < A_STREAM * STREAMS < 0.7 * BLOB * len(paths) / 1e6
