"""What `glowplug render` prints in profile auto has no finding, whatever is rendered; what was asked for by name is accepted."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import yaml

from glowplug.catalog.instances import instance
from glowplug.core.errors import UsageError
from glowplug.lint.run import Options as Asked
from glowplug.lint.run import Report, lint
from glowplug.manifests.source import Source
from glowplug.models.contents import Model
from glowplug.plan.decide import decide
from glowplug.plan.request import Request
from glowplug.render import accepted, kinds
from glowplug.render.options import Compute, Mode, Options
from tests.plan import known

VERSIONS = {
    "vllm": (None, "0.8.5", "0.10.2", "0.11.0", "0.17.1", "0.21.0", "0.22.0", "0.32.0"),
    "sglang": (None, "0.4.6", "0.5.10", "0.5.20"),
    "tensorrt-llm": (None, "1.0.0"),
}
ENGINES = [(engine, version) for engine, versions in VERSIONS.items() for version in versions]
PLACED: dict[str, Any] = {
    "service_account": "serving",
    "region": "eu-central-1",
    "namespace": "team",
    "nodepool": "gpu",
}
# On eight L40S: tensors so large that `distributed` has no room for its two buffers of them.
LARGE_TENSORS = replace(known.size(160, "s3://models/large"), largest_tensor_bytes=15_000_000_000)


@dataclass(frozen=True)
class Rendered:
    """What is printed for one model on one machine, and how lint is asked about it."""

    model: Model
    machine: str = "p5.48xlarge"

    def options(self, engine: str, version: str | None, mode: Mode, compute: Compute, **given: Any) -> Options:
        """As the command line makes them."""
        request = Request(
            self.model,
            machine=known.on(self.machine),
            engine=engine,
            engine_version=version,
            region=given.get("region") or "",
        )
        return Options(
            name=f"{engine}-inference",
            model=self.model.source,
            plan=decide(request),
            instance=instance(self.machine),
            engine=engine,
            mode=mode,
            compute=compute,
            **given,
        )


MODELS = {
    "its size alone": Rendered(known.size(67, "s3://models/sized")),
    "its headers": Rendered(known.LLAMA_70B),
    "one GPU": Rendered(known.LLAMA_8B, "g6e.xlarge"),
    "a name of a hub": Rendered(known.size(16, "organisation/model"), "g6.12xlarge"),
    "a directory": Rendered(known.size(16, "/models/llama"), "g6.12xlarge"),
    "no room for staging": Rendered(LARGE_TENSORS, "g6e.48xlarge"),
}


def _reports(text: str, options: Options) -> Iterator[Report]:
    """Lint as it is asked without knowing anything, and with all that the rendering knew."""
    assert options.plan is not None
    for asked in (Asked(None), Asked(None, options.compute.value, options.plan.model.weights_bytes)):
        yield lint([Source("rendered.yaml", text)], asked)


def _assert_clean(kind: str, options: Options) -> None:
    try:
        text = kinds.render(kind, options).text
    except UsageError:
        return
    for report in _reports(text, options):
        assert report.failures == ()
        assert [(one.rule, one.message, one.place.text) for one in report.findings] == []
        assert report.notes == ()


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize(("engine", "version"), ENGINES, ids=lambda part: part or "newest")
def test_nothing_that_is_rendered_has_a_finding(model: Rendered, engine: str, version: str | None) -> None:
    for mode, compute, given in itertools.product(Mode, Compute, ({}, PLACED)):
        options = model.options(engine, version, mode, compute, **given)
        for kind in ("deployment", "bake", "all"):
            _assert_clean(kind, options)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("compute", Compute)
@pytest.mark.parametrize("kind", ["agent", "nodepool", "network", "iam"])
def test_what_has_no_engine_has_no_finding(kind: str, compute: Compute, mode: Mode) -> None:
    more = {"cluster": "prod", "vpc": "vpc-0123456789abcdef0", "route_tables": ("rtb-0123456789abcdef0",)}
    for given in (more, {**more, **PLACED}):
        _assert_clean(kind, MODELS["its size alone"].options("vllm", None, mode, compute, **given))


ACCEPTED = {
    "a name of a hub": ("a name of a hub", None, "model-unpinned", "organisation/model was asked for"),
    "an engine that never hits": ("its headers", "0.10.2", "engine-never-hits", "vllm 0.10.2 was asked for"),
    "no room for staging": ("no room for staging", None, "distributed-missing", "30 GB free on each GPU"),
}


@pytest.mark.parametrize("kind", ["deployment", "bake"])
@pytest.mark.parametrize(("model", "version", "rule", "says"), ACCEPTED.values(), ids=ACCEPTED)
def test_what_was_asked_for_by_name_is_accepted_visibly(
    model: str, version: str | None, rule: str, says: str, kind: str
) -> None:
    options = MODELS[model].options("vllm", version, Mode.DIRECT, Compute.KARPENTER)
    made = kinds.render(kind, options)
    *_, pods = yaml.safe_load_all(made.text)
    annotations = pods["metadata"]["annotations"]
    assert list(annotations) == [f"ignore.glowplug.dev/{rule}"]
    assert says in annotations[f"ignore.glowplug.dev/{rule}"]
    assert any(note.startswith(f"{rule}: ") for note in made.notes)
    # The annotation is needed, and it is the only one that is.
    (hidden,) = {report.ignored for report in _reports(made.text, options)}
    assert hidden == 1
    bare = "".join(line for line in made.text.splitlines(keepends=True) if "ignore.glowplug.dev" not in line)
    assert {one.rule for one in lint([Source("bare.yaml", bare)], Asked(None)).findings} == {rule}


@pytest.mark.parametrize("model", ["its size alone", "its headers", "one GPU", "a directory"])
def test_nothing_else_is_accepted(model: str) -> None:
    for version in ("0.11.0", "0.21.0", "0.22.0", None):
        assert accepted.reasons(MODELS[model].options("vllm", version, Mode.DIRECT, Compute.KARPENTER)) == {}


def test_profile_guide_accepts_nothing() -> None:
    options = MODELS["a name of a hub"].options("vllm", None, Mode.SHARED, Compute.KARPENTER)
    assert accepted.reasons(options) != {}
    assert accepted.reasons(replace(options, profile="guide")) == {}
