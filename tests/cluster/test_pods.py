"""What pods are like: users, read-only roots, images without Python. The engine starts in each, and warm where that is possible."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from glowplug import __version__
from glowplug.manifests import recipe
from lab import cluster, s3
from lab.cluster import pods
from lab.fleet import rendered
from tests.cluster import programs
from tests.cluster.conftest import Fleet
from tests.parts import requires

pytestmark = [requires("cluster", "engine", "s3", "kube"), pytest.mark.slow]
_IMAGE = f"glowplug:{__version__}"
_START = recipe.Start("s3://pods")
_DIRECT = recipe.direct(_IMAGE, _START)
_NODE = recipe.node("/mnt/k8s-disks/0", "default")


@pytest.fixture(scope="module")
def running(fleet: Fleet) -> cluster.Cluster:
    return fleet.running


@pytest.fixture(scope="module")
def cold(running: cluster.Cluster, python: Path) -> float:
    """A baked program; the seconds that compiling took."""
    baked = programs.compiling("bakes", recipe.bake(_IMAGE, _START, 300), python, running.s3, "--layers", "1")
    return _compiled(running.run(baked, seconds=240))


def _compiled(log: str) -> float:
    found = re.search(r"compile \+ first call took ([0-9.]+) s", log)
    assert found, log
    return float(found[1])


# Direct mode, warm


_SHAPES: dict[str, dict[str, Any]] = {
    "root": {},
    "a user": {"securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "runAsGroup": 1000}},
    "an arbitrary user of group 0": {
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000660000, "runAsGroup": 0}
    },
    "a volume group": {"securityContext": {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 2000}},
    "a read-only root": {
        "container": {"securityContext": {"readOnlyRootFilesystem": True}},
        "empty_dirs": ["/tmp"],
    },
}


@pytest.mark.parametrize("shape", _SHAPES.values(), ids=_SHAPES.keys())
def test_a_pod_of_any_shape_starts_warm(
    running: cluster.Cluster, python: Path, cold: float, shape: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    name = re.sub(r"[^a-z0-9]+", "-", f"warm-{request.node.callspec.id}")
    running.kube.admin.create(programs.compiling(name, _DIRECT, python, running.s3.with_keys(s3.READER), **shape))
    log = programs.wait_for_verdict(running, name)
    running.kubectl("delete", "pod", name, "--wait=false")
    assert programs.verdict(log) == "hit", log
    assert 3 * _compiled(log) < cold


# The engine's process, in either mode


_ENGINE = """
import os, signal, sys
print("engine is", os.getpid(), sys.argv[1:], sorted(os.environ.get("LC_CTYPE", "")), flush=True)
print("to stderr", file=sys.stderr, flush=True)
def end(*_):
    print("was told to end", flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, end)
if sys.argv[1:] == ["stay"]:
    signal.pause()
sys.exit(5)
"""
_RECIPES = {"direct": _DIRECT, "node": _NODE, "none": recipe.Recipe()}


@pytest.mark.parametrize("mode", _RECIPES)
def test_process_streams_and_status_are_the_engine_s_own(running: cluster.Cluster, mode: str) -> None:
    name = f"own-{mode}"
    argv = ["python3", "-c", _ENGINE, "a b", "$(c)", ""]
    running.kube.admin.create(programs.warmed(name, _RECIPES[mode], argv))
    ended = running.wait_for_pod(name, pods.has_ended)
    assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 5
    lines = [line for line in running.logs(name).splitlines() if not line.startswith("glowplug: ")]
    assert sorted(lines) == ["engine is 1 ['a b', '$(c)', ''] []", "to stderr"]


@pytest.mark.parametrize("mode", ["direct", "node"])
def test_kubelet_s_signal_reaches_the_engine(running: cluster.Cluster, mode: str) -> None:
    name = f"signalled-{mode}"
    pod = programs.warmed(name, _RECIPES[mode], ["python3", "-c", _ENGINE, "stay"], terminationGracePeriodSeconds=60)
    pod["spec"]["restartPolicy"] = "Always"
    running.kube.admin.create(pod)
    running.wait_for_pod(name, pods.is_ready)
    running.wait_for_pod(name, lambda _: "engine is 1" in running.logs(name))
    # A liveness probe that fails ends a container as deletion does, and leaves its status to be read.
    running.kubectl("exec", name, "--", "kill", "-TERM", "1")
    again = running.wait_for_pod(name, lambda one: one["status"]["containerStatuses"][0]["restartCount"] == 1)
    assert again["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 7
    running.kubectl("delete", "pod", name, "--wait=false")


# Plain starts


def test_an_image_without_python_starts_its_command(running: cluster.Cluster) -> None:
    for mode in ("direct", "node"):
        pod = programs.warmed(f"none-{mode}", _RECIPES[mode], ["echo", "engine"], env={"PATH": "/usr/bin:/bin"})
        pod["spec"]["containers"][0]["securityContext"] = {"readOnlyRootFilesystem": True}
        assert running.run(pod) == "engine\n", "and says nothing that would be in the way"


def test_a_client_that_cannot_be_copied_costs_the_cache_and_not_the_start(running: cluster.Cluster) -> None:
    pod = programs.warmed("no-client", _DIRECT, ["echo", "engine"])
    pod["spec"]["initContainers"][0]["volumeMounts"][0]["readOnly"] = True
    assert running.run(pod) == "engine\n"
    told = running.kubectl("logs", "no-client", "-c", "glowplug")
    assert "glowplug: no client, the engine starts plain" in told


def test_a_pod_that_is_told_to_do_without_does(running: cluster.Cluster) -> None:
    pod = programs.warmed("disabled", _DIRECT, ["python3", "-c", "print('engine')"], env={"GLOWPLUG_DISABLE": "1"})
    assert running.run(pod) == "engine\n"


def test_a_store_that_is_not_there_costs_no_more_than_its_deadline(running: cluster.Cluster, python: Path) -> None:
    away = running.s3.at(9)  # discard: nobody listens
    env = {"GLOWPLUG_RESTORE_TIMEOUT": "3s"}
    pod = programs.compiling("away", _DIRECT, python, away, "--fail")
    rendered.set_variables(pod["spec"]["containers"][0], env)
    running.kube.admin.create(pod)
    ended = running.wait_for_pod("away", pods.has_ended)
    log = running.logs("away")
    assert "glowplug: nothing restored" in log, log
    assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3, "the program's own"
