"""The startup taint, asked of a real API server by the agent's own client, with the rendered rights and policies in force."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import pytest

from glowplug.agent import taint
from glowplug.agent.taint import Taint
from glowplug.core.errors import BadInputError, ConflictError
from glowplug.kube.client import Client
from glowplug.kube.contract import Api
from glowplug.manifests.marks import STARTUP_TAINT
from glowplug.render.options import Mode
from lab import kube
from lab.kube.client import wait_for
from tests.agent import standing
from tests.agent.hearing import Heard
from tests.agent.standing import GPU, STARTUP, UNREGISTERED, Standing
from tests.parts import requires
from tests.render import installed

pytestmark = requires("kube")
KARPENTER = {"nodepool": "gpu"}


@pytest.fixture(scope="module")
def agent(kube_server: kube.Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """With the token that kubelet would give to the agent's pod on the node OWN."""
    with (
        installed.in_force(kube_server, Mode.SHARED),
        installed.pod_of(kube_server.admin, "DaemonSet", Mode.SHARED) as pod,
        standing.speaking(kube_server, pod.token, tmp_path_factory.mktemp("agent")) as client,
    ):
        yield client


@pytest.fixture
def make(agent: Client, heard: Heard, kube_server: kube.Server) -> Iterator[Callable[..., tuple[Standing, Taint]]]:
    """The agent's own node with these taints and labels of Karpenter, and the agent's work on it."""
    made: list[Any] = []

    def build(
        *taints: Mapping[str, Any], may: Callable[[], bool] = lambda: True, **labels: str
    ) -> tuple[Standing, Taint]:
        with_name = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": installed.OWN}}
        kube_server.admin.delete(with_name)
        context = standing.node(kube_server.admin, installed.OWN, [dict(one) for one in taints], **labels)
        node = context.__enter__()
        made.append(context)
        return node, Taint(agent, installed.OWN, STARTUP_TAINT, heard, may)

    yield build
    for context in made:
        context.__exit__(None, None, None)
        kube_server.admin.create(installed.node(installed.OWN))


Make = Callable[..., tuple[Standing, Taint]]


def _outcomes(heard: Heard) -> list[str]:
    return [outcome for (outcome,) in heard.of("taint")]


def test_it_goes_and_others_stay(make: Make, heard: Heard) -> None:
    node, work = make(GPU, STARTUP)
    work.look()
    assert node.taints() == ["nvidia.com/gpu"]
    assert _outcomes(heard) == ["removed"]
    assert heard.of("failed") == []


def test_all_taints_of_its_key_go_whatever_their_effect(make: Make) -> None:
    node, work = make(STARTUP, GPU, {**STARTUP, "effect": "NoExecute"})
    work.look()
    assert node.taints() == ["nvidia.com/gpu"]


def test_it_stays_while_the_node_is_not_warm_and_nobody_is_asked(make: Make, heard: Heard) -> None:
    warm = threading.Event()
    node, work = make(STARTUP, may=warm.is_set)
    work.look()
    assert node.taints() == [STARTUP_TAINT]
    assert heard.told == []
    warm.set()
    work.look()
    assert node.taints() == []


def test_a_node_without_it_is_said_once(make: Make, heard: Heard) -> None:
    _, work = make(GPU)
    for _ in range(3):
        work.look()
    assert _outcomes(heard) == ["absent"]


@pytest.mark.parametrize(
    ("taints", "labels"),
    [
        ([STARTUP], KARPENTER),
        ([STARTUP], KARPENTER | {"registered": "false"}),
        ([STARTUP, UNREGISTERED], {}),
        ([STARTUP, UNREGISTERED], KARPENTER | {"do-not-sync-taints": "true"}),
    ],
    ids=["no label", "not true", "Karpenter's own taint", "its taint beside the label"],
)
def test_before_karpenter_registered_the_node_it_stays(
    make: Make, heard: Heard, taints: Sequence[Mapping[str, Any]], labels: dict[str, str]
) -> None:
    """Karpenter would only put it back."""
    node, work = make(*taints, **labels)
    work.look()
    work.look()
    assert STARTUP_TAINT in node.taints()
    assert _outcomes(heard) == ["unregistered"]
    node.put(STARTUP, registered="true", nodepool="gpu")
    work.look()
    assert node.taints() == []
    assert _outcomes(heard) == ["unregistered", "removed"]


@pytest.mark.parametrize("labels", [{}, KARPENTER | {"do-not-sync-taints": "true"}], ids=["another's", "not synced"])
def test_where_karpenter_puts_nothing_back_it_goes_at_once(make: Make, labels: dict[str, str]) -> None:
    node, work = make(STARTUP, **labels)
    work.look()
    assert node.taints() == []


def test_one_that_is_put_back_goes_again(make: Make, heard: Heard) -> None:
    node, work = make(STARTUP, **KARPENTER, registered="true")
    work.look()
    node.put(STARTUP)
    work.look()
    assert node.taints() == []
    assert _outcomes(heard) == ["removed", "put_back", "removed"]


def test_until_the_node_is_settled_it_is_looked_for_often(make: Make) -> None:
    node, work = make(GPU, **KARPENTER, registered="true")
    often = work.look()
    node.put(GPU, initialized="true")
    assert work.look() > 10 * often


class _Meddled:
    """The API with somebody who changes the node between the agent's look and its patch, so many times."""

    def __init__(self, api: Client, meddle: Callable[[], None], times: int) -> None:
        self._api = api
        self._meddle = meddle
        self._left = times

    def node(self, name: str) -> Mapping[str, Any]:
        return self._api.node(name)

    def patch_node(self, name: str, operations: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        if self._left:
            self._left -= 1
            self._meddle()
        return self._api.patch_node(name, operations)


def test_what_others_change_meanwhile_is_kept(make: Make, agent: Client) -> None:
    node, _ = make(GPU, STARTUP)
    other = {"key": "other.example/x", "effect": "NoSchedule"}
    api = cast("Api", _Meddled(agent, lambda: node.put(GPU, STARTUP, other), 1))
    assert taint.remove(api, agent.node(installed.OWN), STARTUP_TAINT)
    assert node.taints() == ["nvidia.com/gpu", "other.example/x"]


def test_what_others_removed_meanwhile_is_no_fault(make: Make, agent: Client) -> None:
    node, _ = make(GPU, STARTUP)
    api = cast("Api", _Meddled(agent, lambda: node.put(GPU), 1))
    assert not taint.remove(api, agent.node(installed.OWN), STARTUP_TAINT)
    assert node.taints() == ["nvidia.com/gpu"]


def test_a_list_that_changes_all_the_time_is_given_up_for_now(make: Make, agent: Client) -> None:
    node, _ = make(GPU, STARTUP)
    numbers = iter(range(1000))
    more = {"key": "other.example/x", "effect": "NoSchedule"}
    api = _Meddled(agent, lambda: node.put(GPU, STARTUP, {**more, "value": str(next(numbers))}), 1000)
    with pytest.raises(ConflictError):
        taint.remove(cast("Api", api), agent.node(installed.OWN), STARTUP_TAINT)
    assert STARTUP_TAINT in node.taints()


def test_a_refusal_is_told_and_tried_again(agent: Client, heard: Heard, kube_server: kube.Server) -> None:
    """Of another node: the policy says no."""
    with standing.node(kube_server.admin, taints=[STARTUP]) as node:
        work = Taint(agent, node.name, STARTUP_TAINT, heard, lambda: True)
        waits = [work.look() for _ in range(3)]
        assert node.taints() == [STARTUP_TAINT]
    assert waits == sorted(set(waits)), "more and more rarely"
    assert _outcomes(heard) == ["failed"] * 3
    assert [what for what, _ in heard.of("failed")] == ["taint"] * 3
    work.look()
    assert heard.of("failed")[-1] == ("taint", "not-found")


def test_the_policy_is_what_refuses(agent: Client, kube_server: kube.Server) -> None:
    with standing.node(kube_server.admin, taints=[STARTUP]) as node, pytest.raises(BadInputError, match="no other"):
        taint.remove(agent, agent.node(node.name), STARTUP_TAINT)


def test_it_runs_until_it_is_told_to_end(make: Make, heard: Heard) -> None:
    node, work = make(STARTUP, **KARPENTER)
    stop = threading.Event()
    thread = threading.Thread(target=work.run, args=(stop,), daemon=True)
    thread.start()
    try:
        wait_for(30, "it was looked at", lambda: _outcomes(heard) == ["unregistered"])
        node.put(STARTUP, registered="true")
        wait_for(30, "it is gone", lambda: node.taints() == [])
        node.put(STARTUP)
        wait_for(30, "it is gone again", lambda: node.taints() == [])
    finally:
        stop.set()
        thread.join(30)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2026-11-30T20:00:00Z", 60.0), ("2026-11-30T21:00:00Z", 0.0), ("", 0.0), ("yesterday", 0.0)],
    ids=["a minute ago", "a clock that goes before", "none", "no moment"],
)
def test_age(text: str, seconds: float) -> None:
    assert taint.age({"metadata": {"creationTimestamp": text}}, 1796068860.0) == seconds
