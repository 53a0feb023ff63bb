"""Trust domains that an agent keeps no more: their directories go, but never under a pod."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from glowplug.agent.leavings import GRACE_SECONDS, Leavings
from glowplug.agent.troubles import Troubles
from glowplug.agent.watching import Pods
from glowplug.check import standing
from glowplug.core.errors import UnavailableError
from glowplug.kube.contract import Change, Seen
from glowplug.nodestore import layout, write
from tests.agent.hearing import DOMAIN, Heard, settings
from tests.clocks import Held


class Api:
    """Of namespaces without labels."""

    error: Exception | None = None

    def namespace(self, name: str) -> dict[str, Any]:
        if self.error is not None:
            raise self.error
        return {"metadata": {"name": name}}


def pod(namespace: str, uid: str = "u1", volume: str = "") -> dict[str, Any]:
    volumes = [{"name": "store", "hostPath": {"path": volume}}]
    labels = {"glowplug.dev/mode": "node"}
    metadata = {"uid": uid, "namespace": namespace, "name": f"p-{uid}", "labels": labels}
    return {"metadata": metadata, "spec": {"volumes": volumes}, "status": {"phase": "Running"}}


class Node:
    """A node with a domain that is kept and one that was."""

    def __init__(self, root: Path) -> None:
        self.root, self.clock, self.heard, self.api = root, Held(), Heard(), Api()
        told = settings(root)
        self.pods = Pods(self.api, told, self.heard, self.clock)  # type: ignore[arg-type]
        self.leavings = Leavings(told, self.pods, Troubles(told, self.heard), self.heard, self.clock)
        for domain in (DOMAIN, "old"):
            write.prepare(root, domain)
        (layout.store(root, "old") / ".glowplug" / "rest").mkdir(parents=True)

    def see(self, *pods: dict[str, Any]) -> None:
        for one in pods:
            self.pods.take(Change(Seen.HERE, one))
        self.pods.take(Change(Seen.SYNCED, {}))

    def after(self, seconds: float) -> list[str]:
        """The domains that have a directory, when the agent has looked at once and again after so long."""
        self.leavings.round()
        self.clock.at += seconds
        self.leavings.round()
        return sorted(path.name for path in layout.stores(self.root).iterdir())


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "glowplug")


def test_they_go_after_a_while(node: Node) -> None:
    node.see(pod(DOMAIN))
    assert node.after(GRACE_SECONDS - 1) == [DOMAIN, "old"]
    assert node.after(1) == [DOMAIN]


def test_not_before_all_pods_of_the_node_are_known(node: Node) -> None:
    assert node.after(2 * GRACE_SECONDS) == [DOMAIN, "old"]


@pytest.mark.parametrize(
    "one", [pod("old"), pod("other", volume="/mnt/glowplug/store/old")], ids=["of it", "that mounts it"]
)
def test_not_while_a_pod_is_here(node: Node, one: dict[str, Any]) -> None:
    """Its namespace may have another label by now: what it mounts is what counts."""
    node.see(one)
    assert node.after(2 * GRACE_SECONDS) == [DOMAIN, "old"]
    node.pods.take(Change(Seen.GONE, one))
    assert node.after(GRACE_SECONDS - 1) == [DOMAIN, "old"], "the grace begins when it is gone"
    assert node.after(1) == [DOMAIN]


def test_not_while_the_domain_of_a_pod_is_not_known(node: Node) -> None:
    node.api.error = UnavailableError("away")
    node.see(pod("any"))
    assert node.after(2 * GRACE_SECONDS) == [DOMAIN, "old"]


def test_a_key_that_is_left_is_told(node: Node) -> None:
    (layout.store(node.root, "old") / ("0" * 64)).mkdir()
    node.see()
    assert node.after(GRACE_SECONDS) == [DOMAIN]
    assert node.heard.of("removed") == [("old", "0" * 64, "domain")]


def test_what_a_killed_agent_was_removing_goes_with_the_next(node: Node) -> None:
    (layout.stores(node.root) / ".gone-0123" / "x").mkdir(parents=True)
    node.see()
    assert node.after(GRACE_SECONDS) == [DOMAIN]


def test_pods_of_domains_that_are_not_kept_are_named_on_the_node(node: Node) -> None:
    node.see(pod("inference", "u1"), pod("inference", "u2"), pod(DOMAIN, "u3"))
    node.leavings.round()
    said = standing.read(node.root)
    assert said is not None
    assert said.strangers == {"inference": "inference/p-u1"}
    assert set(node.heard.of("unkept")) == {("u1", "inference"), ("u2", "inference")}
