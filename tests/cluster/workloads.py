"""Workloads of node mode with the small program in the place of an engine, and what is seen of them on nodes and in the store.

How many ranks such a program has is in its key, and nothing that it compiles depends on it: each number is a workload of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glowplug.manifests import recipe
from glowplug.nodestore import layout
from lab import cluster
from lab.cluster import pods
from lab.fleet import agents, rendered
from lab.kube.client import wait_for
from tests.cluster import programs

NVME = "/mnt/k8s-disks/0"
NODE = recipe.node(NVME, "default")
PLAIN_STATUS = 3
"""With which a program of `failing` ends."""


class Workloads:
    """Makes pods of node mode; one that is told to stay goes on when its verdict is there."""

    def __init__(self, running: cluster.Cluster, python: Path) -> None:
        self._running = running
        self._python = python

    def pod(self, name: str, ranks: int, node: str | None, *words: str, **options: Any) -> dict[str, Any]:
        """A pod that compiles for so many ranks."""
        found = programs.compiling(name, NODE, self._python, None, *words, node=node, **options)
        rendered.set_variables(found["spec"]["containers"][0], {"WORLD_SIZE": str(ranks)})
        return found

    def start(self, name: str, ranks: int, node: str | None, **options: Any) -> None:
        """Create it."""
        self._running.kube.admin.create(self.pod(name, ranks, node, **options))

    def verdict(self, name: str, ranks: int, node: str | None, **options: Any) -> str:
        """`hit`, `miss` … of such a pod; it goes on."""
        self.start(name, ranks, node, **options)
        return programs.verdict(programs.wait_for_verdict(self._running, name, options.get("namespace", "default")))

    def remove(self, *names: str, namespace: str = "default") -> None:
        """Delete pods that nobody looks at any more."""
        self._running.kubectl(
            "delete",
            "pod",
            f"--namespace={namespace}",
            *names,
            "--grace-period=1",
            "--wait=false",
            "--ignore-not-found",
        )


def failing(
    python: Path, name: str, env: Mapping[str, str], recipe_: recipe.Recipe = NODE, **options: Any
) -> dict[str, Any]:
    """A pod whose launcher looks for artifacts, and whose program then ends before it compiles anything."""
    pod = programs.compiling(name, recipe_, python, None, "--fail", **options)
    rendered.set_variables(pod["spec"]["containers"][0], env)
    return pod


def told(running: cluster.Cluster, pod: dict[str, Any], expected: int = PLAIN_STATUS) -> str:
    """What a pod of `failing` printed. Fails where its status is another."""
    running.kube.admin.create(pod)
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    ended = running.wait_for_pod(name, pods.has_ended, namespace)
    log = running.logs(name, namespace)
    assert status(ended) == expected, log
    return log


def status(pod: Mapping[str, Any]) -> int:
    """With which its container ended."""
    (container,) = pod["status"]["containerStatuses"]
    return int(container["state"]["terminated"]["exitCode"])


def held(running: cluster.Cluster, node: str, digest: str) -> bool:
    """Whether that node holds something of a key."""
    return (running.nodes[node].path(agents.ROOT) / layout.STORE / "default" / digest).is_dir()


def wait_until_held(running: cluster.Cluster, node: str, digest: str) -> None:
    """Raises TimeoutError."""
    wait_for(60, f"{node} holds {digest[:12]}", lambda: held(running, node, digest))


def outbox(running: cluster.Cluster, name: str) -> Path:
    """What a pod has handed over to its node's agent."""
    pod = running.pod(name)
    node = running.nodes[pod["spec"]["nodeName"]]
    return node.path(agents.ROOT) / layout.OUTBOX / str(pod["metadata"]["uid"])


def sealed(place: Path) -> bool:
    """Whether archives lie in that outbox, all of them whole."""
    archives = list(place.glob(f"*{layout.SEALED}"))
    return bool(archives) and all(layout.description(one).exists() for one in archives)


def published(running: cluster.Cluster, pod: str) -> bool:
    """Whether the agent told that it published what that pod compiled."""
    return "CompileCachePublished" in agents.events(running, pod)


def wait_until_published(running: cluster.Cluster, pod: str) -> None:
    """Raises TimeoutError with what the agents said last."""
    try:
        wait_for(120, f"what {pod} compiled is published", lambda: published(running, pod))
    except TimeoutError as error:
        raise TimeoutError(f"{error}: {rendered.agents_log(running)[-6000:]}") from None
