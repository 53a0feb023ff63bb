"""What `render` prints in profile auto is clean; in profile guide it has what docs/guide-errata.md says, and nothing else."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from glowplug.catalog.instances import instance, instances
from glowplug.catalog.releases import releases
from glowplug.core.errors import GlowplugError
from glowplug.lint import registry
from glowplug.lint.run import Options, lint
from glowplug.manifests.source import Source
from glowplug.models.contents import Model
from glowplug.plan.decide import decide
from glowplug.plan.request import Machine, Request
from glowplug.render import kinds
from glowplug.render.options import Compute, Mode
from tests.plan.known import DEEPSEEK_V3, GEMMA_27B, LLAMA_8B, LLAMA_70B, QWEN_7B, size
from tests.render.planned import options

RULES = tuple(rule for rule in registry.RULES.values() if rule.area == "streaming")
GUIDES = {
    "concurrency-formula",
    "concurrency-wasted",
    "distributed-corrupts",
    "streamer-low-speed-limit",
    "streamer-timeout-ineffective",
}
URL = "s3://models/llama"
MODELS = (LLAMA_8B, LLAMA_70B, QWEN_7B, GEMMA_27B, DEEPSEEK_V3, *(size(gb, URL) for gb in (3, 10, 40, 67, 140, 400)))


def findings(model: Model, machine: Machine | None, asked: dict[str, Any], rendered: dict[str, Any]) -> set[str] | None:
    """Names of what is found with and without the size; None where nothing is rendered."""
    try:
        found = decide(Request(replace(model, source=URL), machine=machine, **asked))
        text = kinds.render("deployment", options(found, model=URL, **rendered)).text
    except GlowplugError:
        return None
    said: set[str] = set()
    for weights in (None, model.weights_bytes):
        report = lint([Source("rendered.yaml", text)], Options(RULES, str(rendered.get("compute", "")), weights))
        assert report.failures == ()
        said |= {one.rule for one in report.findings}
    return said


def on(name: str) -> Machine:
    return Machine.of_instance(instance(name))


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("compute", Compute)
def test_auto_is_clean(mode: Mode, compute: Compute) -> None:
    assert findings(size(67, URL), on("p5.48xlarge"), {}, {"mode": mode, "compute": compute}) == set()


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_auto_is_clean_for_every_engine(engine: str) -> None:
    for machine, model in itertools.product(("g6e.12xlarge", "p5.48xlarge"), MODELS):
        assert findings(model, on(machine), {"engine": engine}, {}) in (set(), None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "version"),
    [(engine, one.version) for engine in ("vllm", "sglang") for one in releases(engine)]
    + [("vllm", version) for version in ("0.8.5", "0.21.1", "0.34.0", "1.0.0")],
)
def test_auto_is_clean_for_every_version(engine: str, version: str) -> None:
    rendered = 0
    for machine, model in itertools.product(("g6e.12xlarge", "p5.48xlarge"), MODELS):
        found = findings(model, on(machine), {"engine": engine, "engine_version": version}, {})
        assert found in (set(), None), (machine, model)
        rendered += found is not None
    assert rendered


@pytest.mark.slow
@pytest.mark.parametrize("machine", [one.name for one in instances() if not one.fractional])
def test_auto_is_clean_on_every_machine(machine: str) -> None:
    for model in MODELS:
        assert findings(model, on(machine), {}, {}) in (set(), None), model


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.21.0", "0.22.0", "0.33.0"])
@pytest.mark.parametrize("endpoint", ["", "http://minio.storage.svc:9000", "https://s3.example/"])
@pytest.mark.parametrize("region", ["", "us-west-2"])
@pytest.mark.parametrize("unsigned", [False, True])
def test_auto_is_clean_wherever_the_bucket_is(version: str, endpoint: str, region: str, unsigned: bool) -> None:
    asked = {"engine_version": version, "endpoint": endpoint, "region": region, "unsigned": unsigned}
    for compute in Compute:
        given = {"compute": compute, "endpoint": endpoint.rstrip("/") or None, "region": region or None}
        assert findings(size(67, URL), on("p5.48xlarge"), asked, given) == set(), compute


def test_the_guide_has_its_errata() -> None:
    assert findings(size(67, URL), on("p5.48xlarge"), {"profile": "guide"}, {"mode": Mode.SHARED}) == GUIDES


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.source or str(model.weights_bytes))
def test_the_guide_has_no_others(model: Model) -> None:
    for machine in ("g6e.12xlarge", "p4de.24xlarge", "p5.48xlarge"):
        found = findings(model, on(machine), {"profile": "guide"}, {"mode": Mode.SHARED})
        assert found is None or found <= GUIDES, machine
