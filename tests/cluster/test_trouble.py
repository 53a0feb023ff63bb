"""The rendered agent on two nodes, when things go wrong, with a small program in the place of an engine."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from glowplug.manifests import recipe
from glowplug.nodestore import layout
from lab import cluster
from lab.cluster import pods, spaces
from lab.faults import Hang, Proxy, Refuse
from lab.fleet import agents, rendered
from lab.kube.client import wait_for
from tests.cluster import programs
from tests.cluster.conftest import OTHERS, Fleet
from tests.parts import requires

pytestmark = [requires("cluster", "engine", "s3", "kube"), pytest.mark.slow]
_NVME = "/mnt/k8s-disks/0"
_NODE = recipe.node(_NVME, "default")


@pytest.fixture
def running(fleet: Fleet) -> cluster.Cluster:
    return fleet.running


@pytest.fixture
def proxy(fleet: Fleet) -> Proxy:
    """What stands between the agents and the store."""
    return fleet.proxy


class Pods:
    """Makes pods of node mode that compile for so many ranks, which is in the key: each number is a workload of its own."""

    def __init__(self, running: cluster.Cluster, python: Path) -> None:
        self._running = running
        self._python = python

    def start(self, name: str, ranks: int, node: str, **options: Any) -> None:
        pod = programs.compiling(name, _NODE, self._python, None, node=node, **options)
        rendered.set_variables(pod["spec"]["containers"][0], {"WORLD_SIZE": str(ranks)})
        self._running.kube.admin.create(pod)

    def verdict(self, name: str, ranks: int, node: str, **options: Any) -> str:
        """`hit`, `miss` … of such a pod; it goes on."""
        self.start(name, ranks, node, **options)
        return programs.verdict(programs.wait_for_verdict(self._running, name, options.get("namespace", "default")))

    def remove(self, name: str, namespace: str = "default") -> None:
        self._running.kubectl("delete", "pod", f"--namespace={namespace}", name, "--grace-period=1")


@pytest.fixture(scope="module")
def make(fleet: Fleet, python: Path) -> Pods:
    return Pods(fleet.running, python)


@pytest.fixture(scope="module")
def published(fleet: Fleet, make: Pods) -> str:
    """The digest of the key that a pod of node-1 has brought into the store."""
    assert make.verdict("first", 1, "node-1") == "miss"
    rendered.wait_for_keys(fleet.running, "default")
    (digest,) = rendered.keys(fleet.running, "default")
    return digest


def _held(running: cluster.Cluster, node: str, digest: str) -> bool:
    return (running.nodes[node].path(agents.ROOT) / "store" / "default" / digest).is_dir()


# From one node to the other


def test_what_one_node_published_is_offered_on_the_other(running: cluster.Cluster, make: Pods, published: str) -> None:
    assert make.verdict("same-node", 1, "node-1") == "hit"
    wait_for(60, "the other node fetches it", lambda: _held(running, "node-2", published))
    assert make.verdict("other-node", 1, "node-2") == "hit"


def test_events_and_metrics_say_so(running: cluster.Cluster, make: Pods, published: str) -> None:
    wait_for(30, "the events are there", lambda: "CompileCachePublished" in agents.events(running, "first"))
    assert "CompileCacheMiss" in agents.events(running, "first")
    counted = agents.metrics(running, "node-1")
    assert counted['glowplug_publishes_total{domain="default",outcome="published",reason="none"}'] == 1
    assert counted['glowplug_starts_total{domain="default",restore="none",verdict="miss"}'] == 1


# What differs is not offered


def _fails(python: Path, name: str, env: Mapping[str, str], recipe_: recipe.Recipe = _NODE, **options: Any) -> Any:
    """A pod whose launcher looks for artifacts, and whose program then ends with status 3 before it compiles anything."""
    pod = programs.compiling(name, recipe_, python, None, "--fail", **options)
    rendered.set_variables(pod["spec"]["containers"][0], env)
    return pod


def _told(running: cluster.Cluster, pod: dict[str, Any]) -> str:
    running.kube.admin.create(pod)
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    running.wait_for_pod(name, pods.has_ended, namespace)
    return running.logs(name, namespace)


@pytest.mark.parametrize(
    ("field", "env"),
    [("tp", {"WORLD_SIZE": "64"}), ("env.TORCHINDUCTOR_MAX_AUTOTUNE", {"TORCHINDUCTOR_MAX_AUTOTUNE": "1"})],
)
def test_another_layout_or_switch_is_a_miss_that_names_it(
    running: cluster.Cluster, python: Path, published: str, field: str, env: Mapping[str, str]
) -> None:
    name = field.lower().replace(".", "-").replace("_", "-")
    log = _told(running, _fails(python, f"differs-{name}", env, node="node-1"))
    assert f"nothing restored: key:{field} " in log, log


def test_another_model_is_a_miss_that_names_it(running: cluster.Cluster, python: Path, published: str) -> None:
    pod = _fails(python, "differs-model", {}, node="node-1")
    command = pod["spec"]["containers"][0]["command"]
    command[command.index(str(programs.PROGRAM))] = str(
        programs.PROGRAM.parent / "." / ".." / "programs" / "compiled.py"
    )
    assert "nothing restored: key:model " in _told(running, pod)


def test_another_torch_is_a_miss_that_names_it(running: cluster.Cluster, python: Path, published: str) -> None:
    """An environment beside the true one, as far as a look at names goes; the program ends before it imports anything."""
    place = running.nodes["node-1"].path("/opt/other")
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "python3").symlink_to(python.resolve())
    (place / "pyvenv.cfg").write_text((python.parent.parent / "pyvenv.cfg").read_text())
    packages = place / "lib" / next(python.parent.parent.glob("lib/python3*")).name / "site-packages"
    (packages / "torch-2.99.0.dist-info").mkdir(parents=True)
    pod = _fails(python, "differs-torch", {"PATH": "/opt/other/bin:/usr/bin:/bin"}, node="node-1")
    pod["spec"]["volumes"].append({"name": "other", "hostPath": {"path": "/opt/other"}})
    pod["spec"]["containers"][0]["volumeMounts"].append({"name": "other", "mountPath": "/opt/other"})
    log = _told(running, pod)
    assert "nothing restored: key:" in log, log
    assert "torch" in log.partition("nothing restored: key:")[2].split()[0]


def test_another_namespace_has_another_domain(running: cluster.Cluster, python: Path, published: str) -> None:
    others = recipe.node(_NVME, OTHERS)
    pod = _fails(python, "stranger", {}, others, node="node-1", namespace=OTHERS)
    log = _told(running, pod)
    assert "restored " not in log.replace("nothing restored", ""), log
    assert not (running.nodes["node-1"].path(agents.ROOT) / "store" / OTHERS / published).exists()


# One key, whoever starts it


_REPORTS = f"{_NVME}/reports"


def _key_digest(running: cluster.Cluster, pod: dict[str, Any]) -> str:
    """Under which key a start that fails looked; its document outlasts the pod's own volumes."""
    (volume,) = (one for one in pod["spec"]["volumes"] if one["name"] == "lab-report")
    del volume["emptyDir"]
    volume["hostPath"] = {"path": f"{_REPORTS}/{pod['metadata']['name']}", "type": "DirectoryOrCreate"}
    log = _told(running, pod)
    file = running.nodes["node-1"].path(volume["hostPath"]["path"]) / Path(rendered.REPORT).name
    assert file.exists(), log
    return str(json.loads(file.read_text())["key_digest"])


def test_a_start_has_one_key_digest_in_every_mode(running: cluster.Cluster, python: Path, published: str) -> None:
    start = recipe.Start("s3://cache", "default")
    own = f"glowplug:{programs.VERSION}"
    run = (str(spaces.CHECKOUT / ".venv" / "bin" / "glowplug"), "run", "--domain=default", "--store=s3://cache", "--")
    modes = {
        "node": _NODE,
        "direct": recipe.direct(own, start),
        "bake": recipe.bake(own, start, 60),
        "run": recipe.Recipe(prefix=run),
    }
    found = {}
    for name, one in modes.items():
        pod = _fails(python, f"key-{name}", {}, one, node="node-1")
        if name == "run":
            for path in pods.glowplug_paths():
                programs.show(pod, path)
            rendered.set_variables(pod["spec"]["containers"][0], running.s3.env())
        found[name] = _key_digest(running, pod)
    assert found == dict.fromkeys(modes, published)


# Claims


def test_while_the_store_is_away_pods_start_and_what_waits_is_published_for_nobody_else(
    running: cluster.Cluster, make: Pods, proxy: Proxy, published: str
) -> None:
    """As on a node that has just booted, with a new agent. The other pod's bytes are true, made by a true start of the first."""
    wait_for(60, "the node holds what there is", lambda: _held(running, "node-1", published))
    proxy.add(Refuse(), times=None)
    try:
        agents.replace(running, "node-1")
        assert make.verdict("honest", 41, "node-1") == "miss"
        assert programs.document(running, "honest")["restore"]["seconds"] < 15
        assert make.verdict("liar", 1, "node-1") == "hit", "what the node holds needs no store"
        outboxes = running.nodes["node-1"].path(agents.ROOT) / "outbox"
        true, false = (outboxes / running.pod(name)["metadata"]["uid"] for name in ("honest", "liar"))
        wait_for(60, "the honest pod seals what it compiled", lambda: _sealed(true))
        assert not _published(running, "honest")
        for file in true.iterdir():
            if file.is_file():
                shutil.copy2(file, false)
    finally:
        proxy.clear()
    wait_for(120, "the refusal is told", lambda: "OutboxRefused" in agents.events(running, "liar"))
    assert "tp" in agents.events(running, "liar")["OutboxRefused"]
    counted = agents.metrics(running, "node-1")
    assert any("refusals_total" in name and "claim:" in name and value >= 1 for name, value in counted.items()), counted
    wait_for(120, "what is true is published, without anybody's help", lambda: _published(running, "honest"))
    assert not _published(running, "liar")
    agents.wait(running, "node-1")


def _sealed(outbox: Path) -> bool:
    archives = list(outbox.glob(f"*{layout.SEALED}"))
    return bool(archives) and all(layout.description(one).exists() for one in archives)


def test_a_namespace_that_nobody_admitted_publishes_nothing(
    running: cluster.Cluster, make: Pods, published: str
) -> None:
    make.verdict("unadmitted", 42, "node-1", namespace=OTHERS)
    wait_for(60, "the refusal is told", lambda: "OutboxRefused" in agents.events(running, "unadmitted", OTHERS))
    assert programs.key_digest(running, "unadmitted", OTHERS) not in rendered.keys(running, "default")
    assert rendered.keys(running, OTHERS) == []


# Faults


def test_an_agent_that_is_killed_while_it_publishes_and_while_it_fetches_begins_anew(
    running: cluster.Cluster, make: Pods, proxy: Proxy, published: str
) -> None:
    before = set(rendered.keys(running, "default"))
    publishing = proxy.add(Hang(), method="PUT", path="*/keys/*")
    make.start("during", 50, "node-1")
    _kill(running, "node-1", publishing)
    wait_for(120, "what it compiled is published", lambda: _published(running, "during"))
    (digest,) = set(rendered.keys(running, "default")) - before

    wait_for(60, "the other node holds it", lambda: _held(running, "node-2", digest))
    running.nodes["node-2"].run(["rm", "-rf", f"{agents.ROOT}/store/default/{digest}"])
    fetching = proxy.add(Hang(), method="GET", path="*/blobs/*")
    _kill(running, "node-2", fetching)
    wait_for(60, "the other node fetches it after all", lambda: _held(running, "node-2", digest))
    assert make.verdict("after", 50, "node-2") == "hit"


def _kill(running: cluster.Cluster, node: str, at: threading.Event) -> None:
    """SIGKILL for the agent of that node at that moment; returns when it is ready again."""
    before = agents.restarts(running, node)
    assert at.wait(180)
    agents.signal(running.nodes[node], "KILL")
    agents.wait(running, node, restarts=before + 1)


def test_a_pod_that_is_deleted_while_it_packs_leaves_nothing_broken(
    running: cluster.Cluster, make: Pods, published: str
) -> None:
    before = len(rendered.keys(running, "default"))
    assert make.verdict("goes", 51, "node-1") == "miss"
    running.kubectl("delete", "pod", "goes", "--grace-period=0", "--force")
    assert make.verdict("comes", 51, "node-1") in ("hit", "miss"), "it was published as a whole, or not at all"
    rendered.wait_for_keys(running, "default", before + 1)
    assert make.verdict("stays", 51, "node-1") == "hit"


def test_credentials_that_come_late_delay_no_pod_and_lose_nothing(fleet: Fleet, make: Pods, published: str) -> None:
    """On a node that has just booted the metadata service has no keys yet; a new agent is not restarted for that."""
    running, told = fleet.running, fleet.role.asked
    wait_for(60, "the node holds what there is", lambda: _held(running, "node-2", published))
    fleet.role.ready = False
    try:
        agents.replace(running, "node-2")
        assert make.verdict("early", 53, "node-2") == "miss"
        assert programs.document(running, "early")["restore"]["seconds"] < 15
        assert make.verdict("held", 1, "node-2") == "hit", "what the node holds needs none"
        assert fleet.role.asked > told
        assert not _published(running, "early")
        assert agents.restarts(running, "node-2") == 0
    finally:
        fleet.role.ready = True
    wait_for(120, "it is published without anybody's help", lambda: _published(running, "early"))
    agents.wait(running, "node-2")


def test_a_node_that_crashed_comes_back_with_what_it_held(running: cluster.Cluster, make: Pods, published: str) -> None:
    node = running.nodes["node-2"]
    before = agents.restarts(running, "node-2")
    node.restart()
    agents.wait(running, "node-2", restarts=before + 1)
    assert make.verdict("after-the-crash", 1, "node-2") == "hit"


def _published(running: cluster.Cluster, pod: str) -> bool:
    return "CompileCachePublished" in agents.events(running, pod)
