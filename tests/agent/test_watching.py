"""The pods of a node as a real API server tells of them, those gone too, and the trust domain that each is in."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from glowplug.agent import claims, watching
from glowplug.agent.settings import Mode, Publisher, Settings
from glowplug.agent.watching import Pods
from glowplug.core.errors import AccessDeniedError, NotFoundError, UnavailableError
from glowplug.kube import connect
from glowplug.kube.contract import Change, Seen
from lab import kube
from tests.agent import claiming
from tests.agent.hearing import Heard
from tests.clocks import Held
from tests.parts import requires

real_kube = requires("kube")


@pytest.fixture(autouse=True)
def outboxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every pod here has an outbox, unless a test says otherwise."""
    for number in range(400):
        (tmp_path / "outbox" / f"u{number}").mkdir(parents=True)
    monkeypatch.setitem(_ROOT, "root", tmp_path)
    return tmp_path / "outbox"


_ROOT: dict[str, Path] = {}


def settings(**changes: Any) -> Settings:
    return Settings(_ROOT["root"], **{"node_name": "n1", "domains": ("one", "two"), **changes})


def until(holds: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@contextmanager
def watched(pods: Pods) -> Iterator[Pods]:
    stop = threading.Event()
    thread = threading.Thread(target=pods.run, args=(stop,))
    thread.start()
    try:
        assert pods.synced.wait(60)
        yield pods
    finally:
        stop.set()
        thread.join(60)
        assert not thread.is_alive()


class TestWithARealServer:
    pytestmark = real_kube

    @pytest.fixture
    def namespace(self, kube_server: kube.Server) -> str:
        name = f"w-{secrets.token_hex(4)}"
        kube_server.make_namespace(name, {"glowplug.dev/domain": "two"})
        return name

    @pytest.fixture
    def node(self) -> str:
        return f"n-{secrets.token_hex(4)}"

    def _pod(self, namespace: str, node: str, name: str) -> dict[str, Any]:
        container = {"name": "c", "image": "vllm/vllm-openai:v0.21.0"}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"nodeName": node, "containers": [container]},
        }

    def test_a_pod_as_large_as_the_server_takes_costs_nothing_and_publishes_nothing(
        self, kube_server: kube.Server, namespace: str, node: str
    ) -> None:
        """A megabyte that a shell would have to be followed through: refused by its length, within the watch and behind it."""
        api = connect.from_kubeconfig(str(kube_server.kubeconfig(kube_server.administrator)))
        for name, size in (("whole", 90_000), ("cut", 1_000_000)):
            large = self._pod(namespace, node, name)
            large["spec"]["containers"][0]["command"] = ["sh", "-c", "true;" * (size // 5) + "exec vllm serve m"]
            kube_server.admin.create(large)
        told = settings(node_name=node, publishers=(Publisher(namespace),))
        with api, watched(Pods(api, told, Heard())) as pods:
            for name, words in (("whole", "have more than"), ("cut", "larger than what the agent keeps")):
                uid = kube_server.admin.get("v1", "Pod", name, namespace).document["metadata"]["uid"]
                kept = pods.get(uid)
                assert kept is not None
                refusal = claims.judge(claiming.claim(domain="two"), kept, told, claiming.CANDIDATES)
                assert refusal is not None
                assert (refusal.reason, words in refusal.detail) == ("claim:command", True)

    def test_pods_come_and_go(self, kube_server: kube.Server, namespace: str, node: str, outboxes: Path) -> None:
        api = connect.from_kubeconfig(str(kube_server.kubeconfig(kube_server.administrator)))
        before = self._pod(namespace, node, "before")
        other = self._pod(namespace, f"{node}-other", "other")
        elsewhere = kube_server.admin.create(other).document["metadata"]["uid"]
        uid = kube_server.admin.create(before).document["metadata"]["uid"]
        (outboxes / uid).mkdir()
        heard = Heard()
        with watched(Pods(api, settings(node_name=node), heard)) as pods:
            found = pods.get(uid)
            assert found is not None
            assert (found.namespace, found.name, found.account, found.domain) == (namespace, "before", "default", "two")
            assert "managedFields" not in found.object["metadata"]
            assert pods.get(elsewhere) is None, "another node's pods are nobody's here"
            later = kube_server.admin.create(self._pod(namespace, node, "later")).document["metadata"]["uid"]
            until(lambda: pods.get(later))
            kube_server.admin.delete(before)
            until(lambda: (gone := pods.get(uid)) is not None and gone.gone)
            assert (left := pods.get(later)) is not None and not left.gone
        assert heard.of("failed") == []


class Api:
    """Says of namespaces what it is told to; for faults that a real server has only now and then."""

    def __init__(self) -> None:
        self.labels: dict[str, str] = {}
        self.error: Exception | None = None
        self.asked = 0
        self.asked_for_pods = 0
        self.listed: list[dict[str, Any]] = []

    def pods(self, *, namespace: str, node: str) -> Iterator[dict[str, Any]]:
        self.asked_for_pods += 1
        assert (namespace, node) == ("team", "n1")
        return iter(self.listed)

    def namespace(self, name: str) -> dict[str, Any]:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return {"metadata": {"name": name, "labels": self.labels}}


def pod(uid: str = "u1", namespace: str = "team") -> dict[str, Any]:
    return {"metadata": {"uid": uid, "namespace": namespace, "name": f"p-{uid}"}, "spec": {"serviceAccountName": "a"}}


LISTING = Change(Seen.LISTING, {})
SYNCED = Change(Seen.SYNCED, {})


def here(uid: str = "u1") -> Change:
    return Change(Seen.HERE, pod(uid))


def gone(uid: str = "u1") -> Change:
    return Change(Seen.GONE, pod(uid))


def _gone(pods: Pods, *uids: str) -> dict[str, bool]:
    """Which of these are gone; all are known."""
    found = {uid: pods.get(uid) for uid in uids or ("u1", "u2")}
    return {uid: one.gone for uid, one in found.items() if one is not None}


class TestWhatIsRemembered:
    def test_a_pod_that_is_gone_for_an_hour(self) -> None:
        clock = Held()
        pods = Pods(Api(), settings(), Heard(), clock)  # type: ignore[arg-type]
        pods.take(here())
        pods.take(gone())
        clock.at = watching.REMEMBERED_SECONDS - 1
        found = pods.get("u1")
        assert found is not None
        assert found.gone
        clock.at += 2
        assert pods.get("u1") is None

    def test_what_a_new_listing_does_not_tell_of_is_gone(self) -> None:
        pods = Pods(Api(), settings(), Heard())  # type: ignore[arg-type]
        for change in (LISTING, here("u1"), here("u2"), SYNCED, LISTING, here("u2"), SYNCED):
            pods.take(change)
        assert _gone(pods) == {"u1": True, "u2": False}

    def test_what_changes_told_of_before_a_new_listing_does_not_count(self) -> None:
        """A watch whose version expired lists anew; what went in the gap was changed before."""
        pods = Pods(Api(), settings(), Heard())  # type: ignore[arg-type]
        for change in (LISTING, here("u1"), here("u2"), SYNCED, here("u1"), here("u2"), LISTING, here("u2"), SYNCED):
            pods.take(change)
        assert _gone(pods) == {"u1": True, "u2": False}

    def test_a_listing_that_breaks_off_takes_nobody_away(self) -> None:
        pods = Pods(Api(), settings(), Heard())  # type: ignore[arg-type]
        for change in (LISTING, here("u1"), SYNCED, LISTING, LISTING, here("u1"), SYNCED):
            pods.take(change)
        assert _gone(pods, "u1") == {"u1": False}

    def test_a_pod_that_comes_back_is_here(self) -> None:
        pods = Pods(Api(), settings(), Heard())  # type: ignore[arg-type]
        for change in (here(), gone(), here()):
            pods.take(change)
        found = pods.get("u1")
        assert found is not None
        assert not found.gone

    def test_no_more_than_a_bounded_number(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(watching, "_REMEMBERED", 2)
        pods = Pods(Api(), settings(), Heard())  # type: ignore[arg-type]
        for number in range(4):
            pods.take(here(f"u{number}"))
            pods.take(gone(f"u{number}"))
        assert [pods.get(f"u{number}") is not None for number in range(4)] == [False, False, True, True]

    def test_nothing_of_a_pod_that_is_gone_without_an_outbox(self, outboxes: Path) -> None:
        pods = Pods(Api(), settings(), Heard())  # type: ignore[arg-type]
        (outboxes / "u1").rmdir()
        for change in (here("u1"), here("u2"), gone("u1"), gone("u2")):
            pods.take(change)
        assert [pods.get(uid) is not None for uid in ("u1", "u2")] == [False, True]

    @pytest.mark.parametrize("part", ["metadata", "spec", "status"])
    @pytest.mark.parametrize("said", [None, [], "text"])
    def test_an_object_that_is_said_wrong_ends_nothing(self, part: str, said: object) -> None:
        pods = Pods(Api(), settings(), Heard())  # type: ignore[arg-type]
        wrong = {**pod("u2"), part: said}
        for change in (Change(Seen.HERE, wrong), Change(Seen.GONE, wrong), here("u1")):
            pods.take(change)
        assert pods.get("u1") is not None
        assert pods.get("") is None

    def test_of_an_object_what_is_asked_for(self) -> None:
        found = {
            **pod(),
            "spec": {
                "serviceAccountName": "a",
                "nodeName": "n1",
                "containers": [{"name": "c", "image": "i", "command": ["x"], "lifecycle": {"much": 1}}],
                "affinity": {"much": 1},
            },
            "status": {
                "phase": "Running",
                "conditions": [1],
                "containerStatuses": [{"name": "c", "imageID": "sha256:0", "restartCount": 2, "lastState": {}}],
            },
        }
        found["metadata"]["annotations"] = {"much": "x"}
        pods = Pods(Api(), settings(), Heard())  # type: ignore[arg-type]
        pods.take(Change(Seen.HERE, found))
        kept = pods.get("u1")
        assert kept is not None
        assert kept.object == {
            "metadata": {"uid": "u1", "namespace": "team", "name": "p-u1"},
            "spec": {
                "containers": [{"name": "c", "image": "i", "command": ["x"]}],
                "serviceAccountName": "a",
                "nodeName": "n1",
            },
            "status": {
                "phase": "Running",
                "containerStatuses": [{"name": "c", "imageID": "sha256:0", "restartCount": 2}],
            },
        }

    def test_no_more_than_a_bounded_number_of_bytes(self) -> None:
        """Three hundred pods as large as the API takes them, a third of them gone; small ones keep what they ask for."""
        pods = Pods(Api(), settings(), Heard())  # type: ignore[arg-type]
        for number, size in enumerate([100_000, 1_300_000] * 150):
            large = pod(f"u{number}")
            large["spec"]["containers"] = [{"name": "c", "image": "i", "command": ["x" * size]}]
            pods.take(Change(Seen.HERE, large))
            if not number % 3:
                pods.take(Change(Seen.GONE, large))
        pods.take(Change(Seen.HERE, pod("u399")))
        kept = [*pods._here.values(), *(one for _, one in pods._gone.values())]
        assert sum(len(one.text) for one in kept) == pods._size < 18 << 20
        assert all(pods.get(f"u{number}") is not None for number in range(300) if number % 3)
        last = pods.get("u399")
        assert last is not None

    def test_small_pods_do_not_suffer_for_large_ones_and_those_are_asked_for_again(self) -> None:
        """However many large ones somebody makes before an honest one comes."""
        api, clock = Api(), Held()
        pods = Pods(api, settings(), Heard(), clock)  # type: ignore[arg-type]
        small = pod("u399")
        small["spec"]["containers"] = [{"name": "c", "image": "i", "command": ["x"]}]
        for number in range(300):
            large = pod(f"u{number}")
            large["spec"]["containers"] = [{"name": "c", "image": "i", "command": ["x" * 100_000]}]
            pods.take(Change(Seen.HERE, large))
            api.listed.append(large)
        pods.take(Change(Seen.HERE, small))
        found = [pods.get("u399"), *(pods.get(f"u{number}") for number in range(300))]
        assert api.asked_for_pods == 0
        assert found[0] is not None
        assert found[0].object["spec"]["containers"] == small["spec"]["containers"]
        assert all(len(one.object["spec"]["containers"][0]["command"][0]) == 100_000 for one in found[1:] if one)
        assert 0 < api.asked_for_pods < 300
        cut = next(one for one in pods._here.values() if one.cut).pod.uid
        pods.take(Change(Seen.GONE, pod(cut)))
        api.listed.clear()
        assert pods._size < 16 << 20

    def test_a_large_one_that_the_api_has_no_more_is_a_name(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(watching, "_MOST_BYTES", 1000)
        pods = Pods(Api(), settings(), Heard())  # type: ignore[arg-type]
        large = pod("u1")
        large["spec"]["containers"] = [{"name": "c", "image": "i", "command": ["x" * 5000]}]
        pods.take(Change(Seen.HERE, large))
        found = pods.get("u1")
        assert found is not None
        assert found.object == {
            "metadata": {"uid": "u1", "name": "p-u1", "namespace": "team"},
            "spec": {},
            "status": {},
        }

    def test_nothing_of_a_pod_that_nobody_spoke_of(self) -> None:
        pods = Pods(Api(), settings(), Heard())  # type: ignore[arg-type]
        pods.take(gone())
        assert pods.get("u1") is None
        assert not pods.synced.is_set()


class TestArrivals:
    def _arrived(self, *changes: Change, **of: Any) -> list[str]:
        found: list[str] = []
        pods = Pods(Api(), settings(**of), Heard(), arrived=lambda one: found.append(one.uid))  # type: ignore[arg-type]
        for change in changes:
            pods.take(change)
        return found

    def _labelled(self, uid: str, mode: str = "node", phase: str = "Pending") -> Change:
        found = pod(uid)
        found["metadata"]["labels"] = {"glowplug.dev/mode": mode}
        return Change(Seen.HERE, {**found, "status": {"phase": phase}})

    def test_are_pods_of_this_mode_that_come_once_all_were_listed(self) -> None:
        one = self._labelled
        assert self._arrived(
            LISTING, one("u1"), SYNCED, one("u1"), one("u2"), one("u2"), one("u3", "direct"), here("u4")
        ) == ["u2"]

    def test_are_none_that_are_over(self) -> None:
        assert self._arrived(SYNCED, self._labelled("u1", phase="Succeeded")) == []

    def test_are_told_when_a_watch_begins_anew(self) -> None:
        one = self._labelled
        assert self._arrived(LISTING, one("u1"), SYNCED, LISTING, one("u1"), one("u2"), SYNCED) == ["u2"]


class TestAPodOfADomainThatIsNotKept:
    """It waits for this node's agent in vain, and its launcher cannot know why."""

    def _unkept(self, *changes: Change, **of: Any) -> set[tuple[Any, ...]]:
        heard = Heard()
        pods = Pods(Api(), settings(**of), heard)  # type: ignore[arg-type]
        for change in changes:
            pods.take(change)
        return set(heard.of("unkept"))

    def _here(self, mode: str = "node", phase: str = "Pending") -> Change:
        found = pod()
        found["metadata"]["labels"] = {"glowplug.dev/mode": mode}
        return Change(Seen.HERE, {**found, "status": {"phase": phase}})

    def test_is_told_also_where_it_was_there_before_the_agent(self) -> None:
        assert self._unkept(LISTING, self._here(), SYNCED) == {("u1", "team")}

    @pytest.mark.parametrize(("mode", "phase"), [("direct", "Running"), ("shared", "Running"), ("node", "Succeeded")])
    def test_is_none_that_does_not_ask_for_anything(self, mode: str, phase: str) -> None:
        assert self._unkept(self._here(mode, phase), SYNCED) == set()

    def test_is_none_of_a_domain_that_is_kept(self) -> None:
        assert self._unkept(self._here(), domains=("one", "team")) == set()

    def test_is_none_of_a_node_in_shared_mode(self) -> None:
        assert self._unkept(self._here("shared"), self._here(), mode=Mode.SHARED) == set()

    def test_is_told_when_its_domain_is_known_at_last(self) -> None:
        api, clock, heard = Api(), Held(), Heard()
        api.error = UnavailableError("away")
        pods = Pods(api, settings(), heard, clock)  # type: ignore[arg-type]
        pods.take(self._here())
        assert heard.of("unkept") == []
        api.error, clock.at = None, 6.0
        pods.get("u1")
        assert heard.of("unkept") == [("u1", "team")]


class TestTheDomain:
    @pytest.mark.parametrize(
        ("labels", "domains", "domain"),
        [
            ({}, ("one", "two"), "team"),
            ({}, ("one",), "team"),
            ({"glowplug.dev/domain": ""}, ("one",), "team"),
            ({"glowplug.dev/domain": "three"}, ("one",), "three"),
            ({}, ("team",), "team"),
        ],
    )
    def test_is_the_namespace_s(self, labels: dict[str, str], domains: tuple[str, ...], domain: str) -> None:
        api = Api()
        api.labels = labels
        pods = Pods(api, settings(domains=domains), Heard())  # type: ignore[arg-type]
        pods.take(here())
        found = pods.get("u1")
        assert found is not None
        assert found.domain == domain

    def test_stays_what_it_was_when_the_pod_came(self) -> None:
        api = Api()
        pods = Pods(api, settings(), Heard())  # type: ignore[arg-type]
        pods.take(here())
        api.labels = {"glowplug.dev/domain": "other"}
        pods.take(here())
        pods.take(gone())
        found = pods.get("u1")
        assert found is not None
        assert found.domain == "team"

    def test_is_not_guessed_while_the_api_does_not_answer(self) -> None:
        api, clock, heard = Api(), Held(), Heard()
        api.error = UnavailableError("away")
        pods = Pods(api, settings(), heard, clock)  # type: ignore[arg-type]
        pods.take(here())
        first = pods.get("u1")
        assert first is not None
        assert first.domain == ""
        assert api.asked == 1, "and it is not asked at every look"
        pods.take(gone())
        api.error, clock.at = None, 6.0
        later = pods.get("u1")
        assert later is not None
        assert (later.domain, later.gone) == ("team", True)
        assert heard.of("failed") == [("api", "unavailable")]

    def test_namespaces_that_were_not_told_are_forgotten_after_a_while(self) -> None:
        api, clock = Api(), Held()
        api.error = UnavailableError("away")
        pods = Pods(api, settings(), Heard(), clock)  # type: ignore[arg-type]
        for number in range(50):
            pods.take(Change(Seen.HERE, pod(f"u{number}", f"team-{number}")))
            clock.at += 1.0
        assert len(pods._asked) < 10

    def test_of_a_namespace_that_is_gone_already_is_its_name(self) -> None:
        api = Api()
        api.error = NotFoundError("gone")
        pods = Pods(api, settings(), Heard())  # type: ignore[arg-type]
        pods.take(here())
        found = pods.get("u1")
        assert found is not None
        assert found.domain == "team"


def test_a_watch_that_is_refused_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_WAITS", (0.01, 60.0))
    heard = Heard()

    class Refusing(Api):
        def watch_pods(self, *, node: str, stop: threading.Event) -> Iterator[Change]:
            self.asked += 1
            if self.asked < 3:
                raise AccessDeniedError("watch pods: forbidden")
            yield SYNCED
            stop.wait()

    with watched(Pods(Refusing(), settings(), heard)):  # type: ignore[arg-type]
        assert heard.of("failed") == [("api", "access-denied")] * 2
