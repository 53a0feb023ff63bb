"""What pods of a cluster ask for, read from their specifications, to be brought first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glowplug.agent.asking import wished, wishes
from glowplug.agent.ranking import Wish
from glowplug.agent.settings import Settings
from glowplug.core.errors import NotFoundError


def pod(
    *command: str, namespace: str = "team", image: str = "vllm/vllm-openai:v0.21.0", **container: Any
) -> dict[str, Any]:
    return {
        "metadata": {"namespace": namespace, "labels": {"glowplug.dev/mode": "node"}},
        "spec": {"containers": [{"name": "c", "image": image, "command": list(command), **container}]},
    }


SERVE = ("vllm", "serve", "s3://bucket/model")


class TestAPod:
    @pytest.mark.parametrize(
        ("asks", "wish"),
        [
            (pod(*SERVE), Wish("vllm", "s3://bucket/model", 1, "0.21.0")),
            (pod(*SERVE, "--tensor-parallel-size", "4"), Wish("vllm", "s3://bucket/model", 4, "0.21.0")),
            (pod(*SERVE, image="registry/mine:7"), Wish("vllm", "s3://bucket/model", 1)),
            (
                pod("sh", "-c", "exec vllm serve $MODEL", env=[{"name": "MODEL", "value": "m"}]),
                Wish("vllm", "m", 1, "0.21.0"),
            ),
            (pod(args=["--model", "m"]), None),
        ],
    )
    def test_asks_for_what_its_command_says(self, asks: dict[str, Any], wish: Wish | None) -> None:
        if wish is None:
            wish = Wish("vllm", "m", 1, "0.21.0")
        assert wished(asks) == wish

    @pytest.mark.parametrize(
        "asks",
        [
            pod("nginx"),
            pod("sh", "-c", "if true; then vllm serve m; fi"),
            pod("vllm", "serve", "$(MODEL)", env=[{"name": "MODEL", "valueFrom": {"secretKeyRef": {}}}]),
            {**pod(*SERVE), "status": {"phase": "Succeeded"}},
            {},
        ],
    )
    def test_asks_for_nothing_that_can_be_known(self, asks: dict[str, Any]) -> None:
        assert wished(asks) is None


class Api:
    def __init__(self, *pods: dict[str, Any], labels: dict[str, dict[str, str]] | None = None) -> None:
        self._pods = pods
        self._labels = labels or {}
        self.selected = ""

    def pods(self, *, labels: str = "") -> Iterator[dict[str, Any]]:
        self.selected = labels
        yield from self._pods

    def namespace(self, name: str) -> dict[str, Any]:
        if name not in self._labels:
            raise NotFoundError(name)
        return {"metadata": {"labels": self._labels[name]}}


SETTINGS = Settings(Path("/nowhere"), "n1", domains=("team", "shared"))


def test_what_most_pods_ask_for_comes_first() -> None:
    other = pod("vllm", "serve", "m2")
    api = Api(pod(*SERVE), other, other, pod("nginx"))
    found = wishes(api, SETTINGS)  # type: ignore[arg-type]
    assert {domain: [wish.model for wish in asked] for domain, asked in found.items()} == {
        "team": ["m2", "s3://bucket/model"]
    }
    assert api.selected == "glowplug.dev/mode=node", "the server leaves out the others"


def test_the_domain_is_that_of_the_namespace() -> None:
    api = Api(
        pod(*SERVE, namespace="a"),
        pod("vllm", "serve", "m2", namespace="b"),
        labels={"a": {"glowplug.dev/domain": "shared"}},
    )
    assert list(wishes(api, SETTINGS)) == ["shared"]  # type: ignore[arg-type]
