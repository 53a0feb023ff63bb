"""The real launcher's own claim, against the pod that it was started in: what is observed there and inferred here is one key."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from glowplug.agent.claims import judge
from glowplug.agent.pods import Pod
from glowplug.core.clock import Deadline
from glowplug.core.documents.node import OutboxPart
from glowplug.host import cpu
from glowplug.nodestore import write
from glowplug.nodestore.inbox import Inbox
from tests.agent.claiming import SETTINGS, container, pod
from tests.launch.conftest import free_port
from tests.launch.pod import STAY
from tests.launch.test_node import DOMAIN, NodePod
from tests.supervise.machine import PROGRAM

__all__ = ["free_port"]

HERE = replace(SETTINGS, domains=(DOMAIN,))


@pytest.fixture
def node_pod(tmp_path: Path) -> Iterator[NodePod]:
    """A pod beside a node store that is ready and empty."""
    one = NodePod(tmp_path, agent=tmp_path / "agent")
    write.prepare(one.agent, DOMAIN)
    write.mark_ready(one.agent, DOMAIN)
    one.outbox.mkdir(parents=True)
    yield one
    one.close()


def of_api(words: list[str], node_pod: NodePod) -> Pod:
    """The pod as the API has it. Its namespace is the tests' usual one, which has this domain by a label."""
    told = {"GLOWPLUG_ENGINE": "torch", "GLOWPLUG_CACHE_ROOT": str(node_pod.root), "GLOWPLUG_DOMAIN": DOMAIN}
    made = container(words, image="own/train:1")
    made["env"] = [*made["env"], *({"name": name, "value": value} for name, value in told.items())]
    return pod(made, domain=DOMAIN)


def parts(node_pod: NodePod) -> list[OutboxPart]:
    return [one.part for one in Inbox(node_pod.agent).archives(node_pod.outbox.name, Deadline.after(30))]


def test_what_a_launcher_seals_is_believed_of_its_own_pod_and_of_no_other(node_pod: NodePod, free_port: int) -> None:
    node_pod.serve(free_port)
    words: list[Any] = [sys.executable, str(PROGRAM), "--port", str(free_port), "--stay", STAY]
    found = parts(node_pod)
    assert found
    for part in found:
        assert judge(part, of_api(words, node_pod), HERE, (cpu.here(),)) is None
        refusal = judge(part, of_api([sys.executable, "/app/other.py"], node_pod), HERE, (cpu.here(),))
        assert refusal is not None
        assert refusal.reason == "claim:model"
