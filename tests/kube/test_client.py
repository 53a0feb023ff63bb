"""The promises of kube/contract.py, asked of a real API server."""

from __future__ import annotations

import functools
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from glowplug.core.errors import (
    AccessDeniedError,
    BadInputError,
    ConflictError,
    GlowplugError,
    NotFoundError,
    UsageError,
)
from glowplug.kube import connect
from glowplug.kube.client import Client
from glowplug.kube.contract import Api, Change
from lab import kube
from tests.clocks import SLACK
from tests.parts import requires

pytestmark = requires("kube")
Object = dict[str, Any]


@pytest.fixture(scope="module")
def api(kube_server: kube.Server) -> Iterator[Client]:
    with connect.from_kubeconfig(str(kube_server.kubeconfig(kube_server.administrator))) as client:
        yield client


@pytest.fixture
def name(kube_server: kube.Server) -> str:
    """A namespace and a node of the test's own, both of this name."""
    own = f"c-{uuid.uuid4().hex[:8]}"
    kube_server.make_namespace(own)
    kube_server.admin.create(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": own, "labels": {"own": own}},
            "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        }
    )
    return own


@pytest.fixture
def put(kube_server: kube.Server, name: str) -> Callable[..., Object]:
    """Makes a pod, bound to the node of the test."""

    def make(pod: str, **metadata: Any) -> Object:
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": pod, "namespace": name, **metadata},
            "spec": {"nodeName": name, "containers": [{"name": "c", "image": "i:1"}]},
        }
        return kube_server.admin.create(document).document

    return make


def raised(work: Callable[[], object]) -> GlowplugError:
    with pytest.raises(GlowplugError) as caught:
        work()
    return caught.value


def test_it_keeps_the_contract(api: Client, name: str) -> None:
    kept: Api = api
    assert kept.node(name)["metadata"]["name"] == name
    assert kept.namespace(name)["metadata"]["name"] == name


def test_an_object_is_what_the_server_sends(api: Client, put: Callable[..., Object], name: str) -> None:
    odd = {"x": "next\u0085line\u2028separator"}
    made = put("p", annotations=odd)
    assert api.pod(name, "p") == made
    assert next(api.pods(namespace=name))["metadata"]["annotations"] == odd
    assert "overhead" not in api.pod(name, "p")["spec"]


def test_lists_come_whole_in_pages(api: Client, put: Callable[..., Object], name: str) -> None:
    names = {put(f"p{number}", labels={"even": str(number % 2 == 0)})["metadata"]["name"] for number in range(7)}
    small = Client(api._link, page=3)
    assert {one["metadata"]["name"] for one in small.pods(namespace=name)} == names
    assert {one["metadata"]["name"] for one in small.pods(node=name)} == names
    assert len(list(small.pods(namespace=name, labels="even in (True),!other"))) == 4
    assert [one["metadata"]["name"] for one in api.nodes(labels=f"own={name}")] == [name]


@pytest.mark.parametrize("kind", ["deployment", "statefulset", "daemonset", "replicaset", "job"])
def test_workloads_have_their_place(api: Client, name: str, kind: str) -> None:
    with pytest.raises(NotFoundError, match=f'"{name}" not found'):
        api.workload(kind, name, name)


def test_a_workload_is_read(kube_server: kube.Server, api: Client, name: str) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    kube_server.admin.create(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": name}, "spec": spec}
    )
    assert api.workload("deployment", name, "d")["spec"]["selector"] == {"matchLabels": {"a": "b"}}
    with pytest.raises(UsageError, match="cronjob is no kind of workload"):
        api.workload("cronjob", name, "d")


class TestPatches:
    def test_applied_where_the_test_holds(self, api: Client, name: str) -> None:
        held = {"op": "test", "path": "/spec/taints/0/key", "value": "a"}
        api.patch_node(name, [held, {"op": "remove", "path": "/spec/taints/0"}])
        assert "a" not in [one["key"] for one in api.node(name)["spec"].get("taints", ())]

    @pytest.mark.parametrize(
        ("path", "value"), [("/spec/taints/0/key", "b"), ("/spec/taints/7", "b"), ("/metadata/resourceVersion", "1")]
    )
    def test_a_test_that_does_not_hold_is_a_conflict(self, api: Client, name: str, path: str, value: str) -> None:
        before = api.node(name)
        operations = [
            {"op": "test", "path": path, "value": value},
            {"op": "add", "path": "/metadata/annotations", "value": {"x": "y"}},
        ]
        with pytest.raises(ConflictError):
            api.patch_node(name, operations)
        assert api.node(name) == before

    def test_what_can_never_be_applied_is_bad(self, api: Client, name: str) -> None:
        assert isinstance(
            raised(lambda: api.patch_node(name, [{"op": "remove", "path": "/spec/nothing"}])), BadInputError
        )
        nonsense = {"op": "add", "path": "/spec/taints/0/effect", "value": "Nonsense"}
        assert 'Unsupported value: "Nonsense"' in raised(lambda: api.patch_node(name, [nonsense])).message

    def test_annotations_come_and_go_and_leave_others(self, api: Client, name: str) -> None:
        api.annotate_node(name, {"glowplug.dev/a": "1", "glowplug.dev/b": "2"})
        left = api.annotate_node(name, {"glowplug.dev/a": None, "glowplug.dev/c": "3"})["metadata"]["annotations"]
        assert {"glowplug.dev/b": "2", "glowplug.dev/c": "3"}.items() <= left.items()
        assert "glowplug.dev/a" not in left

    def test_a_node_that_is_not_there(self, api: Client) -> None:
        assert isinstance(raised(lambda: api.annotate_node("nobody", {"a": "b"})), NotFoundError)


class TestEvents:
    def event(self, name: str, **fields: Any) -> Object:
        about = {"kind": "Pod", "apiVersion": "v1", "namespace": name, "name": "p", "uid": f"u-{name}"}
        return {"metadata": {"name": "e", "namespace": name}, "involvedObject": about, "reason": "R", **fields}

    def test_one_name_is_told_once(self, api: Client, name: str) -> None:
        assert api.put_event(self.event(name, message="first")) is True
        assert api.put_event(self.event(name, message="second")) is False
        assert [one["message"] for one in api.events(name, f"u-{name}")] == ["first"]
        assert list(api.events(name, "u-another")) == []

    def test_what_the_server_does_not_take(self, api: Client, name: str) -> None:
        elsewhere = self.event(name)
        elsewhere["involvedObject"] = {**elsewhere["involvedObject"], "namespace": "other"}
        assert isinstance(raised(lambda: api.put_event(elsewhere)), BadInputError)
        assert isinstance(raised(lambda: api.put_event(self.event("nowhere-at-all"))), NotFoundError)


class TestRefusals:
    @pytest.fixture
    def nobody(self, api: Client, tmp_path: Path, kube_server: kube.Server) -> Iterator[Client]:
        """The service account of a namespace that gives it no rights, as a pod of it would ask."""
        own = f"n-{uuid.uuid4().hex[:8]}"
        kube_server.make_namespace(own)
        spec = {"containers": [{"name": "c", "image": "i:1"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": own}, "spec": spec}
        kube_server.admin.create(pod)
        (tmp_path / "token").write_text(kube_server.admin.token_of(pod) + "\n")
        (tmp_path / "ca.crt").write_bytes(kube_server.files.authority.read_bytes())
        (tmp_path / "namespace").write_text(own)
        environ = {"KUBERNETES_SERVICE_HOST": kube_server.host, "KUBERNETES_SERVICE_PORT": str(kube_server.port)}
        with connect.in_cluster(account=tmp_path, environ=environ) as client:
            yield client

    def test_a_role_that_lacks_a_right_is_told_which(self, nobody: Client) -> None:
        error = raised(lambda: nobody.patch_node("n", [{"op": "add", "path": "/x", "value": 1}]))
        assert isinstance(error, AccessDeniedError)
        assert (error.code, error.hint.startswith("give the role the verb `patch` on `nodes`")) == (
            "access-denied",
            True,
        )
        assert error.message.startswith('patch node n: nodes "n" is forbidden')

    def test_a_watch_gives_up_where_it_is_refused_for_good(self, nobody: Client) -> None:
        assert isinstance(raised(lambda: list(nobody.watch_pods(node="n", stop=threading.Event()))), AccessDeniedError)

    def test_a_namespace_that_the_pod_stands_in(self, nobody: Client) -> None:
        assert nobody.default_namespace.startswith("n-")

    def test_a_policy_refuses_the_object_and_not_the_asker(
        self, kube_server: kube.Server, api: Client, name: str
    ) -> None:
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes"]}
        validation = {"expression": "false", "message": "not today", "reason": "Forbidden"}
        policy = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {
                    "resourceRules": [rule],
                    "objectSelector": {"matchLabels": {"own": name}},
                },
                "validations": [validation],
            },
        }
        binding = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        }
        for one in (policy, binding):
            kube_server.admin.apply(one)
        errors: list[GlowplugError] = []

        def refused() -> bool:
            try:
                api.annotate_node(name, {"x": uuid.uuid4().hex})
            except GlowplugError as error:
                errors.append(error)
            return bool(errors)

        kube.client.wait_for(60, "the policy holds", refused)
        kube_server.admin.delete(binding)
        assert type(errors[0]) is BadInputError
        assert "not today" in errors[0].message

    @pytest.mark.parametrize("odd", ["", ".", "..", "a/b", "a?b", "../pods", "a b", "a\n"])
    def test_a_name_never_leads_elsewhere(self, api: Client, odd: str) -> None:
        for ask in (api.node, functools.partial(api.pod, "default"), lambda text: list(api.pods(node=text or "/"))):
            assert isinstance(raised(functools.partial(ask, odd)), BadInputError)

    def test_a_selector_that_is_none(self, api: Client) -> None:
        assert isinstance(raised(lambda: list(api.pods(labels="(("))), BadInputError)

    def test_a_token_that_nobody_knows(self, kube_server: kube.Server, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("guessed")
        (tmp_path / "ca.crt").write_bytes(kube_server.files.authority.read_bytes())
        environ = {"KUBERNETES_SERVICE_HOST": kube_server.host, "KUBERNETES_SERVICE_PORT": str(kube_server.port)}
        with connect.in_cluster(account=tmp_path, environ=environ) as client:
            error = raised(lambda: client.node("n"))
        assert isinstance(error, AccessDeniedError)
        assert "guessed" not in f"{error} {error.hint}"

    def test_a_log_of_a_container_that_the_pod_does_not_have(
        self, api: Client, put: Callable[..., Object], name: str
    ) -> None:
        put("p")
        assert isinstance(raised(lambda: api.log(name, "p", "nope")), NotFoundError)
        assert isinstance(raised(lambda: api.log(name, "nobody", "c")), NotFoundError)


class TestWatch:
    @pytest.fixture
    def told(self) -> list[Change]:
        return []

    @pytest.fixture
    def stop(self) -> Iterator[threading.Event]:
        event = threading.Event()
        yield event
        event.set()

    def _follow(self, changes: Iterator[Change], told: list[Change]) -> threading.Thread:
        thread = threading.Thread(target=lambda: told.extend(changes), daemon=True)
        thread.start()
        return thread

    @staticmethod
    def _seen(told: list[Change]) -> list[tuple[str, str]]:
        return [(one.seen.value, one.object.get("metadata", {}).get("name", "")) for one in list(told)]

    def test_all_pods_then_each_change_until_it_is_stopped(
        self,
        kube_server: kube.Server,
        api: Client,
        put: Callable[..., Object],
        name: str,
        told: list[Change],
        stop: threading.Event,
    ) -> None:
        put("there")
        kube.client.wait_for(60, "the server's memory has it", lambda: [*api.pods(node=name)])
        thread = self._follow(api.watch_pods(node=name, stop=stop), told)
        kube.client.wait_for(60, "it was listed", lambda: ("synced", "") in self._seen(told))
        put("late", annotations={"x": "next\u0085line"})
        kube_server.admin.delete({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "there", "namespace": name}})
        kube.client.wait_for(60, "it was told", lambda: ("gone", "there") in self._seen(told))
        seen = self._seen(told)
        assert seen.index(("here", "there")) < seen.index(("gone", "there"))
        assert ("here", "late") in seen
        assert seen.count(("synced", "")) == 1
        assert {one.object["metadata"]["namespace"] for one in told if one.object} == {name}
        stop.set()
        thread.join(SLACK)
        assert not thread.is_alive()
