"""From one node to the other: what a pod compiled on one is there for the next pod on another, whenever that one comes."""

from __future__ import annotations

from typing import Any

import pytest

from lab import cluster
from lab.fleet import agents, rendered, starts
from lab.kube.client import wait_for
from tests.cluster import programs, workloads
from tests.cluster.conftest import First
from tests.cluster.workloads import Workloads
from tests.parts import requires

pytestmark = [requires("cluster", "engine", "s3", "kube"), pytest.mark.slow]


def test_what_one_node_published_is_offered_on_the_other(
    running: cluster.Cluster, make: Workloads, published: str
) -> None:
    assert make.verdict("same-node", 1, "node-1") == "hit"
    workloads.wait_until_held(running, "node-2", published)
    assert make.verdict("other-node", 1, "node-2") == "hit"
    make.remove("same-node", "other-node")


def test_events_and_metrics_say_so(running: cluster.Cluster, first: First) -> None:
    wait_for(30, "the events are there", lambda: "CompileCacheMiss" in agents.events(running, "first"))
    assert first.counted['glowplug_publishes_total{domain="default",outcome="published",reason="none"}'] == 1
    assert first.counted['glowplug_starts_total{domain="default",restore="none",verdict="miss"}'] == 1


def test_a_deployment_that_is_scaled_onto_a_node_which_has_been_up_for_long_is_warm_there(
    running: cluster.Cluster, make: Workloads, published: str
) -> None:
    """The node's agent lists the store when it begins and then in an hour; so it is the pod that makes it look."""
    with agents.told(running, "node-2", {"GLOWPLUG_RELIST": "1h"}):
        agents.wait(running, "node-2")
        workloads.wait_until_held(running, "node-2", published)
        running.kubectl("cordon", "node-2")
        try:
            running.kube.admin.create(_deployment(make.pod("rolled-out", 71, None)))
            known: set[str] = set()
            one = starts.new_pod(running, "rolled-out", known)
            assert programs.verdict(programs.wait_for_verdict(running, one)) == "miss"
            workloads.wait_until_published(running, one)
            digest = programs.key_digest(running, one)
            assert digest in rendered.keys(running, "default")
            assert not workloads.held(running, "node-2", digest), "nothing has told that node of it"
        finally:
            running.kubectl("uncordon", "node-2")
        running.kubectl("cordon", "node-1")
        try:
            starts.scale(running, "rolled-out", 2)
            other = starts.seen(running, starts.new_pod(running, "rolled-out", known))
        finally:
            running.kubectl("uncordon", "node-1")
        assert other.node == "node-2"
        assert other.verdict == "hit", f"{other}\n{agents.log(running, 'node-2')}"
        running.kubectl("delete", "deployment", "rolled-out", "--wait=false")


def _deployment(pod: dict[str, Any]) -> dict[str, Any]:
    name = pod["metadata"]["name"]
    labels = {**pod["metadata"]["labels"], "app": name}
    spec = {**pod["spec"], "restartPolicy": "Always"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
