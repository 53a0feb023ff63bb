"""What `render` prints has no finding of these rules; the guide's own Deployment has one where nobody named its service account."""

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
from tests.render.planned import options

RULES = tuple(rule for rule in registry.RULES.values() if rule.area == "kubernetes")
URL = "s3://models/llama"
ENGINES = ("vllm", "sglang", "tensorrt-llm")


def findings(kind: str, machine: str = "p5.48xlarge", gigabytes: int = 67, **rendered: Any) -> set[str]:
    """Names of what is found, with and without --compute and --size."""
    asked = {name: rendered[name] for name in ("profile", "engine") if name in rendered}
    plan = decide(Request(size(gigabytes, URL), machine=Machine.of_instance(instance(machine)), **asked))
    given = {"model": URL, "instance": instance(machine), "store": "s3://store/cache", **rendered}
    text = kinds.render(kind, options(plan, **given)).text
    said: set[str] = set()
    for compute, weights in (("", None), (rendered["compute"].value, gigabytes * 10**9)):
        report = lint([Source("rendered.yaml", text)], Options(RULES, compute, weights))
        assert report.failures == ()
        said |= {one.rule for one in report.findings}
    return said


@pytest.mark.parametrize("account", [None, "reader"])
@pytest.mark.parametrize(("mode", "compute", "engine"), list(itertools.product(Mode, Compute, ENGINES)))
def test_a_deployment_is_clean(mode: Mode, compute: Compute, engine: str, account: str | None) -> None:
    given: dict[str, Any] = {"mode": mode, "compute": compute, "engine": engine, "service_account": account}
    assert findings("deployment", **given) == set()


@pytest.mark.parametrize("kind", ["all", "bake", "nodepool"])
@pytest.mark.parametrize(("mode", "compute"), list(itertools.product(Mode, Compute)))
def test_the_other_kinds_are_clean(kind: str, mode: Mode, compute: Compute) -> None:
    assert findings(kind, mode=mode, compute=compute) == set()


@pytest.mark.parametrize("compute", Compute)
@pytest.mark.parametrize("mode", [Mode.NODE, Mode.SHARED])
def test_the_agent_is_clean(mode: Mode, compute: Compute) -> None:
    assert findings("agent", mode=mode, compute=compute) == set()


@pytest.mark.parametrize(("machine", "gigabytes"), [("g5.xlarge", 15), ("g6e.12xlarge", 140), ("p5en.48xlarge", 640)])
def test_its_probe_is_long_enough_for_what_it_was_planned_for(machine: str, gigabytes: int) -> None:
    given: dict[str, Any] = {"mode": Mode.SHARED, "compute": Compute.KARPENTER}
    assert findings("deployment", machine, gigabytes, **given) == set()


@pytest.mark.parametrize("account", [None, "reader"])
@pytest.mark.parametrize("compute", Compute)
def test_the_guides_deployment_lacks_what_the_guide_leaves_to_the_reader(compute: Compute, account: str | None) -> None:
    given: dict[str, Any] = {"mode": Mode.SHARED, "profile": "guide", "compute": compute, "service_account": account}
    assert findings("deployment", **given) == (set() if account else {"service-account-missing"})
