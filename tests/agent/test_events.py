"""Events that an API server takes, each once, and that nobody waits for."""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from glowplug.agent import events
from glowplug.agent.events import REASONS, Reason
from glowplug.agent.pods import Pod
from glowplug.agent.posting import PER_OBJECT, QUEUE, Posting
from glowplug.core.clock import Deadline
from glowplug.core.errors import AccessDeniedError, GlowplugError, UnavailableError
from glowplug.kube import connect
from glowplug.kube.client import Client
from lab import kube
from tests.clocks import by
from tests.parts import requires

POD = Pod("3e6a9b0c-8b4a-4c58-9d0f-3f6a9c1d2e3f", "team-a", "vllm-0", "vllm", "team-a", {})


def event(message: str = "x", *, once: str = "", one: Pod = POD, reason: Reason = events.HIT) -> dict[str, Any]:
    return events.about_pod(one, reason, message, node="node-1", now=1_800_000_000.0, once=once)


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason.name)
def test_every_reason_is_one_word_and_is_explained(reason: Reason) -> None:
    assert re.fullmatch(r"([A-Z][a-z0-9]*)+", reason.name) and len(reason.name) <= 128
    assert reason.type in ("Normal", "Warning") and reason.about in ("Pod", "Node")
    assert reason.means.endswith(".") and (reason.advice or reason.type == "Normal")


class TestAnEvent:
    def test_has_one_name_for_what_is_told_twice(self) -> None:
        name = event("a", once="start-1")["metadata"]["name"]
        assert event("b", once="start-1")["metadata"]["name"] == name
        assert event("a", once="start-2")["metadata"]["name"] != name
        assert event("a", once="start-1", one=replace(POD, uid="another"))["metadata"]["name"] != name
        assert event("a", once="start-1", reason=events.MISS)["metadata"]["name"] != name

    def test_quotes_a_pod_s_words_in_one_short_line_without_credentials(self) -> None:
        said = event("one\ntwo \x1b[31m hf_AbCdEfGhIjKlMnOpQrStUv " + "x" * 5000)["message"]
        assert "hf_***" in said and "\\n" in said and "\x1b" not in said and len(said) <= 1000


@pytest.fixture(scope="module")
def api(kube_server: kube.Server) -> Iterator[Client]:
    with connect.from_kubeconfig(str(kube_server.kubeconfig(kube_server.administrator))) as client:
        yield client


@requires("kube")
class TestAServer:
    @pytest.fixture
    def namespace(self, kube_server: kube.Server) -> str:
        own = f"e-{uuid.uuid4().hex[:8]}"
        kube_server.make_namespace(own)
        return own

    @pytest.mark.parametrize("name", ["vllm-0", "a" * 253, f"{'a' * 199}-{'b' * 20}", f"{'a' * 199}.b"])
    def test_takes_an_event_about_a_pod_once(self, api: Client, namespace: str, name: str) -> None:
        one = replace(POD, namespace=namespace, name=name)
        assert api.put_event(event("first", one=one)) is True
        assert api.put_event(event("second", one=one)) is False
        (found,) = api.events(namespace, one.uid)
        assert (found["reason"], found["message"], found["type"]) == ("CompileCacheHit", "first", "Normal")
        assert found["source"] == {"component": "glowplug.dev/agent", "host": "node-1"}

    def test_takes_an_event_about_a_node(self, api: Client) -> None:
        name = f"node-{uuid.uuid4().hex[:8]}"
        assert api.put_event(events.about_node(name, events.NOT_NVME, "ext4", now=1.8e9, once="")) is True
        (found,) = api.events("default", name)
        assert found["involvedObject"]["kind"] == "Node"

    def test_finds_them_by_their_source(self, kube_server: kube.Server, api: Client, namespace: str) -> None:
        """As the reference says that kubectl does."""
        api.put_event(event(one=replace(POD, namespace=namespace)))
        query = "fieldSelector=source%3Dglowplug.dev%2Fagent"
        answer = kube_server.admin.request("GET", f"/api/v1/namespaces/{namespace}/events?{query}")
        assert len(answer.document["items"]) == 1


class Server:
    """An API server as far as events go; `faults` are raised one after the other, then it works."""

    def __init__(self, *faults: Exception, present: frozenset[str] = frozenset()) -> None:
        self.faults = list(faults)
        self.present = set(present)
        self.asked: list[str] = []
        self.gate = threading.Event()
        self.gate.set()

    def put_event(self, one: Any) -> bool:
        self.gate.wait(60)
        self.asked.append(one["metadata"]["name"])
        if self.faults:
            raise self.faults.pop(0)
        new = one["metadata"]["name"] not in self.present
        self.present.add(one["metadata"]["name"])
        return new


class TestPosting:
    def posting(self, server: Server) -> Posting:
        self.counted: list[str] = []
        self.failed: list[BaseException] = []
        return Posting(server, self.counted.append, self.failed.append)  # type: ignore[arg-type]

    def test_posts_all_in_order_and_each_name_once(self) -> None:
        server = Server()
        posting = self.posting(server)
        wanted = [event(once=str(number)) for number in range(5)]
        for one in (*wanted, *wanted):
            posting.put(one)
        posting.close(Deadline.after(60))
        assert server.asked == [one["metadata"]["name"] for one in wanted]
        assert self.counted == ["posted"] * 5

    def test_of_an_agent_before_this_one_is_known(self) -> None:
        server = Server(present=frozenset({event()["metadata"]["name"]}))
        posting = self.posting(server)
        posting.put(event())
        posting.close(Deadline.after(60))
        assert self.counted == ["known"]

    def test_asks_again_where_the_server_does_not_answer(self) -> None:
        server = Server(UnavailableError("away"), UnavailableError("busy", retry_after=0.01))
        posting = self.posting(server)
        posting.put(event())
        with by(60):
            while "posted" not in self.counted:
                threading.Event().wait(0.01)
        assert (len(server.asked), len(self.failed)) == (3, 2)

    @pytest.mark.parametrize("fault", [AccessDeniedError("no"), GlowplugError("?"), RuntimeError("ours")])
    def test_lets_go_of_what_is_not_taken(self, fault: Exception) -> None:
        server = Server(fault)
        posting = self.posting(server)
        posting.put(event(once="1"))
        posting.put(event(once="2"))
        posting.close(Deadline.after(60))
        assert (self.counted, self.failed) == (["dropped", "posted"], [fault])

    def test_of_one_pod_is_bounded_and_leaves_the_others_theirs(self) -> None:
        posting = self.posting(Server())
        for number in range(PER_OBJECT + 30):
            posting.put(event(once=str(number)))
        posting.put(event(one=replace(POD, uid="another")))
        posting.close(Deadline.after(60))
        assert (self.counted.count("posted"), self.counted.count("dropped")) == (PER_OBJECT + 1, 30)

    def test_never_waits_for_a_server_that_hangs(self) -> None:
        server = Server()
        server.gate.clear()
        posting = self.posting(server)
        with by(5):
            for number in range(QUEUE + 50):
                posting.put(event(one=replace(POD, uid=f"u{number}")))
            posting.close(Deadline.after(0.1))
        assert self.counted.count("dropped") >= 49
        server.gate.set()

    def test_that_is_closed_while_the_server_is_away_ends(self) -> None:
        posting = self.posting(Server(*[UnavailableError("away")] * 1000))
        for number in range(20):
            posting.put(event(once=str(number)))
        with by(10) as deadline:
            posting.close(deadline)
        assert self.counted == ["dropped"] * 20
