"""A pod in node mode, and what the launcher in it would claim: made by the launcher's own path, with the image's variables too."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from glowplug.agent.pods import Pod
from glowplug.agent.settings import Publisher, Settings
from glowplug.core.documents.fingerprint import Fact, Key
from glowplug.core.documents.node import ENTRY, OutboxPart
from glowplug.engines import registry
from glowplug.engines.command import resolve_references, see_through
from glowplug.fingerprint import build
from glowplug.fingerprint.hardware import Hardware
from glowplug.fingerprint.software import Software
from glowplug.manifests import recipe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GPU: Final = "NVIDIA H100 80GB HBM3"
CANDIDATES: Final = (GPU,)
MODEL: Final = "s3://models/llama"
IMAGE: Final = "vllm/vllm-openai:v0.21.0"
SETTINGS: Final = Settings(
    Path("/mnt/k8s-disks/0/glowplug"), "node-1", domains=("team-a",), publishers=(Publisher("team-a", "vllm"),)
)
SERVE: Final = ("vllm", "serve", MODEL, "--tensor-parallel-size", "2", "--max-model-len", "8k")


def container(
    command: Sequence[str] = SERVE, *entries: Mapping[str, Any], image: str = IMAGE, **more: Any
) -> dict[str, Any]:
    """The engine's container as the recipe of node mode makes it; `entries` are the user's own variables."""
    added = recipe.node("/mnt/k8s-disks/0", "team-a")
    env = [_plain(variable) for variable in added.variables]
    return {"name": "vllm", "image": image, "command": added.command(command), "env": [*entries, *env], **more}


def _plain(variable: recipe.Variable) -> dict[str, Any]:
    if variable.field_path:
        return {"name": variable.name, "valueFrom": {"fieldRef": {"fieldPath": variable.field_path}}}
    return {"name": variable.name, "value": variable.value}


def pod(
    *containers: Mapping[str, Any], namespace: str = "team-a", account: str = "vllm", domain: str = "team-a"
) -> Pod:
    """A pod as the agent knows it."""
    metadata = {"name": "vllm-0", "namespace": namespace, "uid": "uid-1"}
    spec = {"serviceAccountName": account, "nodeName": "node-1", "containers": list(containers or (container(),))}
    return Pod("uid-1", namespace, "vllm-0", account, domain, {"metadata": metadata, "spec": spec})


def claim(
    command: Sequence[str] = SERVE,
    environ: Mapping[str, str] | None = None,
    *,
    wanted: str = "auto",
    version: str = "0.21.0",
    **key: Any,
) -> OutboxPart:
    """What a launcher seals that was started with these words and variables, with fields of the key changed."""
    environ = environ or {}
    invocation = see_through(resolve_references(command, environ), environ)
    found = registry.recognise(invocation, None, wanted)
    assert found.launch is not None and found.adapter is not None, found.reason
    made = build.fingerprint(
        invocation,
        found.launch,
        found.adapter,
        domain="team-a",
        cache_root="/compile-cache",
        software=Software({"engine_version": Fact(version, "test"), "torch": Fact("2.11.0", "test")}),
        hardware=Hardware(Fact(GPU, "test"), Fact(os.uname().machine, "test"), accelerated=True),
    )
    assert made.key is not None
    return OutboxPart(replace(made.key, **key), ENTRY, "torch_compile_cache/0123456789")


def changed(part: OutboxPart, **fields: Any) -> OutboxPart:
    """The same part with fields of its key changed."""
    return replace(part, key=replace(part.key, **fields))


__all__ = ["CANDIDATES", "GPU", "IMAGE", "MODEL", "SERVE", "SETTINGS", "Key", "changed", "claim", "container", "pod"]
