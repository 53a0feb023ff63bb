"""How long all lint rules take over many Deployments, against libyaml's composer, which is the least that reading YAML costs."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
from collections.abc import Callable, Sequence

import yaml

from glowplug.cli import collecting
from glowplug.cli.main import main as glowplug
from glowplug.lint.run import lint
from glowplug.manifests.source import Source

_DEPLOYMENTS = 1000
_ROUNDS = 3
_GOAL = 7.0
_RENDER = ("deployment", "s3://bucket/model", "--size", "67GB", "--instance", "p5.48xlarge", "--profile", "guide")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    del arguments
    print(json.dumps(measure(), indent=2))
    return 0


def measure() -> dict[str, object]:
    """The shortest CPU time of several rounds each: what other programs do at the same time is in none of them."""
    text = _manifests()
    with collecting.rarely():
        libyaml = _seconds(lambda: list(yaml.compose_all(text, Loader=yaml.CSafeLoader)))
        seconds = _seconds(lambda: lint([Source("deployments.yaml", text)]))
    return {
        "schema": "glowplug.bench/1",
        "name": "lint",
        "deployments": _DEPLOYMENTS,
        "bytes": len(text),
        "libyaml_seconds": round(libyaml, 3),
        "lint_seconds": round(seconds, 3),
        "ratio": round(seconds / libyaml, 2),
        "goal": _GOAL,
    }


def _manifests() -> str:
    rendered = io.StringIO()
    with contextlib.redirect_stdout(rendered), contextlib.redirect_stderr(io.StringIO()):
        glowplug(["render", *_RENDER, "--mode", "shared", "--name", "vllm-number"])
    one = rendered.getvalue()
    return "".join(f"---\n{one.replace('vllm-number', f'vllm-{number}')}" for number in range(_DEPLOYMENTS))


def _seconds(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(_ROUNDS):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


if __name__ == "__main__":
    sys.exit(main())
