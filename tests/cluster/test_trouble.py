"""The rendered agent on two nodes, when things go wrong, with a small program in the place of an engine."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from glowplug.manifests import recipe
from lab import cluster
from lab.cluster import pods, spaces
from lab.faults import Hang, Proxy, Refuse
from lab.fleet import agents, rendered
from lab.kube.client import wait_for
from tests.cluster import programs, workloads
from tests.cluster.conftest import OTHERS, Fleet
from tests.cluster.workloads import Workloads
from tests.parts import requires

pytestmark = [requires("cluster", "engine", "s3", "kube"), pytest.mark.slow]


# One key, whoever starts it


_REPORTS = f"{workloads.NVME}/reports"
_NOT_BAKED = 1
"""The status of a bake whose engine was never ready."""


def _key_digest(running: cluster.Cluster, pod: dict[str, Any], status: int) -> str:
    """Under which key a start that fails looked; its document outlasts the pod's own volumes."""
    (volume,) = (one for one in pod["spec"]["volumes"] if one["name"] == "lab-report")
    del volume["emptyDir"]
    volume["hostPath"] = {"path": f"{_REPORTS}/{pod['metadata']['name']}", "type": "DirectoryOrCreate"}
    log = workloads.told(running, pod, status)
    file = running.nodes["node-1"].path(volume["hostPath"]["path"]) / Path(rendered.REPORT).name
    assert file.exists(), log
    return str(json.loads(file.read_text())["key_digest"])


def test_a_start_has_one_key_digest_in_every_mode(running: cluster.Cluster, python: Path, published: str) -> None:
    start = recipe.Start("s3://cache", "default")
    own = f"glowplug:{programs.VERSION}"
    run = (str(spaces.CHECKOUT / ".venv" / "bin" / "glowplug"), "run", "--domain=default", "--store=s3://cache", "--")
    modes = {
        "node": workloads.NODE,
        "direct": recipe.direct(own, start),
        "bake": recipe.bake(own, start, 60),
        "run": recipe.Recipe(prefix=run),
    }
    found = {}
    for name, one in modes.items():
        pod = workloads.failing(python, f"key-{name}", {}, one, node="node-1")
        if name == "run":
            for path in pods.glowplug_paths():
                programs.show(pod, path)
            rendered.set_variables(pod["spec"]["containers"][0], running.s3.env())
        found[name] = _key_digest(running, pod, _NOT_BAKED if name == "bake" else workloads.PLAIN_STATUS)
    assert found == dict.fromkeys(modes, published)


# Claims


def test_while_the_store_is_away_pods_start_and_what_waits_is_published_for_nobody_else(
    running: cluster.Cluster, make: Workloads, proxy: Proxy, published: str
) -> None:
    """As on a node that has just booted, with a new agent. The other pod's bytes are true, made by a true start of the first."""
    workloads.wait_until_held(running, "node-1", published)
    proxy.add(Refuse(), times=None)
    try:
        agents.replace(running, "node-1")
        assert make.verdict("honest", 41, "node-1") == "miss"
        assert programs.document(running, "honest")["restore"]["seconds"] < 15
        assert make.verdict("liar", 1, "node-1") == "hit", "what the node holds needs no store"
        outboxes = running.nodes["node-1"].path(agents.ROOT) / "outbox"
        true, false = (outboxes / running.pod(name)["metadata"]["uid"] for name in ("honest", "liar"))
        wait_for(60, "the honest pod seals what it compiled", lambda: workloads.sealed(true))
        assert not workloads.published(running, "honest")
        for file in true.iterdir():
            if file.is_file():
                shutil.copy2(file, false)
    finally:
        proxy.clear()
    wait_for(120, "the refusal is told", lambda: "OutboxRefused" in agents.events(running, "liar"))
    assert "tp" in agents.events(running, "liar")["OutboxRefused"]
    counted = agents.metrics(running, "node-1")
    assert any("refusals_total" in name and "claim:" in name and value >= 1 for name, value in counted.items()), counted
    workloads.wait_until_published(running, "honest")
    assert not workloads.published(running, "liar")
    agents.wait(running, "node-1")


def test_a_namespace_that_nobody_admitted_publishes_nothing(
    running: cluster.Cluster, make: Workloads, published: str
) -> None:
    make.verdict("unadmitted", 42, "node-1", namespace=OTHERS)
    wait_for(60, "the refusal is told", lambda: "OutboxRefused" in agents.events(running, "unadmitted", OTHERS))
    assert programs.key_digest(running, "unadmitted", OTHERS) not in rendered.keys(running, "default")
    assert rendered.keys(running, OTHERS) == []


# Faults


def test_an_agent_that_is_killed_while_it_publishes_and_while_it_fetches_begins_anew(
    running: cluster.Cluster, make: Workloads, proxy: Proxy, published: str
) -> None:
    before = set(rendered.keys(running, "default"))
    publishing = proxy.add(Hang(), method="PUT", path="*/keys/*")
    make.start("during", 50, "node-1")
    _kill(running, "node-1", publishing)
    workloads.wait_until_published(running, "during")
    (digest,) = set(rendered.keys(running, "default")) - before

    workloads.wait_until_held(running, "node-2", digest)
    running.nodes["node-2"].run(["rm", "-rf", f"{agents.ROOT}/store/default/{digest}"])
    fetching = proxy.add(Hang(), method="GET", path="*/blobs/*")
    _kill(running, "node-2", fetching)
    workloads.wait_until_held(running, "node-2", digest)
    assert make.verdict("after", 50, "node-2") == "hit"


def _kill(running: cluster.Cluster, node: str, at: threading.Event) -> None:
    """SIGKILL for the agent of that node at that moment; returns when it is ready again."""
    before = agents.restarts(running, node)
    assert at.wait(180)
    agents.signal(running.nodes[node], "KILL")
    agents.wait(running, node, restarts=before + 1)


def test_a_pod_that_is_deleted_while_it_packs_leaves_nothing_broken(
    running: cluster.Cluster, make: Workloads, published: str
) -> None:
    before = len(rendered.keys(running, "default"))
    assert make.verdict("goes", 51, "node-1") == "miss"
    running.kubectl("delete", "pod", "goes", "--grace-period=0", "--force")
    assert make.verdict("comes", 51, "node-1") in ("hit", "miss"), "it was published as a whole, or not at all"
    rendered.wait_for_keys(running, "default", before + 1)
    assert make.verdict("stays", 51, "node-1") == "hit"


def test_credentials_that_come_late_delay_no_pod_and_lose_nothing(
    fleet: Fleet, make: Workloads, published: str
) -> None:
    """On a node that has just booted the metadata service has no keys yet; a new agent is not restarted for that."""
    running, told = fleet.running, fleet.role.asked
    workloads.wait_until_held(running, "node-2", published)
    fleet.role.ready = False
    try:
        agents.replace(running, "node-2")
        assert make.verdict("early", 53, "node-2") == "miss"
        assert programs.document(running, "early")["restore"]["seconds"] < 15
        assert make.verdict("held", 1, "node-2") == "hit", "what the node holds needs none"
        assert fleet.role.asked > told
        assert not workloads.published(running, "early")
        assert agents.restarts(running, "node-2") == 0
    finally:
        fleet.role.ready = True
    workloads.wait_until_published(running, "early")
    agents.wait(running, "node-2")


def test_a_node_that_crashed_comes_back_with_what_it_held(
    running: cluster.Cluster, make: Workloads, published: str
) -> None:
    node = running.nodes["node-2"]
    before = agents.restarts(running, "node-2")
    node.restart()
    agents.wait(running, "node-2", restarts=before + 1)
    assert make.verdict("after-the-crash", 1, "node-2") == "hit"
