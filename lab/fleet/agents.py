"""What a cluster's agents say (log, metrics, events), and signals for them.

Asked by the address of the agent's pod and sent by the node's root: agents have no interface of their own for tests.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lab.cluster import Cluster, Node, pods
from lab.fleet.rendered import AGENT, GPU_NODE, SYSTEM
from lab.kube.client import wait_for

ROOT = "/mnt/k8s-disks/0/glowplug"
_PORT = 9090
_FIND = "pgrep -f -- '[g]lowplug.* agent'"


def pod_of(running: Cluster, node: str) -> dict[str, Any]:
    """The agent's pod on that node. Raises LookupError."""
    for pod in _pods_on(running, node):
        if "deletionTimestamp" not in pod["metadata"]:
            return pod
    raise LookupError(f"no agent on {node}")


def wait(running: Cluster, node: str, *, restarts: int = 0, seconds: float = 90.0) -> None:
    """Return when the agent of that node is ready, and its container was started again so many times. Raises TimeoutError."""

    def ready() -> bool:
        try:
            pod = pod_of(running, node)
        except LookupError:
            return False
        statuses = pod["status"].get("containerStatuses", ())
        return pods.is_ready(pod) and all(one["restartCount"] >= restarts for one in statuses)

    wait_for(seconds, f"the agent of {node} is ready", ready)


def restarts(running: Cluster, node: str) -> int:
    """How often its container was started again."""
    (status,) = pod_of(running, node)["status"]["containerStatuses"]
    return int(status["restartCount"])


def replace(running: Cluster, node: str, seconds: float = 90.0) -> None:
    """Delete the pod of that node's agent; return when another one's container runs, ready or not. Raises TimeoutError."""
    old = pod_of(running, node)["metadata"]
    running.kubectl("delete", "pod", f"--namespace={SYSTEM}", old["name"], "--grace-period=1")

    def runs() -> bool:
        try:
            pod = pod_of(running, node)
        except LookupError:
            return False
        statuses = pod["status"].get("containerStatuses", ())
        return pod["metadata"]["uid"] != old["uid"] and any("running" in one["state"] for one in statuses)

    wait_for(seconds, f"a new agent runs on {node}", runs)


@contextmanager
def away(running: Cluster, node: str) -> Iterator[None]:
    """No agent runs on that node, as on one that its DaemonSet does not mean; one comes at the end, and is not waited for."""
    _label(running, node, dict.fromkeys(GPU_NODE))
    try:
        wait_for(60, f"the agent of {node} is gone", lambda: not _pods_on(running, node))
        yield
    finally:
        _label(running, node, GPU_NODE)


@contextmanager
def told(running: Cluster, node: str, variables: Mapping[str, str]) -> Iterator[None]:
    """That node's agent, and no other one's, is started with more variables; at the end as it was."""
    before = running.kube.admin.get("apps/v1", "DaemonSet", AGENT, SYSTEM).document["spec"]
    _change(
        running, {"type": "OnDelete", "rollingUpdate": None}, [{"name": k, "value": v} for k, v in variables.items()]
    )
    try:
        replace(running, node)
        yield
    finally:
        (container,) = before["template"]["spec"]["containers"]
        old = {one["name"]: one for one in container["env"]}
        gone = [old.get(name, {"$patch": "delete", "name": name}) for name in variables]
        _change(running, {"type": "OnDelete", "rollingUpdate": None}, gone)
        replace(running, node)  # before the strategy is back, which would begin anew with the other nodes
        _change(running, before["updateStrategy"], [])


def signal(node: Node, name: str) -> None:
    """Send that signal (KILL, STOP, CONT) to the agent's processes on a node. Raises OSError when there is none."""
    done = node.run(["sh", "-c", f"kill -{name} $({_FIND})"])
    if done.returncode != 0:
        raise OSError(f"no agent runs on {node.name}: {done.stderr}")


def log(running: Cluster, node: str) -> str:
    """What the agent of that node printed since its container was started last."""
    return running.logs(pod_of(running, node)["metadata"]["name"], SYSTEM)


def metrics(running: Cluster, node: str) -> dict[str, float]:
    """Its metrics: `name{label="value"}` → number."""
    address = pod_of(running, node)["status"]["podIP"]
    with urllib.request.urlopen(f"http://{address}:{_PORT}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    return {name: float(value) for name, value in re.findall(r"^([a-z]\S*) (\S+)$", text, re.MULTILINE)}


def events(running: Cluster, pod: str, namespace: str = "default") -> dict[str, str]:
    """Reason → message of the events about a pod."""
    found = running.kube.admin.list("v1", "Event", namespace)
    return {one["reason"]: one.get("message", "") for one in found if one["involvedObject"].get("name") == pod}


def _pods_on(running: Cluster, node: str) -> list[dict[str, Any]]:
    """Agents of that node, those that are being ended too."""
    return [
        pod
        for pod in running.kube.admin.list("v1", "Pod", SYSTEM)
        if pod["metadata"]["labels"].get("app") == AGENT and pod["spec"].get("nodeName") == node
    ]


def _label(running: Cluster, node: str, labels: Mapping[str, str | None]) -> None:
    """None takes a label away."""
    words = [f"{name}-" if value is None else f"{name}={value}" for name, value in labels.items()]
    running.kubectl("label", "node", node, "--overwrite", *words)


def _change(running: Cluster, strategy: Mapping[str, Any], variables: list[dict[str, Any]]) -> None:
    container = {"name": "agent", "env": variables}
    spec = {"updateStrategy": strategy, "template": {"spec": {"containers": [container]}}}
    patch = json.dumps({"spec": spec})
    running.kubectl("patch", "daemonset", AGENT, f"--namespace={SYSTEM}", "--type=strategic", f"--patch={patch}")
