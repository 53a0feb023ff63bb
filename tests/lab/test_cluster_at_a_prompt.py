"""What a person at a prompt does with the cluster: an image of one's own gets onto its nodes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cluster import images, inside, leftovers, spaces
from tests.parts import requires

_OWN = os.environ | {leftovers.WHOSE: f"prompt-{os.getpid()}"}


def _command(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "lab.cluster", *words]
    return subprocess.run(argv, cwd=spaces.CHECKOUT, env=_OWN, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture
def exports() -> Iterator[str]:
    started = _command("up", "2")
    assert started.returncode == 0, started.stderr
    yield started.stdout
    ended = _command("down")
    assert "ended glowplug-cluster-" in ended.stderr


@requires("cluster")
@pytest.mark.slow
def test_an_image_is_loaded_onto_every_node(exports: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "marked").write_text("here")
    archive = tmp_path / "own.tar"
    images.pack(archive, "example.com/own:1", root)
    loaded = _command("load", str(archive))
    assert (loaded.returncode, loaded.stdout) == (0, "example.com/own:1\n"), loaded.stderr
    assert [name for name in ("node-1", "node-2") if name in loaded.stderr] == ["node-1", "node-2"]
    base = next(one.base for one in leftovers.found() if one.name in exports)
    nodes = inside.running(base)
    assert list(nodes) == ["node-1", "node-2"]
    for group in nodes.values():
        assert "example.com/own:1" in inside.run(group, ["ctr", "--namespace", "k8s.io", "images", "ls", "-q"]).stdout
    again = _command("load", str(archive))
    assert again.returncode == 0, "a second time does no harm"


def test_without_a_cluster_it_says_how_to_have_one(tmp_path: Path) -> None:
    done = _command("load", str(tmp_path / "none.tar"))
    assert done.returncode == 1
    assert "make cluster-up" in done.stderr
