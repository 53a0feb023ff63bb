"""What pods are like: users, read-only roots, images without Python. The engine starts in each, and warm where that is possible."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glowplug.manifests import recipe
from lab import cluster, s3
from lab.cluster import pods
from lab.fleet import agents, rendered
from lab.kube.client import wait_for
from tests.cluster import programs, workloads
from tests.cluster.conftest import BAKED, IMAGE
from tests.cluster.workloads import Workloads
from tests.parts import requires

pytestmark = [requires("cluster", "engine", "s3", "kube"), pytest.mark.slow]
_DIRECT = recipe.direct(IMAGE, BAKED)
_RECIPES = {"direct": _DIRECT, "node": workloads.NODE}

_USER = {"runAsNonRoot": True, "runAsUser": 1000, "runAsGroup": 1000}
_ARBITRARY = {"runAsNonRoot": True, "runAsUser": 1000660000, "runAsGroup": 0}
_SHAPES: dict[str, dict[str, Any]] = {
    "root": {},
    "user": {"securityContext": _USER},
    "arbitrary": {"securityContext": _ARBITRARY},
    "group": {"securityContext": _USER | {"fsGroup": 2000}},
    "read-only": {"container": {"securityContext": {"readOnlyRootFilesystem": True}}, "empty_dirs": ["/tmp"]},
}
"""Of pods; `arbitrary` is a user as OpenShift gives them, `group` has its volumes' group."""
_COMPILED_BY = {"user": 11, "arbitrary": 12}
"""Pods of these shapes compile, for so many ranks."""
_RESTORED_BY = {"root": 11, "user": 12, "arbitrary": 1, "group": 12, "read-only": 11}
"""Pods of these shapes restore it, each what another user compiled; what is of one rank root has compiled."""


@pytest.fixture(scope="module")
def compiled(running: cluster.Cluster, make: Workloads, published: str) -> None:
    """What `_COMPILED_BY` says, held by node-1."""
    for shape, ranks in _COMPILED_BY.items():
        make.start(f"compiles-{shape}", ranks, "node-1", **_SHAPES[shape])
    for shape in _COMPILED_BY:
        programs.wait_for_verdict(running, f"compiles-{shape}")


# Shapes. All pods of a mode are started at once, and looked at one after the other.


@pytest.fixture(scope="module")
def direct(running: cluster.Cluster, python: Path, baked: str) -> Iterator[None]:
    names = {shape: f"direct-{shape}" for shape in _SHAPES}
    for shape, name in names.items():
        options = _SHAPES[shape]
        running.kube.admin.create(programs.compiling(name, _DIRECT, python, running.s3.with_keys(s3.READER), **options))
    yield
    running.kubectl("delete", "pod", *names.values(), "--wait=false")


@pytest.mark.parametrize("shape", _SHAPES)
def test_a_pod_of_any_shape_starts_warm_in_direct_mode(running: cluster.Cluster, direct: None, shape: str) -> None:
    log = programs.wait_for_verdict(running, f"direct-{shape}")
    assert programs.verdict(log) == "hit", log


@pytest.mark.parametrize("shape", _COMPILED_BY)
def test_what_a_pod_of_any_user_compiles_is_published(running: cluster.Cluster, compiled: None, shape: str) -> None:
    assert programs.verdict(running.logs(f"compiles-{shape}")) == "miss"
    workloads.wait_until_published(running, f"compiles-{shape}")
    assert not workloads.sealed(workloads.outbox(running, f"compiles-{shape}")), "the agent may clear it, too"


@pytest.fixture(scope="module")
def node(running: cluster.Cluster, make: Workloads, published: str, compiled: None) -> Iterator[None]:
    for shape in _COMPILED_BY:
        workloads.wait_until_held(running, "node-1", programs.key_digest(running, f"compiles-{shape}"))
    workloads.wait_until_held(running, "node-1", published)
    make.remove(*(f"compiles-{shape}" for shape in _COMPILED_BY))
    for shape, options in _SHAPES.items():
        make.start(f"node-{shape}", _RESTORED_BY[shape], "node-1", **options)
    yield
    make.remove(*(f"node-{shape}" for shape in _SHAPES))


@pytest.mark.parametrize("shape", _SHAPES)
def test_a_pod_of_any_shape_starts_warm_in_node_mode(running: cluster.Cluster, node: None, shape: str) -> None:
    name = f"node-{shape}"
    log = programs.wait_for_verdict(running, name)
    assert programs.verdict(log) == "hit", log
    wait_for(60, "the agent reads its outbox", lambda: "CompileCacheHit" in agents.events(running, name))


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
