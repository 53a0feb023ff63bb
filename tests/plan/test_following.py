"""The command at the end of a plan, typed as it stands, gives the same plan: parsed by the commands' own parsers."""

from __future__ import annotations

import dataclasses
import shlex
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glowplug.catalog.gpus import gpus
from glowplug.catalog.instances import instances
from glowplug.cli import plan as plan_command
from glowplug.cli import render as render_command
from glowplug.cli.plan import Asked
from glowplug.models.contents import Model
from glowplug.plan.decide import decide
from glowplug.plan.outcome import Plan
from glowplug.plan.request import ENGINES, PROFILES, Machine, Request
from glowplug.plan.text import plan_text
from tests.plan.known import GEMMA_27B, LLAMA_8B, LLAMA_70B, QWEN_7B, plan, size


def typed(found: Plan) -> tuple[str, dict[str, Any]]:
    """The command of a plan's last line, and what its parser makes of the words."""
    words = shlex.split(plan_text(found).splitlines()[-1])
    assert words[0] == "glowplug"
    command = {"plan": plan_command, "render": render_command}[words[1]].command
    return words[1], command.make_context(words[1], words[2:]).params


def again(found: Plan, known: dict[str, Model], monkeypatch: pytest.MonkeyPatch) -> Plan:
    """The plan of that command; models are not read but taken from `known`."""
    monkeypatch.setattr("glowplug.models.read.read", lambda source, *_, **__: known[source])
    _, parameters = typed(found)
    asked = Asked(**{field.name: parameters[field.name] for field in dataclasses.fields(Asked)})
    return plan_command.planned(parameters["model"], asked, {})


def settled(found: Plan) -> dict[str, Any]:
    """What has to be the same: everything but how the machine was chosen and what was typed."""
    reasons = {one.setting: one for one in found.reasons if one.setting != "instance"}
    value = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    return {**value, "reasons": reasons, "asked": None, "model": None}


sizes = st.builds(size, st.sampled_from([0.5, 16, 67, 140, 400]))
in_buckets = st.sampled_from([LLAMA_8B, LLAMA_70B, QWEN_7B, GEMMA_27B])
machines = st.one_of(
    st.none(),
    st.sampled_from([Machine.of_instance(one) for one in instances()]),
    st.builds(Machine.of_gpus, st.sampled_from(gpus()), st.sampled_from([1, 2, 8])),
)
requests = st.builds(
    Request,
    model=sizes | in_buckets,
    profile=st.sampled_from(PROFILES),
    machine=machines,
    engine=st.sampled_from(ENGINES),
    engine_version=st.none() | st.sampled_from(["0.21.0", "0.5.9", "0.5.23", "9.9", "0.6.6"]),
    streamer_version=st.none() | st.sampled_from(["0.15.9", "0.17.1", "1.0"]),
    tensor_parallel_size=st.none() | st.sampled_from([1, 2, 3, 4, 8]),
    chunk_bytes=st.none() | st.sampled_from([2**23, 2**32, 10**9]),
    max_model_len=st.none() | st.sampled_from([2048, 8192, 100_000]),
    nodes=st.sampled_from([1, 10]),
)


@settings(max_examples=150)
@given(requests)
def test_the_command_renders_exactly_this_plan(request_: Request) -> None:
    found = decide(request_)
    with pytest.MonkeyPatch.context() as patch:
        if "glowplug" not in plan_text(found).splitlines()[-1]:
            assert not found.placement.candidates
            return
        name, parameters = typed(found)
        other = again(found, {request_.model.source: request_.model}, patch)
        if name == "render":
            assert parameters["mode"] == ("shared" if found.profile == "guide" else None)
            assert settled(other) == settled(found)
            return
    # Another machine, with a tensor-parallel size of its own; all else as it was asked for.
    assert other.placement.fits
    assert other.placement.instance == found.placement.candidates[0].instance
    assert other.asked == {name: value for name, value in found.asked.items() if name != "--tp"}


@pytest.mark.parametrize(
    ("model", "machine"),
    [(LLAMA_8B, "g6.xlarge"), (LLAMA_70B, "g6e.24xlarge"), (QWEN_7B, "p5.48xlarge"), (GEMMA_27B, "g6.48xlarge")],
)
@pytest.mark.parametrize("profile", PROFILES)
def test_what_a_local_config_decided_is_in_the_command(
    model: Model, machine: str, profile: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bucket to which it will be copied is not there yet, so that only its size can be named."""
    local = dataclasses.replace(model, source="./model", largest_tensor_bytes=None)
    found = plan(local, machine, profile=profile)
    _, parameters = typed(found)
    assert (parameters["model"], parameters["size"]) == ("s3://your-bucket/your-model", str(model.weights_bytes))
    other = again(found, {}, monkeypatch)
    kept = ("streaming", "compile", "resources", "estimate", "engine_version", "max_model_len", "nodes")
    assert {name: getattr(other, name) for name in kept} == {name: getattr(found, name) for name in kept}
    places = [dataclasses.replace(one.placement, candidates=()) for one in (found, other)]
    assert places[0] == places[1]


def test_a_size_that_alone_would_not_fit_is_left_to_be_read() -> None:
    """The weights take more than three quarters of the GPU, and config.json says that the rest is enough."""
    local = dataclasses.replace(LLAMA_8B, source="/models/m", weights_bytes=18_000_000_000)
    found = plan(local, "g6.xlarge", max_model_len=2048)
    assert found.placement.fits
    _, parameters = typed(found)
    assert (parameters["model"], parameters["size"]) == ("s3://your-bucket/your-model", None)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("./model", "./model --instance"),
        ("/a dir/model", "'/a dir/model' --instance"),
        ("s3://bucket/model", "s3://bucket/model --instance"),
        ("file:///models/m", "file:///models/m --instance"),
    ],
)
def test_what_does_not_fit_is_planned_anew_from_where_it_is(source: str, words: str) -> None:
    found = plan(dataclasses.replace(LLAMA_70B, source=source), "g6.xlarge", max_model_len=2048)
    assert f"glowplug plan {words}" in plan_text(found)
    assert typed(found)[1]["max_model_len"] == 2048


def test_a_part_of_a_gpu_is_not_rendered_for() -> None:
    found = plan(4, "g6f.2xlarge")
    assert found.placement.fits
    assert next(one.severity for one in found.findings if one.rule == "instance-unfit") == "warning"
    name, parameters = typed(found)
    assert name == "plan"
    assert parameters["instance"] == found.placement.candidates[0].instance


@pytest.mark.parametrize("one", instances(), ids=lambda one: one.name)
def test_only_a_part_of_a_gpu_is_unfit_and_it_is_nobodys_candidate(one: Any) -> None:
    found = plan(1, one.name)
    assert ("instance-unfit" in {finding.rule for finding in found.findings}) is one.fractional
    whole = {known.name for known in instances() if not known.fractional}
    assert {candidate.instance for candidate in found.placement.candidates} <= whole
