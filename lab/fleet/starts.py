"""Starts of engines in pods, as they look from outside: the start document that the launcher wrote, and the pod's log."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.cluster import Cluster, pods
from lab.fleet.rendered import REPORT
from lab.kube.client import RefusedError, wait_for

_INIT = re.compile(r"init engine \(.*\) took ([0-9.]+) s")
COLD_SECONDS = 420.0
"""How long a cold vLLM may take where two cores have other work too."""


@dataclass(frozen=True)
class Seen:
    """One start: its pod and node, `glowplug.start/1`, and what the container printed."""

    pod: str
    node: str
    document: Mapping[str, Any]
    log: str

    @property
    def verdict(self) -> str:
        """`hit`, `miss` …"""
        compiled: str = self.document["verdict"]["compile"]
        return compiled

    @property
    def init_seconds(self) -> float:
        """The engine's own figure, from its log, which a launcher that became the engine does not read."""
        return init_seconds(self.log)

    def __str__(self) -> str:
        what = {name: self.document.get(name) for name in ("verdict", "restore", "publish")}
        return f"{self.pod} on {self.node}: {json.dumps(what)}\n{self.log[-3000:]}"


def init_seconds(log: str) -> float:
    """The engine's own figure for its initialisation, in what it printed."""
    found = _INIT.search(log)
    assert found, f"nothing is said of the initialisation: {log[-3000:]}"
    return float(found[1])


def named(running: Cluster, label: str, namespace: str = "default") -> list[dict[str, Any]]:
    """The pods with that value of the label `app`, oldest first; those that are being ended are left out."""
    found = [
        pod
        for pod in running.kube.admin.list("v1", "Pod", namespace)
        if pod["metadata"].get("labels", {}).get("app") == label and "deletionTimestamp" not in pod["metadata"]
    ]
    return sorted(found, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))


def report(running: Cluster, pod: Mapping[str, Any]) -> dict[str, Any] | None:
    """The start document of a pod that runs or ran, None while there is none with a verdict."""
    node = running.nodes[pod["spec"]["nodeName"]]
    volumes = node.path("/var/lib/kubelet/pods") / pod["metadata"]["uid"] / "volumes" / "kubernetes.io~empty-dir"
    file = volumes / "lab-report" / Path(REPORT).name
    try:
        document: dict[str, Any] = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return document


def concluded(document: Mapping[str, Any] | None) -> bool:
    """Whether the start has a verdict, and says what became of what it compiled."""
    return document is not None and bool(document["ready_seconds"]) and document["publish"] is not None


def seen(
    running: Cluster, name: str, namespace: str = "default", *, seconds: float = COLD_SECONDS, other_than: str = ""
) -> Seen:
    """The start of that pod once it is ready and has a verdict; `other_than` is the identity of a start before it.

    Raises TimeoutError with what the pod printed.
    """

    def done() -> bool:
        pod = running.pod(name, namespace)
        if pod["status"].get("phase") == "Failed":
            raise ChildProcessError(f"{name} failed: {running.logs(name, namespace)[-4000:]}")
        if not pods.is_ready(pod):
            return False
        document = report(running, pod)
        return document is not None and concluded(document) and document["id"] != other_than

    try:
        wait_for(seconds, f"pod {name} is ready and has its verdict", done)
    except TimeoutError as error:
        status = running.pod(name, namespace)["status"]
        events = running.kubectl("events", f"--namespace={namespace}", f"--for=pod/{name}")
        raise TimeoutError(f"{error}: {status}\n{events}\n{_printed(running, name, namespace)[-4000:]}") from None
    pod = running.pod(name, namespace)
    document = report(running, pod)
    assert document is not None
    return Seen(name, pod["spec"]["nodeName"], document, running.logs(name, namespace))


def new_pod(running: Cluster, label: str, known: set[str], namespace: str = "default", *, seconds: float = 60.0) -> str:
    """The name of the pod with that label that is none of `known`, which it is added to."""

    def found() -> bool:
        return any(pod["metadata"]["name"] not in known for pod in named(running, label, namespace))

    wait_for(seconds, f"a new pod of {label}", found)
    (name,) = [
        pod["metadata"]["name"] for pod in named(running, label, namespace) if pod["metadata"]["name"] not in known
    ]
    known.add(name)
    return str(name)


def unschedulable(pod: Mapping[str, Any]) -> bool:
    """Whether the scheduler has found no node for it."""
    conditions = pod["status"].get("conditions", ())
    return any(one.get("reason") == "Unschedulable" for one in conditions if one["type"] == "PodScheduled")


def scale(running: Cluster, deployment: str, replicas: int, namespace: str = "default") -> None:
    """`kubectl scale`."""
    running.kubectl("scale", f"--namespace={namespace}", f"deployment/{deployment}", f"--replicas={replicas}")


def wait_for_job(running: Cluster, name: str, namespace: str = "default", seconds: float = COLD_SECONDS) -> str:
    """What the Job's pod printed once it has succeeded. Raises ChildProcessError when it failed, TimeoutError."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        status = running.kube.admin.get("batch/v1", "Job", name, namespace).document.get("status", {})
        if status.get("succeeded"):
            return running.kubectl("logs", f"--namespace={namespace}", f"job/{name}")
        if status.get("failed"):
            raise ChildProcessError(running.kubectl("logs", f"--namespace={namespace}", f"job/{name}")[-4000:])
        time.sleep(0.5)
    raise TimeoutError(f"job {name} has not ended after {seconds:.0f} s: {_printed(running, f'job/{name}', namespace)}")


def _printed(running: Cluster, name: str, namespace: str) -> str:
    try:
        return running.logs(name, namespace)
    except (OSError, RefusedError) as error:
        return str(error)
