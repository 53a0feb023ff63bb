"""Nodes of a real API server that a test changes as Karpenter, an administrator or another agent would."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glowplug.kube import connect
from glowplug.kube.client import Client
from glowplug.manifests.marks import STARTUP_TAINT
from lab import kube
from lab.kube import certificates

STARTUP = {"key": STARTUP_TAINT, "effect": "NoSchedule"}
GPU = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}
UNREGISTERED = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}


@contextmanager
def speaking(server: kube.Server, token: str, folder: Path) -> Iterator[Client]:
    """glowplug's own client with a token that the server gave out."""
    path = folder / f"{uuid.uuid4().hex[:8]}.kubeconfig"
    certificates.write_kubeconfig(
        path, server.url, server.files.authority, certificates.Identity("bearer", token=token)
    )
    with connect.from_kubeconfig(str(path)) as client:
        yield client


@dataclass
class Standing:
    """One node."""

    admin: kube.Client
    name: str

    def taints(self) -> list[str]:
        """Keys, without the one that the server itself puts on every new node."""
        found = self.admin.get("v1", "Node", self.name).document["spec"].get("taints", [])
        return [one["key"] for one in found if one["key"] != "node.kubernetes.io/not-ready"]

    def put(self, *taints: dict[str, Any], **labels: str | None) -> None:
        """The node's taints from now on, and labels of Karpenter."""
        named = {f"karpenter.sh/{name}": value for name, value in labels.items()}
        self.admin.patch(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.name}},
            {"metadata": {"labels": named}, "spec": {"taints": list(taints)}},
        )


@contextmanager
def node(
    admin: kube.Client, name: str = "", taints: Sequence[dict[str, Any]] = (GPU, STARTUP), **labels: str
) -> Iterator[Standing]:
    """A node of a name of its own, gone afterwards."""
    standing = Standing(admin, name or f"n-{uuid.uuid4().hex[:8]}")
    document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": standing.name}}
    admin.create(
        {
            **document,
            "metadata": {
                "name": standing.name,
                "labels": {f"karpenter.sh/{label}": value for label, value in labels.items()},
            },
            "spec": {"taints": list(taints)},
        }
    )
    try:
        yield standing
    finally:
        admin.delete(document)
