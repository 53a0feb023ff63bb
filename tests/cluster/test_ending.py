"""However a cluster's harness ends, and whatever else is killed with it, nothing of the cluster stays on the machine."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab import cluster
from lab.cluster import cgroups, leftovers, spaces
from lab.kube.client import wait_for
from tests.cluster.conftest import Untouched
from tests.parts import requires

pytestmark = [requires("cluster", "s3"), pytest.mark.slow]

# Whoever starts the tests in the background has them ignore SIGINT, and so would their children.
_HARNESS = """
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from lab import cluster
from lab.cluster import pods
with cluster.up(nodes=1) as one:
    pod = pods.pod("stays", ["sleep", "1000"], host_paths={"/disk": "/mnt/k8s-disks/0"}, empty_dirs=["/dev/shm", "/scratch"])
    one.kube.admin.create(pod)
    one.wait_for_pod("stays", pods.is_ready)
    print("up", flush=True)
    time.sleep(600)
"""

_PROMPT = os.environ | {leftovers.WHOSE: f"tests-{os.getpid()}"}
"""Not that of somebody who works on this machine, whose cluster stays."""


@contextmanager
def _harness() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", _HARNESS], cwd=spaces.CHECKOUT, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _own(process: subprocess.Popen[str], machine: Untouched, before: set[str]) -> str:
    """The name of the cluster that this harness has begun."""
    found: set[str] = set()

    def begun() -> bool:
        found.update(machine.names() - before)
        return bool(found) or process.poll() is not None

    wait_for(60, "a cluster has begun", begun)
    (name,) = found
    return name


def _wait_until_up(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_harness_that_a_signal_ends_leaves_nothing(machine: Untouched, number: signal.Signals) -> None:
    with _harness() as process:
        _wait_until_up(process)
        assert {"mounts", "namespaces"} & machine.additions().keys() == set(), (
            "these are in the cluster's own namespaces"
        )
        assert {"groups", "links", "processes"} <= machine.additions().keys()
        process.send_signal(number)
        process.wait(90)
        machine.wait()


@pytest.mark.parametrize(("seconds", "number"), [(0.0, signal.SIGKILL), (4.0, signal.SIGINT)])
def test_so_does_one_that_is_interrupted_on_its_way_up(
    machine: Untouched, seconds: float, number: signal.Signals
) -> None:
    before = machine.names()
    with _harness() as process:
        _own(process, machine, before)
        time.sleep(seconds)
        process.send_signal(number)
        process.wait(90)
        if seconds < 1.0:
            # Before the keeper lives nobody cleans up but `make cluster-down`.
            leftovers.clean(prompts=False)
        machine.wait()


def test_so_does_one_whose_keeper_lost_its_guard(machine: Untouched) -> None:
    before = machine.names()
    with _harness() as process:
        name = _own(process, machine, before)
        _wait_until_up(process)
        (keeper,) = (pid for pid in _descendants(process.pid) if _is_keeper(_words(pid), name))
        guard = int(
            next(line for line in Path(f"/proc/{keeper}/status").read_text().splitlines() if "PPid" in line).split()[1]
        )
        os.kill(guard, signal.SIGKILL)
        process.kill()
        machine.wait()


def test_when_every_process_that_could_clean_up_is_killed_too_cluster_down_does_it(machine: Untouched) -> None:
    before = machine.names()
    with _harness() as process:
        name = _own(process, machine, before)
        _wait_until_up(process)
        for pid in (process.pid, *_descendants(process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
    wait_for(
        30,
        "nobody holds it",
        lambda: all(one.state is leftovers.State.LEFT for one in leftovers.found() if one.name == name),
    )
    assert machine.additions(), "the keeper was killed: this is what is tested"
    done = _command("down")
    assert done.returncode == 0
    assert f"removed what {name} left" in done.stderr
    machine.wait(5)


def test_a_frozen_node_ends_too(machine: Untouched) -> None:
    with cluster.up(nodes=1) as one:
        one.nodes["node-1"].pause()
    machine.wait(5)


def test_the_cluster_of_a_prompt_goes_on_until_cluster_down_which_leaves_others_alone(machine: Untouched) -> None:
    before = machine.names()
    with _harness() as other:
        others = {_own(other, machine, before)}
        _wait_until_up(other)
        first = _command("up", "1")
        assert first.returncode == 0, first.stderr
        settings = dict(re.findall(r"^export (\w+)=(\S+)$", first.stdout, re.MULTILINE))
        (name,) = set(Path(settings["KUBECONFIG"]).parts) & {one.name for one in leftovers.found()}
        machine.own(name)
        assert _command("up", "1").stdout == first.stdout, "there is one at a time"
        kubectl = ["sh", "-c", first.stdout + "kubectl get nodes --no-headers"]
        listed = subprocess.run(kubectl, capture_output=True, text=True, check=True).stdout
        assert re.match(r"node-1\s+Ready", listed)
        assert settings["AWS_ENDPOINT_URL"].startswith("http://10.")
        down = _command("down")
        assert down.returncode == 0, down.stderr
        assert machine.names() - before == others
        assert all(f"left alone: {name}" in down.stderr for name in others)
        assert other.poll() is None
        assert all(cgroups.first(name) is not None for name in others)
    machine.wait()


def test_a_bring_up_at_a_prompt_that_is_killed_leaves_nothing(machine: Untouched) -> None:
    before = machine.names()
    argv = [sys.executable, "-m", "lab.cluster", "up", "1"]
    with subprocess.Popen(argv, cwd=spaces.CHECKOUT, env=_PROMPT, stdout=subprocess.DEVNULL, text=True) as process:
        wait_for(60, "a cluster has begun", lambda: machine.names() - before)
        time.sleep(2)
        process.kill()
    machine.wait()


def test_cluster_down_without_a_cluster_does_nothing(machine: Untouched) -> None:
    done = _command("down")
    assert done.returncode == 0
    assert machine.additions() == {}


def _command(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "lab.cluster", *words]
    return subprocess.run(
        argv, cwd=spaces.CHECKOUT, env=_PROMPT, capture_output=True, text=True, check=False, timeout=180
    )


def _is_keeper(words: str, name: str) -> bool:
    """Its guard has the same words among its own, as JSON."""
    return "import keeper" in words and words.rstrip().endswith(name)


def _words(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def _descendants(pid: int) -> list[int]:
    """The processes that this one started, guards and all, those farther away last."""
    found = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, file.read_text().split()):
            found += [child, *_descendants(child)]
    return found
