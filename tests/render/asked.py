"""Options of a rendering as the command line would make them, for a model of a bare size. One place for all tests on a server."""

from __future__ import annotations

from typing import Any

from glowplug.catalog.instances import instance
from glowplug.models.contents import Model
from glowplug.plan.decide import decide
from glowplug.plan.request import Machine, Request
from glowplug.render.options import Options

MODEL = "s3://models/llama"
EVERYTHING: dict[str, Any] = {
    "namespace": "inference",
    "service_account": "serving",
    "nodepool": "gpu-pool",
    "image": "registry.example:5000/team/engine:v1@sha256:" + "0" * 64,
    "glowplug_image": "registry.example/glowplug:1",
    "store": "s3://cache/fleet",
    "domain": "team-a.llama_1",
    "replicas": 3,
    "region": "eu-central-1",
    "role_arn": "arn:aws:iam::123456789012:role/glowplug-agent",
    "publish_from": ("inference", "inference/serving"),
    "cluster": "production",
    "node_role": "nodes",
}
"""Every option that a manifest can show."""


def options(machine: str = "p5.48xlarge", gigabytes: int = 67, **given: Any) -> Options:
    """A rendering of `gigabytes` of weights on an instance type; `given` are Options' own fields."""
    one = instance(machine)
    request = Request(
        Model(MODEL, gigabytes * 10**9),
        profile=given.get("profile", "auto"),
        machine=Machine.of_instance(one),
        engine=given.get("engine", "vllm"),
        region=given.get("region") or "",
    )
    return Options(**{"name": "llama", "model": MODEL, "plan": decide(request), "instance": one, **given})
