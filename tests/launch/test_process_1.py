"""In a container the engine is process 1, gets the watcher as an orphan, and whatever wrote in the tree before is dead."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.launch.pod import STAY, Pod
from tests.parts import requires
from tests.supervise.machine import PATIENCE, PROGRAM, Started

pytestmark = requires("root")
CONTAINER = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


def start(pod: Pod, port: int, *arguments: str, words: Sequence[str] = ()) -> Started:
    url = ["--ready-url", f"http://127.0.0.1:{port}/"]
    program = [sys.executable, str(PROGRAM), "--port", str(port), "--stay", STAY, *arguments]
    return pod.start(argv=[*CONTAINER, *pod.launched(words or program, url)])


def process_1(started: Started) -> int:
    children = Path(f"/proc/{started.process.pid}/task/{started.process.pid}/children").read_text().split()
    return int(children[0])


def test_the_watcher_does_its_work_and_the_engine_ends_everything(pod: Pod, free_port: int) -> None:
    started = start(pod, free_port)
    document = started.wait_for_document(lambda found: found["publish"] is not None)
    assert (document["verdict"]["compile"], document["publish"]["outcome"]) == ("miss", "published")
    os.kill(process_1(started), signal.SIGKILL)
    started.end()
    pod.wait_until_alone()


def test_the_engine_alone_is_process_1(bare: Pod, free_port: int) -> None:
    started = start(bare, free_port, words=["sh", "-c", "echo I am $$; exec sleep 60"])
    started.wait_for("I am 1\n")
    os.kill(process_1(started), signal.SIGKILL)
    started.end()
    bare.wait_until_alone()


def test_process_1_has_no_dead_child_that_it_does_not_know_of(bare: Pod, free_port: int) -> None:
    """Orphans come to it; what had ended before the engine began is gone."""
    script = "grep -c '^State:.Z' /proc/[0-9]*/status; echo counted; exec sleep 60"
    started = start(bare, free_port, words=["sh", "-c", script])
    started.wait_for("counted")
    counts = [line for line in started.output().splitlines() if "status:" in line]
    assert counts
    assert all(line.endswith(":0") for line in counts), counts
    os.kill(process_1(started), signal.SIGKILL)
    started.end()


def test_a_dead_engines_temporary_files_do_not_keep_a_restarted_one_from_publishing(pod: Pod, free_port: int) -> None:
    """A container is restarted at once: what was left is as young as can be."""
    first = start(pod, free_port, "--unfinished", "--die-by", str(signal.SIGKILL.value))
    first.end()
    (left,) = (pod.root / "inductor" / "fxgraph" / "g1").glob("*.tmp")
    again = start(pod, free_port)
    document = again.wait_for_document(lambda found: found["publish"] is not None)
    assert not left.exists()
    assert document["publish"]["outcome"] in ("published", "skipped")
    assert "incomplete" not in document["publish"]["reason"]
    os.kill(process_1(again), signal.SIGKILL)
    again.end()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1], ids=lambda one: one.name)
def test_signals_reach_process_1_as_they_reach_it_without_us(bare: Pod, number: signal.Signals, free_port: int) -> None:
    path = bare.base / "signals"
    started = start(bare, free_port, "--signals", str(path))
    started.wait_for("ready")
    os.kill(process_1(started), number)
    if number is not signal.SIGTERM:
        end = time.monotonic() + PATIENCE
        while not path.exists() and time.monotonic() < end:
            time.sleep(0.02)
        os.kill(process_1(started), signal.SIGTERM)
    assert started.end().status == 0
    assert number.name in path.read_text()
    assert json.loads(bare.report.read_text())["source"] == "exec"
