"""Shared mode: a new node with the startup taint, and the AWS guide's own Deployment, which waits for it and starts warm."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import cluster
from lab.cluster import images, pods
from lab.fleet import agents, rendered, starts
from lab.kube.client import wait_for
from tests.cluster import programs, workloads
from tests.cluster.conftest import Fleet
from tests.parts import requires

pytestmark = [requires("cluster", "engine", "s3", "kube"), pytest.mark.slow]
_AGENT = "glowplug-shared"
_TAINT = "glowplug.dev/prewarming"
_LIVE = f"{workloads.NVME}/compile-cache"
_LABEL = {"example.com/mode": "shared"}
_COMPILED = "compile + first call took "


@pytest.fixture(scope="module")
def agent(fleet: Fleet) -> None:
    """Rendered for shared mode, beside the fleet's agents of node mode: under a name of its own, for nodes of its own."""
    documents = rendered.render("agent", "--mode=shared", "--store=s3://cache", "--domain=default")
    (daemons,) = (one for one in documents if one["kind"] == "DaemonSet")
    daemons["metadata"]["name"] = _AGENT
    template = daemons["spec"]["template"]
    template["metadata"]["labels"] = daemons["spec"]["selector"]["matchLabels"] = {"app": _AGENT}
    template["spec"]["nodeSelector"] = _LABEL
    del template["spec"]["affinity"]
    env = fleet.store.env()
    rendered.apply(fleet.running, rendered.told([daemons], env))


@pytest.fixture(scope="module")
def new_node(fleet: Fleet, python: Path, published: str, agent: None) -> Iterator[cluster.Node]:
    """It joins with its taint, while a pod of the guide's Deployment waits for it."""
    rendered.apply(fleet.running, [_deployment(python)])
    name = starts.new_pod(fleet.running, "guide", set())
    wait_for(30, "no node is there for this pod", lambda: starts.unschedulable(fleet.running.pod(name)))
    yield fleet.running.add_node(_LABEL, [f"{_TAINT}=true:NoSchedule"])
    fleet.running.kubectl("delete", "deployment", "guide", "--wait=false")


def test_the_guide_s_pod_waits_for_the_taint_and_compiles_nothing(
    running: cluster.Cluster, python: Path, new_node: cluster.Node
) -> None:
    """Its process is the small program; of the Deployment all else that concerns caches is as the guide has it.

    But for one variable: what C++ compilers make beforehand is no matter on a GPU, and here Inductor has it in its key.
    """
    (waiting,) = starts.named(running, "guide")
    name = waiting["metadata"]["name"]
    log = programs.wait_for_words(running, name, _COMPILED)
    assert running.pod(name)["spec"]["nodeName"] == new_node.name
    assert not _taints(running, new_node)
    assert "StartupTaintRemoved" in agents.events(running, new_node.name)
    live = new_node.path(_LIVE)
    entries = set(live.glob("inductor/fxgraph/*/*/*"))
    brought = set((new_node.path(agents.ROOT) / "store").glob("*/*/*/tree/inductor/fxgraph/*/*/*"))
    assert entries, log
    assert {one.name for one in entries} <= {one.name for one in brought}, "it looked these up, and compiled no other"


def _deployment(python: Path) -> dict[str, Any]:
    words = ("--size=10MB", "--mode=shared", "--profile=guide", "--name=guide")
    (deployment,) = (
        one for one in rendered.render("deployment", "s3://models/tiny", *words) if one["kind"] == "Deployment"
    )
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    for name in ("args", "ports", "resources", "startupProbe", "readinessProbe"):
        del container[name]
    container["image"] = images.PYTHON
    container["command"] = ["python3", str(programs.PROGRAM), "--layers", "1", "--serve", programs.SERVED]
    path = f"{python.parent}:/usr/local/bin:/usr/bin:/bin"
    rendered.set_variables(container, {"PATH": path, "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0"})
    for number, shown in enumerate((*pods.engine_paths(python), str(programs.PROGRAM.parent))):
        spec["volumes"].append({"name": f"lab-{number}", "hostPath": {"path": shown}})
        container["volumeMounts"].append({"name": f"lab-{number}", "mountPath": shown, "readOnly": True})
    spec["nodeSelector"] = _LABEL
    spec["terminationGracePeriodSeconds"] = 1
    return deployment


def _taints(running: cluster.Cluster, node: cluster.Node) -> list[str]:
    spec = running.kube.admin.get("v1", "Node", node.name).document["spec"]
    return [one["key"] for one in spec.get("taints", ()) if one["key"] == _TAINT]
