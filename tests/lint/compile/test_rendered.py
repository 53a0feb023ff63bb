"""What `render` prints has no finding of these rules, in either profile; a version that never hits has to be asked for."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from glowplug.catalog.instances import instance
from glowplug.lint import registry
from glowplug.lint.run import Options, lint
from glowplug.manifests.source import Source
from glowplug.plan.decide import decide
from glowplug.plan.request import Machine, Request
from glowplug.render import kinds
from glowplug.render.options import Compute, Mode
from tests.plan.known import size
from tests.render.injected import document
from tests.render.planned import options

RULES = tuple(rule for rule in registry.RULES.values() if rule.area == "compile")
URL = "s3://models/llama"
PLACES = list(itertools.product(Mode, Compute, ("al2023", "bottlerocket")))


def findings(kind: str, rendered: dict[str, Any], **asked: Any) -> set[str]:
    """Names of what is found, with and without --compute."""
    plan = decide(Request(size(20, URL), machine=Machine.of_instance(instance("p5.48xlarge")), **asked))
    text = kinds.render(kind, options(plan, model=URL, **rendered)).text
    said: set[str] = set()
    for compute in ("", str(rendered.get("compute", ""))):
        report = lint([Source("rendered.yaml", text)], Options(RULES, compute, None))
        assert report.failures == ()
        said |= {one.rule for one in report.findings}
    return said


@pytest.mark.parametrize("profile", ["auto", "guide"])
@pytest.mark.parametrize(("mode", "compute", "ami"), PLACES)
def test_a_deployment_is_clean(mode: Mode, compute: Compute, ami: str, profile: str) -> None:
    rendered = {"mode": mode, "compute": compute, "ami": ami, "profile": profile}
    assert findings("deployment", rendered, profile=profile) == set()


@pytest.mark.parametrize("compute", Compute)
@pytest.mark.parametrize("mode", Mode)
def test_everything_together_is_clean(mode: Mode, compute: Compute) -> None:
    rendered = {"mode": mode, "compute": compute, "instance": instance("p5.48xlarge"), "store": "s3://store/cache"}
    assert findings("all", rendered) == set()


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
@pytest.mark.parametrize("mode", Mode)
def test_every_engine_is_clean(mode: Mode, engine: str) -> None:
    assert findings("deployment", {"mode": mode, "engine": engine}, engine=engine) == set()


@pytest.mark.parametrize("version", ["0.11.0", "0.16.0", "0.17.1", "0.20.2", "0.26.0", "0.31.0", "0.33.0", "0.99.0"])
def test_every_version_is_clean(version: str) -> None:
    assert findings("deployment", {"mode": Mode.SHARED}, engine_version=version) == set()


def test_a_version_that_never_hits_is_what_plan_says_too() -> None:
    plan = decide(Request(size(20, URL), machine=Machine.of_instance(instance("p5.48xlarge")), engine_version="0.10.2"))
    value = kinds.render("deployment", options(plan, model=URL, mode=Mode.SHARED)).value
    accepted = value["metadata"].pop("annotations")
    assert "ignore.glowplug.dev/engine-never-hits" in accepted
    report = lint([Source("rendered.yaml", document(value))], Options(RULES, "karpenter", None))
    assert [one.rule for one in report.findings] == ["engine-never-hits"]
    assert findings("deployment", {"mode": Mode.SHARED}, engine_version="0.10.2") == set()
