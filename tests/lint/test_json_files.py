"""Fixes in JSON keep its indentation: blanks, tabs, or everything on one line, with any line ends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.lint import checking

RULE = "gpu-toleration-missing"
TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def _pod(**more: Any) -> dict[str, Any]:
    container = {"name": "v", "image": "vllm/vllm-openai:v0.34.0", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"containers": [container], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "v"}, "spec": spec}


@pytest.mark.parametrize("eol", ["\n", "\r\n"])
@pytest.mark.parametrize("indent", ["\t", " ", "  ", "    ", "\t\t", None])
@pytest.mark.parametrize("before", [{}, {"tolerations": []}, {"tolerations": [{"key": "a", "operator": "Exists"}]}])
def test_what_is_added_is_indented_as_its_neighbours(indent: str | None, eol: str, before: dict[str, Any]) -> None:
    def written(pod: dict[str, Any]) -> str:
        return json.dumps(pod, indent=indent).replace("\n", eol)

    after = checking.fixed(RULE, written(_pod(**before)))
    meant = _pod(tolerations=[*before.get("tolerations", []), TOLERATION])
    assert json.loads(after) == meant
    if before != {"tolerations": []}:
        assert after == written(meant)
