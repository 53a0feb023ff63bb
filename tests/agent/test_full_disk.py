"""A node's disk without a free byte: nothing raises, nothing is lost that was there, and with room again all goes its way."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from glowplug.agent.pods import Pod
from glowplug.cache import layout
from glowplug.core.clock import Deadline
from glowplug.core.documents.fingerprint import Key
from glowplug.store.contract import Store
from tests.agent.hearing import DOMAIN, Heard, entries, prewarm, put, settings
from tests.agent.outboxes import Node, pod, tree
from tests.cache import making
from tests.parts import requires

pytestmark = requires("root")


class Disk:
    """Four megabytes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self) -> None:
        with self._filler.open("ab", buffering=0) as file:
            for size in (65536, 512):
                while self._written(file, size):
                    pass

    @staticmethod
    def _written(file: object, size: int) -> bool:
        try:
            return bool(file.write(b"x" * size))  # type: ignore[attr-defined]
        except OSError:
            return False

    def make_room(self) -> None:
        self._filler.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    path = tmp_path / "disk"
    path.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(path)], capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def test_an_agent_that_begins_on_it_waits_for_room(disk: Disk, store: Store, key: Key, heard: Heard) -> None:
    one = prewarm(settings(disk.path / "glowplug"), heard, store)
    (disk.path / "glowplug").mkdir()
    disk.fill()
    assert not one.begin()
    assert heard.of("failed") == [("disk", "OSError")]
    assert one.unready()
    disk.make_room()
    assert one.begin() and one.round()
    assert entries(disk.path / "glowplug", key) == {"e1"}
    assert one.unready() == ""


def test_one_that_works_tells_each_write_and_goes_on(
    disk: Disk, store: Store, key: Key, trees: Path, heard: Heard
) -> None:
    root = disk.path / "glowplug"
    one = prewarm(settings(root), heard, store)
    assert one.begin() and one.round()
    other = put(store, trees, making.key(model="m2"))
    disk.fill()
    assert one.round()
    one.looking.arrived(Pod("u1", "default", "p", "a", DOMAIN, {}))
    one.looking.serve()
    one.wanting.suspect(DOMAIN, key.digest())
    assert one.wanting.serve()
    assert {what for what, _ in heard.of("failed")} == {"fetch", "disk"}
    assert (entries(root, key), entries(root, other), one.unready()) == ({"e1"}, None, "")
    disk.make_room()
    one.wanting.want(DOMAIN, other.digest(), layout.manifest_path(other))
    assert one.wanting.serve()
    assert entries(root, other) == {"e1"}


def test_what_pods_handed_over_waits(disk: Disk, tmp_path: Path) -> None:
    node = Node(disk.path, pod(), url=(tmp_path / "bucket").as_uri())
    node.hand_over(pod(), tree(tmp_path / "made"))
    disk.fill()
    assert node.round().publishes() == ["failed no_space"]
    assert len(node.archives(pod())) == 2
    disk.make_room()
    node.clock.shift += 60
    assert node.collector.round(Deadline.after(120, node.clock))
    assert node.heard.publishes()[1:] == ["published"]
    assert node.archives(pod()) == []
