"""Nodes without an agent, with one that comes late, and with a client that is not what it should be: engines start all the same."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dev import pyz
from glowplug.nodestore import layout
from lab import cluster
from lab.fleet import agents, starts
from lab.kube.client import wait_for
from tests.cluster import processes, programs, workloads
from tests.cluster.workloads import Workloads
from tests.parts import requires

pytestmark = [requires("cluster", "engine", "s3", "kube"), pytest.mark.slow]
_WAITED = f"no client on this node after {layout.WAIT_SECONDS} s; the engine starts plain"


def test_while_its_agent_is_away_a_node_s_pods_take_what_is_there_and_what_they_compile_waits(
    running: cluster.Cluster, make: Workloads, published: str
) -> None:
    """As while a DaemonSet is rolled out. The agent that comes minutes later publishes what it finds."""
    workloads.wait_until_held(running, "node-2", published)
    with agents.away(running, "node-2"):
        assert make.verdict("without", 1, "node-2") == "hit"
        assert make.verdict("waits", 61, "node-2") == "miss"
        assert programs.document(running, "waits")["restore"]["seconds"] < layout.WAIT_SECONDS
        handed_over = workloads.outbox(running, "waits")
        wait_for(60, "it seals what it compiled", lambda: workloads.sealed(handed_over))
        assert not workloads.published(running, "waits")
    workloads.wait_until_published(running, "waits")
    make.remove("without", "waits")


def test_on_a_node_that_never_had_an_agent_a_pod_starts_plain_and_finds_its_cache_once_one_has_come(
    running: cluster.Cluster, make: Workloads, published: str
) -> None:
    """Kubelet has made the directories of the node by then, as root's, and the pod has mounted them."""
    pod = make.pod("plain", 1, "node-2", restartPolicy="Always")
    with agents.away(running, "node-2"):
        running.nodes["node-2"].run(["rm", "-rf", agents.ROOT])
        running.kube.admin.create(pod)
        programs.wait_for_words(running, "plain", _WAITED)
        engine = processes.engine(running.pod("plain"))
    workloads.wait_until_held(running, "node-2", published)
    processes.kill(engine)
    again = starts.seen(running, "plain")
    assert again.verdict == "hit", str(again)
    wait_for(60, "the agent reads its outbox", lambda: "CompileCacheHit" in agents.events(running, "plain"))
    make.remove("plain")


# The client and the word of the agent, as a node may have them


@pytest.fixture
def mount(running: cluster.Cluster, published: str) -> Iterator[Path]:
    """What pods of node-2 see of it; afterwards its client and the agent's word are as they were."""
    workloads.wait_until_held(running, "node-2", published)
    place = running.nodes["node-2"].path(agents.ROOT) / layout.STORE / "default"
    before = {name: (place / name).read_bytes() for name in (layout.PROGRAM, layout.NODE)}
    yield place
    for name, data in before.items():
        (place / name).write_bytes(data)


_DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda data: data[: len(data) // 2],
    "empty": lambda _: b"",
    "garbage": lambda data: bytes(len(data)),
    "not-an-archive": lambda _: b"print('something else')\n",
}


@pytest.mark.parametrize("damage", _DAMAGES)
def test_a_damaged_client_costs_the_cache_and_not_the_start(
    running: cluster.Cluster, python: Path, mount: Path, damage: str
) -> None:
    client = mount / layout.PROGRAM
    client.write_bytes(_DAMAGES[damage](client.read_bytes()))
    log = workloads.told(running, workloads.failing(python, f"client-{damage}", {}, node="node-2"))
    assert log == "", "and nothing is said that would be in the way"


def test_a_new_agent_makes_the_client_whole(running: cluster.Cluster, mount: Path) -> None:
    client = mount / layout.PROGRAM
    whole = client.read_bytes()
    client.write_bytes(whole[:1000])
    agents.replace(running, "node-2")
    wait_for(60, "the client is whole", lambda: client.read_bytes() == whole)


def test_a_client_of_another_version_restores_what_this_one_brought(
    running: cluster.Cluster, python: Path, mount: Path, tmp_path: Path
) -> None:
    (mount / layout.PROGRAM).write_bytes(_of_version("7.0.0", tmp_path))
    pod = workloads.failing(python, "client-of-another-version", {}, node="node-2")
    assert "glowplug: restored " in workloads.told(running, pod)


def _of_version(version: str, place: Path) -> bytes:
    """This checkout's client, which says that it is that one."""
    with zipfile.ZipFile(pyz.build(place / layout.PROGRAM, interpreters={})) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    own = members["glowplug/__init__.py"].decode()
    members["glowplug/__init__.py"] = re.sub(r"(?m)^__version__.*=.*$", f'__version__ = "{version}"', own).encode()
    assert members["glowplug/__init__.py"] != own.encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return pyz.sealed(buffer.getvalue())


@pytest.mark.parametrize(
    "later",
    [{"min_reader": 2, "prefetching": "perhaps"}, {"schema": "glowplug.node/2"}, {"novelty": {"of": [1]}}],
    ids=["reader", "kind", "field"],
)
def test_the_word_of_a_later_agent_keeps_no_pod_from_what_is_there(
    running: cluster.Cluster, python: Path, mount: Path, later: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    word = mount / layout.NODE
    word.write_text(json.dumps({**json.loads(word.read_text()), "version": "7.0.0", **later}))
    name = f"word-of-another-{request.node.callspec.id}"
    assert "glowplug: restored " in workloads.told(running, workloads.failing(python, name, {}, node="node-2"))
