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


@requires("root")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv (util-linux) is not here")
def test_the_right_to_read_and_remove_files_of_other_users_is_all_that_it_needs(node: Node) -> None:
    """kubelet makes the outbox as root, the pod writes as whoever its image is; `capabilities: add: [DAC_OVERRIDE]`."""
    box = node.box(pod())
    box.chmod(0o1777)
    (box / "private").mkdir(0o700)
    (box / "private" / "x").write_text("x")
    for path in (*box.iterdir(), box / "private" / "x"):
        if path.is_file():
            path.chmod(0o600)
        os.chown(path, 1234, 1234)
    rights = ["setpriv", "--bounding-set", "-all,+dac_override", "--inh-caps", "-all"]
    done = subprocess.run([*rights, *COMMAND, str(node.folder), "never"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == [["published"], []]
    assert not box.exists()


@requires("root")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv (util-linux) is not here")
def test_what_that_right_cannot_remove_is_told_and_stops_nobody(node: Node) -> None:
    """Of a directory with the sticky bit only its owner removes, or CAP_FOWNER. It is not tried again at once."""
    box = node.box(pod())
    sticky = box / "sticky"
    sticky.mkdir()
    (sticky / "x").write_text("x")
    for path in (sticky, sticky / "x"):
        os.chown(path, 1234, 1234)
    sticky.chmod(0o1777)
    rights = ["setpriv", "--bounding-set", "-all,+dac_override", "--inh-caps", "-all"]
    done = subprocess.run([*rights, *COMMAND, str(node.folder), "never"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [["published"], []]
    left = [str(path.relative_to(box)) for path in box.rglob("*")]
    assert len(left) == 2
    node.run(replace(pod(), gone=True))
    for _ in range(3):
        node.clock.shift += 60
        node.round()
    assert not box.exists()  # an agent with all rights
