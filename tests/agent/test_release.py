"""Freeing nodes whose agent is dead, with the rendered Deployment's own rights."""

from __future__ import annotations

import io
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glowplug.agent.decisions import Decisions
from glowplug.agent.metrics import Metrics
from glowplug.agent.release import Release
from glowplug.core.clock import SYSTEM
from glowplug.kube.client import Client
from glowplug.manifests.marks import STARTUP_TAINT
from glowplug.render.options import Mode
from lab import kube
from lab.kube.client import wait_for
from tests.agent import standing
from tests.agent.standing import GPU, STARTUP, UNREGISTERED
from tests.parts import requires
from tests.render import installed

pytestmark = requires("kube")
MINUTES = 60.0


class Later:
    """A clock that is some minutes ahead: nodes of the test are that old."""

    def __init__(self, minutes: float) -> None:
        self._ahead = minutes * MINUTES

    def now(self) -> float:
        return SYSTEM.now() + self._ahead

    def monotonic(self) -> float:
        return SYSTEM.monotonic()

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing here waits")


@pytest.fixture(scope="module")
def api(kube_server: kube.Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """With the rights of the rendered Deployment."""
    with (
        installed.in_force(kube_server, Mode.SHARED),
        installed.pod_of(kube_server.admin, "Deployment", Mode.SHARED) as pod,
        standing.speaking(kube_server, pod.token, tmp_path_factory.mktemp("release")) as client,
    ):
        for name in (installed.OWN, installed.OTHER):
            kube_server.admin.delete({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        yield client


def _release(api: Client, minutes: float) -> tuple[Release, io.StringIO, Metrics]:
    log, numbers, clock = io.StringIO(), Metrics(), Later(minutes)
    release = Release(api, STARTUP_TAINT, 10 * MINUTES, log=Decisions("", log, clock), numbers=numbers, clock=clock)
    return release, log, numbers


def test_what_is_overdue_is_freed_and_said(api: Client, kube_server: kube.Server) -> None:
    release, log, numbers = _release(api, 11)
    with standing.node(kube_server.admin, taints=[GPU, STARTUP]) as one, standing.node(kube_server.admin) as two:
        assert release.look()
        assert one.taints() == two.taints() == ["nvidia.com/gpu"]
        events = [
            e for e in kube_server.admin.list("v1", "Event", "default") if e["involvedObject"]["name"] == one.name
        ]
    assert [(event["type"], event["reason"]) for event in events] == [("Warning", "StartupTaintReleased")]
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert {(line["what"], line["outcome"], line["about"]) for line in lines} == {
        ("taint", "released", one.name),
        ("taint", "released", two.name),
    }
    assert 'glowplug_startup_taints_total{outcome="released"} 2.0' in numbers.render().decode()


def test_what_is_not_overdue_is_left_to_its_agent(api: Client, kube_server: kube.Server) -> None:
    release, log, _ = _release(api, 9)
    with standing.node(kube_server.admin) as node:
        assert release.look()
        assert STARTUP_TAINT in node.taints()
    assert log.getvalue() == ""


@pytest.mark.parametrize(
    ("taints", "labels"),
    [([STARTUP], {"nodepool": "gpu"}), ([STARTUP, UNREGISTERED], {"nodepool": "gpu"}), ([GPU], {})],
    ids=["not registered", "Karpenter's taint", "not tainted"],
)
def test_what_is_nothing_to_free(
    api: Client, kube_server: kube.Server, taints: list[dict[str, Any]], labels: dict[str, str]
) -> None:
    release, log, _ = _release(api, 60)
    with standing.node(kube_server.admin, taints=taints, **labels) as node:
        before = node.taints()
        assert release.look()
        assert node.taints() == before
    assert log.getvalue() == ""


def test_a_registered_node_of_karpenter_is_freed(api: Client, kube_server: kube.Server) -> None:
    release, _, _ = _release(api, 11)
    with standing.node(kube_server.admin, nodepool="gpu", registered="true") as node:
        release.look()
        assert node.taints() == ["nvidia.com/gpu"]


def test_without_a_server_it_goes_on(kube_server: kube.Server, tmp_path: Path) -> None:
    with standing.speaking(kube_server, "wrong", tmp_path) as stranger:
        release, log, numbers = _release(stranger, 11)
        assert not release.look()
    assert json.loads(log.getvalue())["of"] == "api"
    assert "glowplug_failures_total" in numbers.render().decode()


def test_as_a_server_it_looks_again_and_says_that_it_lives(api: Client, kube_server: kube.Server) -> None:
    release, _, _ = _release(api, 11)
    stop, ports = threading.Event(), queue.SimpleQueue[int]()
    thread = threading.Thread(target=release.serve, args=("127.0.0.1", 0, stop, 0.2, ports.put), daemon=True)
    thread.start()
    try:
        port = ports.get(timeout=60)
        with standing.node(kube_server.admin) as node:
            wait_for(30, "freed", lambda: STARTUP_TAINT not in node.taints())
            node.put(GPU, STARTUP)
            wait_for(30, "freed again", lambda: STARTUP_TAINT not in node.taints())
        for page in ("healthz", "metrics"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=10) as answer:
                assert answer.status == 200
    finally:
        stop.set()
        thread.join(30)
    assert not thread.is_alive()


def test_the_command_frees_once_or_until_a_signal(api: Client, kube_server: kube.Server) -> None:
    environ = os.environ | {"KUBECONFIG": str(kube_server.kubeconfig(kube_server.administrator))}
    command = [sys.executable, "-m", "glowplug", "agent", "release", "--older-than", "0.01s"]
    with standing.node(kube_server.admin) as node:
        done = subprocess.run([*command, "--once"], env=environ, capture_output=True, text=True, timeout=120)
        assert (done.returncode, node.taints()) == (0, ["nvidia.com/gpu"]), done.stderr
        node.put(GPU, STARTUP)
        with subprocess.Popen([*command, "--listen", "127.0.0.1:0"], env=environ) as running:
            try:
                wait_for(60, "freed", lambda: STARTUP_TAINT not in node.taints())
                running.send_signal(signal.SIGTERM)
                assert running.wait(30) == 0
            finally:
                running.kill()
