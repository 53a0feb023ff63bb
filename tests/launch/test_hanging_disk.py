"""A disk that hangs, as an NVMe or a mount does whose other side is gone: whoever writes there waits, and no signal ends that."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.launch.pod import STAY, Pod
from tests.launch.test_process_1 import CONTAINER
from tests.parts import requires
from tests.supervise.machine import PROGRAM

pytestmark = requires("root")


@dataclass
class Disk:
    """A file system of its own."""

    point: Path
    frozen: bool = False

    def freeze(self) -> None:
        _run("fsfreeze", "-f", str(self.point))
        self.frozen = True

    def thaw(self) -> None:
        if self.frozen:
            _run("fsfreeze", "-u", str(self.point))
            self.frozen = False


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=60)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    for tool in ("mkfs.ext4", "mount", "umount", "fsfreeze"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not here")
    image, one = tmp_path / "image", Disk(tmp_path / "disk")
    image.touch()
    with image.open("r+b") as file:
        file.truncate(16 << 20)
    one.point.mkdir()
    try:
        _run("mkfs.ext4", "-q", str(image))
        _run("mount", "-o", "loop", str(image), str(one.point))
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no loop devices are to be had: {error.stderr.decode(errors='replace').strip()}")
    try:
        yield one
    finally:
        one.thaw()
        _run("umount", str(one.point))


@pytest.fixture
def pod(disk: Disk, bare: Pod) -> Iterator[Pod]:
    yield bare
    disk.thaw()
    bare.close()  # before its disk goes


@pytest.mark.parametrize("container", [(), CONTAINER], ids=["a process", "process 1"])
def test_the_engine_starts_at_the_deadline_while_a_write_to_the_cache_root_still_hangs(
    disk: Disk, pod: Pod, container: Sequence[str]
) -> None:
    root = disk.point / "compile-cache"
    root.mkdir()
    disk.freeze()
    words = pod.launched(["sh", "-c", "echo it runs; exec sleep 60"], ["--restore-timeout", "1s"], root=str(root))
    started = pod.start(argv=[*container, *words])
    started.wait_for("it runs")
    document = started.wait_for_document(lambda found: found["publish"] is not None)
    assert document["restore"]["reason"] == document["verdict"]["reason"] == "deadline"
    assert "took longer than 1 s; the command is started as it is" in started.output()
    started.process.kill()
    disk.thaw()
    started.process.wait(60)
    pod.wait_until_alone()
    assert not list(root.iterdir()), "what was killed does nothing more there"


def test_the_engine_starts_while_its_report_cannot_be_written(disk: Disk, pod: Pod) -> None:
    """The watcher hangs then, not the engine."""
    disk.freeze()
    report = disk.point / "start.json"
    program = [sys.executable, str(PROGRAM), "--stay", STAY]
    started = pod.start(argv=pod.launched(program, ["--report", str(report)]))
    started.wait_for("begun")
    started.process.kill()
    disk.thaw()
    started.process.wait(60)
    pod.wait_until_alone()
