"""Tags that move, and those that do not."""

from __future__ import annotations

import pytest

from tests.lint.compile.manifests import VLLM, pod
from tests.lint.compile.tables import Fires, Silent, name_of

RULE = name_of(__file__)

FIRES = {
    "vllm/vllm-openai:latest": Fires(pod(image="vllm/vllm-openai:latest"), ("vllm/vllm-openai:latest",), "`latest`"),
    "vllm/vllm-openai": Fires(pod(image="vllm/vllm-openai"), ("vllm/vllm-openai",), "no tag"),
    "vllm/vllm-openai:nightly": Fires(
        pod(image="vllm/vllm-openai:nightly"), ("vllm/vllm-openai:nightly",), "`nightly`"
    ),
    "vllm/vllm-openai:latest-cu129": Fires(
        pod(image="vllm/vllm-openai:latest-cu129"), ("vllm/vllm-openai:latest-cu129",), "latest-cu129"
    ),
    "lmsysorg/sglang:dev": Fires(pod(image="lmsysorg/sglang:dev"), ("lmsysorg/sglang:dev",), "`dev`"),
    "lmsysorg/sglang:latest-cu130": Fires(
        pod(image="lmsysorg/sglang:latest-cu130"), ("lmsysorg/sglang:latest-cu130",), ""
    ),
    "registry.example:5000/team/vllm-openai": Fires(
        pod(image="registry.example:5000/team/vllm-openai"), ("registry.example:5000/team/vllm-openai",), "no tag"
    ),
    "registry.example:5000/team/vllm-openai:main": Fires(
        pod(image="registry.example:5000/team/vllm-openai:main"),
        ("registry.example:5000/team/vllm-openai:main",),
        "`main`",
    ),
}

SILENT = {
    "vllm/vllm-openai:v0.21.0": Silent(pod(image="vllm/vllm-openai:v0.21.0")),
    "vllm/vllm-openai:v0.21.0-cu129": Silent(pod(image="vllm/vllm-openai:v0.21.0-cu129")),
    "vllm/vllm-openai@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": Silent(
        pod(image="vllm/vllm-openai@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
    ),
    "vllm/vllm-openai:latest@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": Silent(
        pod(image="vllm/vllm-openai:latest@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
    ),
    "vllm/vllm-openai:nightly-2dce3d8e0b9f": Silent(pod(image="vllm/vllm-openai:nightly-2dce3d8e0b9f")),
    "lmsysorg/sglang:nightly-dev-20260901-abcdef12": Silent(pod(image="lmsysorg/sglang:nightly-dev-20260901-abcdef12")),
    "lmsysorg/sglang:v0.5.23": Silent(pod(image="lmsysorg/sglang:v0.5.23")),
    "registry.example:5000/team/vllm:2026.11": Silent(pod(image="registry.example:5000/team/vllm:2026.11")),
    "registry.example/vllm:prod-7": Silent(pod(image="registry.example/vllm:prod-7")),
    "a chart's template": Silent(pod(image="'vllm/vllm-openai:{{ .Values.tag }}'")),
    "no image": Silent(pod().replace(f"image: {VLLM}", "command: [vllm, serve]")),
}


@pytest.mark.parametrize("case", FIRES.values(), ids=FIRES)
def test_it_is_found_where_it_stands(case: Fires) -> None:
    case.check(RULE)


@pytest.mark.parametrize("case", SILENT.values(), ids=SILENT)
def test_it_is_silent(case: Silent) -> None:
    case.check(RULE)


def test_other_containers_are_not_the_engines() -> None:
    text = pod().replace("      containers:\n", "      containers:\n        - {name: proxy, image: nginx:latest}\n")
    assert "nginx:latest" in text
    Silent(text).check(RULE)
