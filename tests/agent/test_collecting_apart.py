"""The collector as a process: killed at the worst moments, and with no right but the one that its manifest gives it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.agent import working
from tests.agent.outboxes import Node, pod, tree
from tests.parts import requires

COMMAND = [sys.executable, "-m", working.__name__]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    node = Node(tmp_path, pod())
    node.hand_over(pod(), tree(tmp_path / "made"))
    return node


@pytest.mark.parametrize("moment", ["unpacked", "published"])
def test_killed_it_loses_nothing_and_leaves_nothing(node: Node, moment: str) -> None:
    with subprocess.Popen([*COMMAND, str(node.folder), moment], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.kill()
    assert len(node.archives(pod())) == 2
    assert (len(node.scratch()) > 0) == (moment == "unpacked")
    assert node.round().publishes() == ["published" if moment == "unpacked" else "unchanged"]
    assert len(node.published().parts) == 2
    assert (node.archives(pod()), node.scratch()) == ([], [])


def test_what_a_killed_one_had_unpacked_goes_also_where_nothing_is_unpacked_again(node: Node) -> None:
    with subprocess.Popen([*COMMAND, str(node.folder), "unpacked"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.kill()
    shutil.rmtree(node.box(pod()))
    node.round()
    assert node.scratch() == []


def rights(*capabilities: str) -> list[str]:
    """A process that has these and no others."""
    return ["setpriv", "--bounding-set", ",".join(["-all", *capabilities]), "--inh-caps", "-all"]


@requires("root")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv (util-linux) is not here")
def test_the_rights_that_are_rendered_are_all_that_it_needs(node: Node) -> None:
    """kubelet makes the outbox as root, the pod writes as whoever its image is; `capabilities: add: [DAC_OVERRIDE, FOWNER]`."""
    box = node.box(pod())
    box.chmod(0o1777)
    private, sticky = box / "private", box / "sticky"
    for folder, mode in ((private, 0o700), (sticky, 0o1777), (sticky / "nested", 0o1777)):
        folder.mkdir()
        (folder / "x").write_text("x")
        os.chown(folder / "x", 1234, 1234)
        os.chown(folder, 1234, 1234)
        folder.chmod(mode)
    for path in box.iterdir():
        if path.is_file():
            path.chmod(0o600)
        os.chown(path, 1234, 1234)
    command = [*rights("+dac_override", "+fowner"), *COMMAND, str(node.folder), "never"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == [["published"], []]
    assert not box.exists()


@requires("root")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv (util-linux) is not here")
def test_without_one_of_them_what_stays_is_told_and_stops_nobody(node: Node) -> None:
    """Of a directory with the sticky bit only its owner removes, or CAP_FOWNER. It is not tried again at once."""
    box = node.box(pod())
    sticky = box / "sticky"
    sticky.mkdir()
    (sticky / "x").write_text("x")
    for path in (sticky, sticky / "x"):
        os.chown(path, 1234, 1234)
    sticky.chmod(0o1777)
    command = [*rights("+dac_override"), *COMMAND, str(node.folder), "never"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [["published"], []]
    left = [str(path.relative_to(box)) for path in box.rglob("*")]
    assert len(left) == 2
    node.run(replace(pod(), gone=True))
    for _ in range(3):
        node.clock.shift += 60
        node.round()
    assert not box.exists()  # an agent with all rights
