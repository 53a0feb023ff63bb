"""The agent as `glowplug render agent` prints it, in force on a real API server: its rights, its policies, and its pods' tokens."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from glowplug.manifests.marks import DOMAIN_LABEL, STARTUP_TAINT
from glowplug.render import policies
from glowplug.render.options import AGENT_ACCOUNT, AGENT_NAMESPACE, Mode
from lab import kube
from lab.kube.client import wait_for
from tests.render.asked import objects, printed

SECONDS = 60.0
OWN, OTHER = "node-own", "node-other"
GPU_TAINT = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}  # the server adds it to every new node
STARTUP = {"key": STARTUP_TAINT, "effect": "NoSchedule"}
OTHERS = [GPU_TAINT, NOT_READY]
NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "labels": {"team": "a"},
        "annotations": {"somebody.example/note": "theirs", "glowplug.dev/old": "1"},
    },
    "spec": {"taints": [*OTHERS, STARTUP]},
}


def node(name: str) -> dict[str, Any]:
    found = copy.deepcopy(NODE)
    found["metadata"]["name"] = name
    return found


@contextmanager
def in_force(server: kube.Server, mode: Mode) -> Iterator[None]:
    """The agent of this mode installed as printed, until the end of the block, its policies known to the server."""
    admin = server.admin
    for namespace, domain in (("workloads", None), ("team-b", "shared-domain"), ("team-c", "")):
        labels = {"pod-security.kubernetes.io/enforce": "privileged", policies.WORKLOADS_LABEL: "true"}
        if domain is not None:
            labels[DOMAIN_LABEL] = domain
        server.make_namespace(namespace, labels)
    installed = [answer.document for answer in admin.apply_text(printed("agent", mode=mode))]
    try:
        # Both policies are compiled by the server some moments after they were stored.
        forbidden = pod_with("workloads", [{"name": "x", "hostPath": {"path": "/etc"}}])
        wait_for(SECONDS, "the policy of host paths holds", lambda: is_refused(admin, forbidden))
        stranger = admin.impersonating(f"system:serviceaccount:{AGENT_NAMESPACE}:{AGENT_ACCOUNT}")
        fresh_nodes(admin)
        wait_for(SECONDS, "the policy of nodes holds", lambda: refusal(stranger, OWN, {"metadata": {"labels": {}}}))
        yield
    finally:
        for document in reversed(installed):
            if document["kind"] != "Namespace":  # one that is deleted stays "terminating" without its controller
                admin.delete(document)
        wait_for(SECONDS, "the policies are gone", lambda: not is_refused(admin, forbidden))


def fresh_nodes(admin: kube.Client) -> None:
    for name in (OWN, OTHER):
        with suppress(kube.RefusedError):
            admin.delete(node(name))
        admin.create(node(name))


def refusal(client: kube.Client, name: str, change: dict[str, Any]) -> str:
    """Why the change of the node was refused, "" when it was made (dry: nodes stay as they are)."""
    try:
        client.patch(node(name), change, dry_run=True)
    except kube.RefusedError as error:
        return error.message
    return ""


def pod_with(namespace: str, volumes: list[dict[str, Any]]) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i:1"}], "volumes": volumes}
    metadata = {"name": "probe", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def is_refused(admin: kube.Client, pod: dict[str, Any]) -> bool:
    try:
        admin.create(pod, dry_run=True)
    except kube.RefusedError as error:
        return "ValidatingAdmissionPolicy" in error.message
    return False


@contextmanager
def pod_of(admin: kube.Client, kind: str, mode: Mode) -> Iterator[kube.Client]:
    """The rights of a pod of the agent's Deployment or DaemonSet, bound to the node OWN."""
    (template,) = [item["spec"]["template"] for item in objects("agent", mode=mode) if item["kind"] == kind]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], "name": kind.lower(), "namespace": AGENT_NAMESPACE},
        "spec": {**template["spec"], "nodeName": OWN},
    }
    admin.create(pod)
    try:
        yield admin.with_token(admin.token_of(pod))
    finally:
        admin.delete(pod)
