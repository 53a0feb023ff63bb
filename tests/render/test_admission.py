"""The agent's rights and the two admission policies, in force on a real API server, asked by those whom they bind.

The agent's token is of the kind that kubelet mounts into its pod: the server itself writes the node's name into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from glowplug.agent.settings import Settings
from glowplug.manifests import recipe
from glowplug.manifests.marks import DOMAIN_LABEL
from glowplug.render import policies
from glowplug.render.options import AGENT_ACCOUNT, AGENT_NAMESPACE, Mode
from lab import kube
from lab.kube.client import wait_for
from tests.parts import requires
from tests.render.asked import objects
from tests.render.installed import (
    GPU_TAINT,
    NODE,
    NOT_READY,
    OTHER,
    OTHERS,
    OWN,
    SECONDS,
    STARTUP,
    in_force,
    is_refused,
    node,
    pod_of,
    pod_with,
    refusal,
)

pytestmark = requires("kube")

NVME = "/mnt/k8s-disks/0"
Change = Callable[[dict[str, Any]], None]


def _denied(policy: str, sentence: str) -> str:
    """How the server words it when that sentence of that policy was not true (and not when evaluating it failed)."""
    return f"ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: {sentence}"


@pytest.fixture(scope="module", params=[Mode.NODE, Mode.SHARED])
def mode(request: pytest.FixtureRequest, kube_server: kube.Server) -> Iterator[Mode]:
    with in_force(kube_server, request.param):
        yield request.param


@pytest.fixture(scope="module")
def agent(mode: Mode, kube_server: kube.Server) -> Iterator[kube.Client]:
    """Speaks with the token of the agent's pod on the node OWN, made from the DaemonSet's template."""
    with pod_of(kube_server.admin, "DaemonSet", mode) as client:
        yield client


WITHOUT_STARTUP = {"spec": {"taints": OTHERS}}
ALLOWED = {
    "takes the startup taint away": WITHOUT_STARTUP,
    "adds an annotation of glowplug": {"metadata": {"annotations": {"glowplug.dev/nvme-backed": "false"}}},
    "changes one": {"metadata": {"annotations": {"glowplug.dev/old": "2"}}},
    "removes one": {"metadata": {"annotations": {"glowplug.dev/old": None}}},
    "all at once": {
        **WITHOUT_STARTUP,
        "metadata": {"annotations": {"glowplug.dev/old": None, "glowplug.dev/new": "1"}},
    },
    "nothing": {},
}
_TAINTS = "other taints stay as they are"
_ADDED = "the startup taint is taken away, never added"
_NOTES = "annotations of others stay as they are"
_LABELS = "labels stay as they are"
_OWNERS = "finalizers and owners stay as they are"
_SPEC = "the rest of a node's specification stays as it is"
_OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "1"}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another taint removed": ({"spec": {"taints": [NOT_READY, STARTUP]}}, _TAINTS),
    "all taints removed": ({"spec": {"taints": []}}, _TAINTS),
    "taints removed as a whole": ({"spec": {"taints": None}}, _TAINTS),
    "another taint added": ({"spec": {"taints": [*OTHERS, STARTUP, {"key": "x", "effect": "NoExecute"}]}}, _TAINTS),
    "another taint's effect": (
        {"spec": {"taints": [{**GPU_TAINT, "effect": "NoExecute"}, NOT_READY, STARTUP]}},
        _TAINTS,
    ),
    "another taint's value": ({"spec": {"taints": [{**GPU_TAINT, "value": "x"}, NOT_READY, STARTUP]}}, _TAINTS),
    "startup taint that evicts": ({"spec": {"taints": [*OTHERS, {**STARTUP, "effect": "NoExecute"}]}}, _ADDED),
    "startup taint of another value": ({"spec": {"taints": [*OTHERS, {**STARTUP, "value": "x"}]}}, _ADDED),
    "a second startup taint": (
        {"spec": {"taints": [*OTHERS, STARTUP, {**STARTUP, "effect": "NoExecute"}]}},
        _ADDED,
    ),
    "another's annotation added": ({"metadata": {"annotations": {"other.example/x": "1"}}}, _NOTES),
    "another's annotation changed": ({"metadata": {"annotations": {"somebody.example/note": "ours"}}}, _NOTES),
    "another's annotation removed": ({"metadata": {"annotations": {"somebody.example/note": None}}}, _NOTES),
    "all annotations removed": ({"metadata": {"annotations": None}}, _NOTES),
    "annotation that only looks like ours": (
        {"metadata": {"annotations": {"glowplug.dev.evil.example/x": "1"}}},
        _NOTES,
    ),
    "label added": ({"metadata": {"labels": {"x": "1"}}}, _LABELS),
    "label of ours added": ({"metadata": {"labels": {"glowplug.dev/x": "1"}}}, _LABELS),
    "label changed": ({"metadata": {"labels": {"team": "b"}}}, _LABELS),
    "label removed": ({"metadata": {"labels": {"team": None}}}, _LABELS),
    "all labels removed": ({"metadata": {"labels": None}}, _LABELS),
    "finalizer": ({"metadata": {"finalizers": ["glowplug.dev/x"]}}, _OWNERS),
    "owner": ({"metadata": {"ownerReferences": [_OWNER]}}, _OWNERS),
    "cordoned": ({"spec": {"unschedulable": True}}, _SPEC),
    "provider": ({"spec": {"providerID": "aws:///x/i-1"}}, _SPEC),
    "network": ({"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}}, _SPEC),
}


@pytest.mark.parametrize("change", ALLOWED.values(), ids=ALLOWED.keys())
def test_the_agent_may(agent: kube.Client, change: dict[str, Any]) -> None:
    assert refusal(agent, OWN, change) == ""


@pytest.mark.parametrize(("change", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_the_agent_may_not(agent: kube.Client, change: dict[str, Any], sentence: str) -> None:
    assert _denied(policies.NODES, sentence) in refusal(agent, OWN, change)


@pytest.mark.parametrize("change", ALLOWED.values(), ids=ALLOWED.keys())
def test_the_agent_may_change_nothing_of_anothernode(agent: kube.Client, change: dict[str, Any]) -> None:
    sentence = "the agent changes the node that it runs on, and no other"
    assert _denied(policies.NODES, sentence) in refusal(agent, OTHER, change)


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("extra", [{}, {"authentication.kubernetes.io/node-name": OTHER}], ids=["none", "another"])
def test_a_token_that_does_not_name_the_node_changes_nothing(kube_server: kube.Server, extra: dict[str, str]) -> None:
    name = f"system:serviceaccount:{AGENT_NAMESPACE}:{AGENT_ACCOUNT}"
    client = kube_server.admin.impersonating(name, extra=extra)
    sentence = "the agent changes the node that it runs on, and no other"
    assert _denied(policies.NODES, sentence) in refusal(client, OWN, WITHOUT_STARTUP)


@pytest.mark.usefixtures("mode")
def test_others_are_not_bound(kube_server: kube.Server) -> None:
    changes = {"metadata": {"labels": {"x": "1"}}, "spec": {"unschedulable": True, "taints": []}}
    assert refusal(kube_server.admin, OTHER, changes) == ""


def test_a_node_without_taints_annotations_and_labels_is_no_error(agent: kube.Client, kube_server: kube.Server) -> None:
    bare = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": OWN}}
    kube_server.admin.delete(node(OWN))
    kube_server.admin.create(bare)
    try:
        assert refusal(agent, OWN, {"metadata": {"annotations": {"glowplug.dev/x": "1"}}}) == ""
        assert _denied(policies.NODES, _ADDED) in refusal(agent, OWN, {"spec": {"taints": [NOT_READY, STARTUP]}})
        assert _denied(policies.NODES, _LABELS) in refusal(agent, OWN, {"metadata": {"labels": {"a": "1"}}})
    finally:
        kube_server.admin.delete(bare)
        kube_server.admin.create(node(OWN))


def test_the_taint_is_really_gone_and_stays_gone(agent: kube.Client, kube_server: kube.Server) -> None:
    agent.patch(node(OWN), WITHOUT_STARTUP)
    try:
        taints = kube_server.admin.get("v1", "Node", OWN).document["spec"]["taints"]
        assert [taint["key"] for taint in taints] == [taint["key"] for taint in OTHERS]
        assert _denied(policies.NODES, _ADDED) in refusal(agent, OWN, {"spec": NODE["spec"]})
    finally:
        kube_server.admin.patch(node(OWN), {"spec": NODE["spec"]})


SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": AGENT_NAMESPACE}}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": AGENT_NAMESPACE}}
NO_RIGHT: dict[str, Callable[[kube.Client], object]] = {
    "delete its node": lambda agent: agent.delete(node(OWN)),
    "make a node": lambda agent: agent.create(node("node-new"), dry_run=True),
    "change a node's status": lambda agent: agent.patch(node(OWN), {"status": {}}, subresource="status", dry_run=True),
    "read secrets": lambda agent: agent.list("v1", "Secret"),
    "read a secret of its namespace": lambda agent: agent.get("v1", "Secret", "s", AGENT_NAMESPACE),
    "write a secret": lambda agent: agent.create(SECRET, dry_run=True),
    "read configuration": lambda agent: agent.list("v1", "ConfigMap"),
    "write configuration": lambda agent: agent.create(CONFIG, dry_run=True),
    "make a pod": lambda agent: agent.create(pod_with(AGENT_NAMESPACE, []), dry_run=True),
    "delete a pod": lambda agent: agent.delete(pod_with(AGENT_NAMESPACE, [])),
    "read a pod's log": lambda agent: agent.request("GET", f"/api/v1/namespaces/{AGENT_NAMESPACE}/pods/daemonset/log"),
    "make a token": lambda agent: agent.request(
        "POST", f"/api/v1/namespaces/{AGENT_NAMESPACE}/serviceaccounts/{AGENT_ACCOUNT}/token", {"spec": {}}
    ),
    "lift its policy": lambda agent: agent.delete(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": policies.NODES},
        }
    ),
    "widen its role": lambda agent: agent.patch(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": AGENT_ACCOUNT},
        },
        {"rules": []},
        dry_run=True,
    ),
    "act as somebody else": lambda agent: _impersonate(agent),  # noqa: PLW0108 - defined below
}


def _impersonate(agent: kube.Client) -> object:
    return agent.impersonating("admin", ["system:masters"]).list("v1", "Node")


@pytest.mark.parametrize("does", NO_RIGHT.values(), ids=NO_RIGHT.keys())
def test_the_agent_has_no_right_to(agent: kube.Client, does: Callable[[kube.Client], object]) -> None:
    with pytest.raises(kube.RefusedError) as caught:
        does(agent)
    assert (caught.value.reason, "cannot" in caught.value.message) == ("Forbidden", True)


def test_the_agent_may_read_what_it_needs_and_say_what_it_did(agent: kube.Client) -> None:
    assert agent.get("v1", "Node", OWN).document["metadata"]["name"] == OWN
    assert agent.list("v1", "Pod")
    assert agent.get("v1", "Namespace", "workloads").document["metadata"]["name"] == "workloads"
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": OWN},
        "reason": "Warmed",
        "type": "Normal",
    }
    agent.create(event, dry_run=True)


@pytest.mark.parametrize("mode", [Mode.SHARED], indirect=True)
def test_what_frees_nodes_may_free_any_and_change_nothing_else(mode: Mode, kube_server: kube.Server) -> None:
    with pod_of(kube_server.admin, "Deployment", mode) as release:
        for node in (OWN, OTHER):
            assert refusal(release, node, WITHOUT_STARTUP) == ""
            for change, sentence in REFUSED.values():
                assert _denied(policies.NODES, sentence) in refusal(release, node, change)
            for change in ALLOWED.values():
                if "annotations" in change.get("metadata", {}):
                    assert _denied(policies.NODES, "what frees nodes changes no annotation") in refusal(
                        release, node, change
                    )


def _workload(mode: Mode, namespace: str = "workloads", **asked: Any) -> dict[str, Any]:
    """The pod of the Deployment that is rendered for the namespace."""
    (deployment,) = objects("deployment", mode=mode, namespace=namespace, **asked)
    template = deployment["spec"]["template"]
    metadata = {**template["metadata"], "name": "workload", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def _engine(pod: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = pod["spec"]["containers"][0]
    return container


def _volume(pod: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any]
    (found,) = [volume for volume in pod["spec"]["volumes"] if volume["name"] == name]
    return found


def _mount(pod: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any]
    (found,) = [mount for mount in _engine(pod)["volumeMounts"] if mount["name"] == name]
    return found


def _uid(pod: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any]
    (found,) = [entry for entry in _engine(pod)["env"] if entry["name"] == recipe.POD_UID]
    return found


def _mounts_path(path: str) -> Change:
    """One more hostPath, mounted nowhere: the volume alone is enough to be refused."""

    def change(pod: dict[str, Any]) -> None:
        pod["spec"]["volumes"].append({"name": "more", "hostPath": {"path": path}})

    return change


def _store_at(path: str) -> Change:
    def change(pod: dict[str, Any]) -> None:
        _volume(pod, recipe.STORE_VOLUME)["hostPath"]["path"] = path

    return change


def _mounted(**fields: Any) -> Change:
    """The outbox's mount with other fields; None takes one away."""

    def change(pod: dict[str, Any]) -> None:
        mount = _mount(pod, recipe.OUTBOX_VOLUME)
        mount.update(fields)
        for name in [name for name, value in fields.items() if value is None]:
            del mount[name]

    return change


def _writable_store(pod: dict[str, Any]) -> None:
    _mount(pod, recipe.STORE_VOLUME)["readOnly"] = False


def _store_of_unstated_mode(pod: dict[str, Any]) -> None:
    del _mount(pod, recipe.STORE_VOLUME)["readOnly"]


def _chosen_uid(pod: dict[str, Any]) -> None:
    entry = _uid(pod)
    del entry["valueFrom"]
    entry["value"] = "11111111-2222-3333-4444-555555555555"


def _empty_uid(pod: dict[str, Any]) -> None:
    del _uid(pod)["valueFrom"]


def _uid_of_another_field(pod: dict[str, Any]) -> None:
    _uid(pod)["valueFrom"]["fieldRef"]["fieldPath"] = "metadata.annotations['other']"


def _uid_of_a_secret(pod: dict[str, Any]) -> None:
    _uid(pod)["valueFrom"] = {"secretKeyRef": {"name": "s", "key": "k"}}


def _uid_twice(pod: dict[str, Any]) -> None:
    _engine(pod)["env"].append({"name": recipe.POD_UID, "value": "another"})


def _uid_from_a_map(pod: dict[str, Any]) -> None:
    _engine(pod)["env"].remove(_uid(pod))
    _engine(pod)["envFrom"] = [{"configMapRef": {"name": "c"}}]


def _init_container(mount: dict[str, Any], **fields: Any) -> Change:
    def change(pod: dict[str, Any]) -> None:
        container = {"name": "first", "image": "i:1", "volumeMounts": [mount], **fields}
        pod["spec"]["initContainers"] = [container]

    return change


STORES = recipe.store_directory(NVME, "")
OUTBOX = recipe.outbox_directory(NVME)
_PATHS = f"of the node, these pods mount {STORES}"
_READ_ONLY = "the node store is mounted read-only"
_EXPRESSION = f"the outbox is mounted with subPathExpr $({recipe.POD_UID}) and no other"
_FIELD = f"{recipe.POD_UID} comes from the field metadata.uid, where the outbox is mounted"
_OUT = {"name": recipe.OUTBOX_VOLUME, "mountPath": "/out"}
_OWN_OUT = {**_OUT, "subPathExpr": f"$({recipe.POD_UID})"}
IN_NODE_MODE: dict[str, tuple[Change, str]] = {
    "the node's root": (_mounts_path("/"), _PATHS),
    "a directory of the system": (_mounts_path("/etc"), _PATHS),
    "the instance store": (_mounts_path(NVME), _PATHS),
    "the agent's directory": (_mounts_path(recipe.agent_root(NVME)), _PATHS),
    "the stores of all domains": (_mounts_path(STORES), _PATHS),
    "the same without its slash": (_mounts_path(STORES.rstrip("/")), _PATHS),
    "the store of another domain": (_store_at(f"{STORES}team-b"), _PATHS),
    "a part of its store": (_mounts_path(f"{STORES}workloads/x"), _PATHS),
    "its store in other letters": (_mounts_path(f"{STORES}Workloads"), _PATHS),
    "its store with a slash": (_mounts_path(f"{STORES}workloads/"), _PATHS),
    "its store around a corner": (_mounts_path(f"{STORES}./workloads"), _PATHS),
    "another pod's outbox": (_mounts_path(f"{OUTBOX}/11111111-2222-3333-4444-555555555555"), _PATHS),
    "shared mode's directory": (_mounts_path(recipe.shared_directory(NVME)), _PATHS),
    "Auto Mode's place": (_mounts_path("/mnt/.ephemeral/glowplug/outbox"), _PATHS),
    "a writable store": (_writable_store, _READ_ONLY),
    "a store of no said mode": (_store_of_unstated_mode, _READ_ONLY),
    "a writable store in an init container": (
        _init_container({"name": recipe.STORE_VOLUME, "mountPath": "/s"}),
        _READ_ONLY,
    ),
    "the whole outbox": (_mounted(subPathExpr=None), _EXPRESSION),
    "a chosen part of the outbox": (_mounted(subPathExpr=None, subPath="another"), _EXPRESSION),
    "another expression": (_mounted(subPathExpr="$(HOSTNAME)"), _EXPRESSION),
    "an expression beside the UID": (_mounted(subPathExpr=f"$({recipe.POD_UID})/x"), _EXPRESSION),
    "an expression without a variable": (_mounted(subPathExpr="another"), _EXPRESSION),
    "the whole outbox in an init container": (_init_container(_OUT), _EXPRESSION),
    "a UID of its choice": (_chosen_uid, _FIELD),
    "no UID": (_empty_uid, _FIELD),
    "a UID of another field": (_uid_of_another_field, _FIELD),
    "a UID of a secret": (_uid_of_a_secret, _FIELD),
    "a second UID": (_uid_twice, _FIELD),
    "a UID of a map": (_uid_from_a_map, _FIELD),
    "an init container without a UID": (_init_container(_OWN_OUT), _FIELD),
    "an init container with a UID of its choice": (
        _init_container(_OWN_OUT, env=[{"name": recipe.POD_UID, "value": "another"}]),
        _FIELD,
    ),
}
SHARED = recipe.shared_directory(NVME)
_SHARED = f"of the node, these pods mount {SHARED} and nothing else"
IN_SHARED_MODE: dict[str, tuple[Change, str]] = {
    "the node's root": (_mounts_path("/"), _SHARED),
    "the instance store": (_mounts_path(NVME), _SHARED),
    "a part of the directory": (_mounts_path(f"{SHARED}/x"), _SHARED),
    "the directory with a slash": (_mounts_path(f"{SHARED}/"), _SHARED),
    "the agent's directory": (_mounts_path(recipe.agent_root(NVME)), _SHARED),
}


def _made(admin: kube.Client, pod: dict[str, Any]) -> str:
    """Why the pod was refused, "" when it was admitted (dry)."""
    try:
        admin.create(pod, dry_run=True)
    except kube.RefusedError as error:
        return error.message
    return ""


def test_a_refusal_names_the_path_that_was_refused_and_the_one_that_is_right(
    mode: Mode, kube_server: kube.Server
) -> None:
    pod = _workload(mode)
    _mounts_path("/etc")(pod)
    mounted = [one["name"] for one in pod["spec"]["volumes"] if one.get("hostPath", {}).get("path") == "/etc"]
    right = SHARED if mode is Mode.SHARED else f"{STORES}workloads and {OUTBOX},"
    sentence = f"of the node, these pods mount {right} and nothing else: not /etc (volume {mounted[0]})"
    assert _denied(policies.HOST_PATHS, sentence) in _made(kube_server.admin, pod)


@pytest.mark.parametrize("path", ["/" + "x" * 9000, "/a\nb"])
def test_a_path_that_no_message_can_hold_is_refused_all_the_same(
    mode: Mode, kube_server: kube.Server, path: str
) -> None:
    pod = _workload(mode)
    _mounts_path(path)(pod)
    assert "of the node, these pods mount" in _made(kube_server.admin, pod)


def test_a_pod_as_rendered_is_admitted(mode: Mode, kube_server: kube.Server) -> None:
    assert _made(kube_server.admin, _workload(mode)) == ""


def test_a_pod_of_direct_mode_is_admitted_too(mode: Mode, kube_server: kube.Server) -> None:
    assert _made(kube_server.admin, _workload(Mode.DIRECT)) == ""


@pytest.mark.parametrize("mode", [Mode.NODE], indirect=True)
@pytest.mark.parametrize(("change", "sentence"), IN_NODE_MODE.values(), ids=IN_NODE_MODE.keys())
def test_a_pod_of_node_mode_may_not_mount(mode: Mode, kube_server: kube.Server, change: Change, sentence: str) -> None:
    pod = _workload(mode)
    change(pod)
    assert _denied(policies.HOST_PATHS, sentence) in _made(kube_server.admin, pod)


@pytest.mark.parametrize("mode", [Mode.SHARED], indirect=True)
@pytest.mark.parametrize(("change", "sentence"), IN_SHARED_MODE.values(), ids=IN_SHARED_MODE.keys())
def test_a_pod_of_shared_mode_may_not_mount(
    mode: Mode, kube_server: kube.Server, change: Change, sentence: str
) -> None:
    pod = _workload(mode)
    change(pod)
    assert _denied(policies.HOST_PATHS, sentence) in _made(kube_server.admin, pod)


@pytest.mark.parametrize("mode", [Mode.NODE], indirect=True)
def test_the_domain_of_a_namespace_is_its_label(mode: Mode, kube_server: kube.Server) -> None:
    labelled = _workload(mode, "team-b", domain="shared-domain")
    assert _made(kube_server.admin, labelled) == ""
    assert _denied(policies.HOST_PATHS, _PATHS) in _made(kube_server.admin, _workload(mode, "team-b"))
    assert _denied(policies.HOST_PATHS, _PATHS) in _made(kube_server.admin, _workload(mode, domain="shared-domain"))


@pytest.mark.parametrize("mode", [Mode.NODE], indirect=True)
@pytest.mark.parametrize("namespace", ["workloads", "team-b", "team-c"])
def test_the_agent_takes_a_namespace_for_the_domain_whose_store_its_pods_may_mount(
    mode: Mode, kube_server: kube.Server, namespace: str
) -> None:
    """Also one whose label is empty; whatever domain it is that the agent keeps."""
    found = kube_server.admin.get("v1", "Namespace", namespace).document["metadata"]["labels"]
    keeps_one = Settings(Path("/x"), "node-1", domains=("another",))
    domain = keeps_one.domain_of(namespace, found.get(DOMAIN_LABEL, ""))
    assert _made(kube_server.admin, _workload(mode, namespace, domain=domain)) == ""
    whole = _workload(mode, namespace, domain=domain)
    for volume in whole["spec"]["volumes"]:
        if volume.get("hostPath", {}).get("path") == recipe.store_directory(NVME, domain):
            volume["hostPath"]["path"] = recipe.store_directory(NVME, "")
    assert _denied(policies.HOST_PATHS, _PATHS) in _made(kube_server.admin, whole)


@pytest.mark.usefixtures("mode")
def test_namespaces_without_the_label_are_not_bound(kube_server: kube.Server) -> None:
    kube_server.make_namespace("elsewhere")
    pod = pod_with("elsewhere", [{"name": "x", "hostPath": {"path": "/etc"}}])
    assert _made(kube_server.admin, pod) == ""


# ---- ways round a host path, in both modes


def _of_engine(**context: Any) -> Change:
    def change(pod: dict[str, Any]) -> None:
        _engine(pod)["securityContext"].update(context)

    return change


def _ofpod_with(**fields: Any) -> Change:
    def change(pod: dict[str, Any]) -> None:
        pod["spec"].update(fields)

    return change


def _in_init_container(**context: Any) -> Change:
    return _init_container({"name": recipe.CACHE_VOLUME, "mountPath": "/c"}, securityContext=context)


_PRIVILEGED = "no container is privileged: it could mount the node's disks"
_CAPABILITIES = "capabilities are those of Pod Security's baseline, IPC_LOCK, SYS_NICE and SYS_PTRACE"
WAYS_ROUND: dict[str, tuple[Change, str]] = {
    "a privileged engine": (_of_engine(privileged=True, allowPrivilegeEscalation=True), _PRIVILEGED),
    "a privileged init container": (_in_init_container(privileged=True), _PRIVILEGED),
    "the node's processes": (_ofpod_with(hostPID=True), "hostPID is off: "),
    "the node's shared memory": (_ofpod_with(hostIPC=True), "hostIPC is off: "),
    "the right to mount": (_of_engine(capabilities={"add": ["SYS_ADMIN"]}), _CAPABILITIES),
    "the right to open files by handle": (
        _of_engine(capabilities={"add": ["IPC_LOCK", "DAC_READ_SEARCH"]}),
        _CAPABILITIES,
    ),
    "all rights": (_of_engine(capabilities={"drop": ["ALL"], "add": ["ALL"]}), _CAPABILITIES),
    "a right of an init container": (_in_init_container(capabilities={"add": ["SYS_MODULE"]}), _CAPABILITIES),
}
STILL_ALLOWED: dict[str, Change] = {
    "the host's network, as EFA and NCCL have it": _ofpod_with(hostNetwork=True),
    "pinned memory, as RDMA has it": _of_engine(capabilities={"add": ["IPC_LOCK", "SYS_NICE"]}),
    "no context at all": lambda pod: _engine(pod).pop("securityContext"),
    "privileges that are denied": _of_engine(privileged=False),
}


@pytest.mark.parametrize(("change", "sentence"), WAYS_ROUND.values(), ids=WAYS_ROUND.keys())
def test_there_is_no_way_round(mode: Mode, kube_server: kube.Server, change: Change, sentence: str) -> None:
    pod = _workload(mode)
    change(pod)
    assert _denied(policies.HOST_PATHS, sentence) in _made(kube_server.admin, pod)


@pytest.mark.parametrize("change", STILL_ALLOWED.values(), ids=STILL_ALLOWED.keys())
def test_what_engines_need_is_still_allowed(mode: Mode, kube_server: kube.Server, change: Change) -> None:
    pod = _workload(mode)
    change(pod)
    assert _made(kube_server.admin, pod) == ""


# ---- pods that were there before their namespace joined


@pytest.fixture
def earlier(mode: Mode, kube_server: kube.Server) -> Iterator[dict[str, Any]]:
    """A pod with everything that the policy refuses, made while its namespace had not joined, which it then does."""
    admin = kube_server.admin
    namespace = f"joins-{mode.value}"
    kube_server.make_namespace(namespace, {"pod-security.kubernetes.io/enforce": "privileged"})
    pod = pod_with(namespace, [{"name": "x", "hostPath": {"path": "/etc"}}])
    pod["metadata"]["finalizers"] = ["glowplug.test/held"]
    pod["spec"]["hostPID"] = True
    pod["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    admin.create(pod)
    joined = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    admin.patch(joined, {"metadata": {"labels": {policies.WORKLOADS_LABEL: "true"}}})
    wait_for(
        SECONDS,
        "the namespace has joined",
        lambda: is_refused(admin, {**pod, "metadata": {"name": "new", "namespace": namespace}}),
    )
    try:
        yield pod
    finally:
        admin.patch(pod, {"metadata": {"finalizers": None}})
        admin.delete(pod)
        admin.patch(joined, {"metadata": {"labels": {policies.WORKLOADS_LABEL: None}}})


def test_earlier_pods_can_be_labelled_and_let_go(earlier: dict[str, Any], kube_server: kube.Server) -> None:
    admin = kube_server.admin
    admin.patch(earlier, {"metadata": {"labels": {"seen": "true"}}}, dry_run=True)
    admin.patch(earlier, {"metadata": {"finalizers": None}}, dry_run=True)


def test_earlier_pods_can_be_debugged_without_privileges(earlier: dict[str, Any], kube_server: kube.Server) -> None:
    _debug(kube_server.admin, earlier, {"name": "debug", "image": "i:1"})
    with pytest.raises(kube.RefusedError, match="no container is privileged"):
        _debug(kube_server.admin, earlier, {"name": "debug", "image": "i:1", "securityContext": {"privileged": True}})


# ---- debugging


def _debug(admin: kube.Client, pod: dict[str, Any], container: dict[str, Any]) -> None:
    admin.patch(pod, {"spec": {"ephemeralContainers": [container]}}, subresource="ephemeralcontainers", dry_run=True)


@pytest.fixture
def running(mode: Mode, kube_server: kube.Server) -> Iterator[dict[str, Any]]:
    pod = _workload(mode)
    kube_server.admin.create(pod)
    yield pod
    kube_server.admin.delete(pod)


@pytest.mark.parametrize("mode", [Mode.NODE], indirect=True)
@pytest.mark.parametrize("volume", [recipe.STORE_VOLUME, recipe.OUTBOX_VOLUME])
def test_a_debugging_container_mounts_nothing_of_thenode(
    running: dict[str, Any], kube_server: kube.Server, volume: str
) -> None:
    debugger = {"name": "debug", "image": "i:1", "volumeMounts": [{"name": recipe.CACHE_VOLUME, "mountPath": "/x"}]}
    _debug(kube_server.admin, running, debugger)
    debugger["volumeMounts"] = [{"name": volume, "mountPath": "/x", "readOnly": True}]
    with pytest.raises(kube.RefusedError, match="a debugging container mounts nothing of the node"):
        _debug(kube_server.admin, running, debugger)


@pytest.mark.parametrize(
    ("context", "sentence"),
    [({"privileged": True}, _PRIVILEGED), ({"capabilities": {"add": ["SYS_ADMIN"]}}, _CAPABILITIES)],
)
def test_a_debugging_container_is_no_way_round(
    running: dict[str, Any], kube_server: kube.Server, context: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(kube.RefusedError) as caught:
        _debug(kube_server.admin, running, {"name": "debug", "image": "i:1", "securityContext": context})
    assert _denied(policies.HOST_PATHS, sentence) in caught.value.message
