"""Pods of other shapes than the usual: a volume that is full, a root file system that cannot be written."""

from __future__ import annotations

import sys

import pytest

from tests.launch.pod import Pod
from tests.parts import requires
from tests.supervise.machine import PROGRAM

pytestmark = requires("root")


def mounted(pod: Pod, script: str, options: list[str]) -> list[str]:
    """A start in a mount namespace of its own, after `script`, in which `$ROOT` and `$BASE` are the pod's."""
    pod.root.mkdir()
    set_up = f'ROOT="{pod.root}" BASE="{pod.base}"; {script} && exec "$@"'
    program = [sys.executable, str(PROGRAM), "--exit", "3"]
    return ["unshare", "--mount", "sh", "-c", set_up, "-", *pod.launched(program, options)]


@pytest.mark.parametrize(
    ("script", "private"),
    [
        ('mount -t tmpfs -o size=4k none "$ROOT" && head -c 4096 /dev/zero >"$ROOT/filler"', True),
        ('mount -t tmpfs -o nr_inodes=2 none "$ROOT" && touch "$ROOT/filler"', True),
        ('mount --bind "$ROOT" "$ROOT" && mount -o remount,bind,ro "$ROOT"', True),
        ('mount --bind "$BASE" "$BASE" && mount -o remount,bind,ro /', False),
    ],
    ids=["full", "no inodes", "read-only volume", "read-only root"],
)
def test_the_engine_starts_with_a_cache_that_it_can_write(pod: Pod, script: str, private: bool) -> None:
    done = pod.run(argv=mounted(pod, script, ["--ready-url", "http://127.0.0.1:1/"]))
    assert (done.status, "miss g1" in done.out) == (3, True), done
    assert (done.document["workload"].get("cache_root", {}).get("private", False)) == private
    assert "Traceback" not in done.err
    pod.wait_until_alone()
    assert not list((pod.base / "tmp").iterdir()), "a private cache ends with its engine"


def test_nowhere_to_write_at_all_is_a_plain_start(pod: Pod) -> None:
    done = pod.run(argv=mounted(pod, "mount -o remount,bind,ro /", []))
    assert done.status in (1, 3), "what the program makes of it itself"
    assert "begun" in done.out
    assert "the command is started as it is" in done.err
