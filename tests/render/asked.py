"""`glowplug render` as a person would type it, with what it prints. One place for all tests that ask an API server about it."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

from glowplug.cli.main import main

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


def printed(kind: str, model: str = MODEL, **given: Any) -> str:
    """What `glowplug render KIND MODEL --given …` prints, of 67 GB on p5.48xlarge; a tuple repeats its option."""
    options = {"name": "llama", "instance": "p5.48xlarge", "size": "67GB", **given}
    words = ["render", kind, *([] if kind == "agent" else [model])]
    for name, value in options.items():
        for one in value if isinstance(value, tuple) else (value,):
            words += [f"--{name.replace('_', '-')}", str(one)]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(words)
    assert status == 0, f"glowplug {' '.join(words)}: {status}\n{err.getvalue()}"
    return out.getvalue()


def objects(kind: str, **given: Any) -> list[dict[str, Any]]:
    """The same as JSON values."""
    value = json.loads(printed(kind, **given, output="json"))
    found: list[dict[str, Any]] = value.get("items", [value])
    return found
