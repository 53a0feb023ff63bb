"""Whatever the model and whatever is asked: a plan comes, it is consistent, and its document obeys the schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glowplug.catalog.gpus import gpus
from glowplug.catalog.instances import instances
from glowplug.models.contents import Finding, Model, Shape
from glowplug.plan import memory
from glowplug.plan.decide import decide
from glowplug.plan.document import to_document
from glowplug.plan.request import ENGINES, PROFILES, Machine, Request
from glowplug.plan.text import plan_text
from tests.plan.known import LLAMA_8B, plan

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/schema/plan-1.json").read_text())
VALID = jsonschema.Draft202012Validator(SCHEMA)

_maybe = st.none() | st.integers(0, 10**7)
shapes = st.builds(
    Shape,
    layers=_maybe,
    hidden=_maybe,
    heads=_maybe,
    kv_heads=_maybe,
    head_dim=_maybe,
    vocabulary=_maybe,
    max_positions=_maybe,
    dtype=st.none() | st.sampled_from(["bfloat16", "float32", "strange"]),
    kv_lora_rank=_maybe,
    rope_head_dim=_maybe,
    sliding_window=_maybe,
    full_attention_layers=_maybe,
)
models = st.builds(
    Model,
    source=st.sampled_from(
        ["67GB", "s3://b/m", "S3://b/m", "gs://b/m", "az://b/m", "/models/m", "file:///m", "", "\x1b[31m"]
    )
    | st.text(max_size=20),
    weights_bytes=st.integers(0, 2**60),
    shards=_maybe,
    largest_tensor_bytes=st.none() | st.integers(0, 2**45),
    shape=st.none() | shapes,
    findings=st.just(()) | st.just((Finding("x", "warning", "y"),)),
)
machines = st.one_of(
    st.none(),
    st.sampled_from([Machine.of_instance(one) for one in instances()]),
    st.builds(Machine.of_gpus, st.sampled_from(gpus()), st.integers(1, 64)),
)
versions = st.none() | st.sampled_from(
    ["0.6.6", "0.10.2", "0.17.0", "0.21.0", "0.33.0", "9.9", "nightly", "0.15.9", "0.16.1"]
)
requests = st.builds(
    Request,
    model=models,
    profile=st.sampled_from(PROFILES),
    machine=machines,
    engine=st.sampled_from(ENGINES),
    engine_version=versions,
    streamer_version=versions,
    tensor_parallel_size=st.none() | st.integers(1, 1024),
    chunk_bytes=st.none() | st.integers(1, 2**60),
    max_model_len=st.none() | st.integers(1, 10**9),
    nodes=st.integers(1, 100_000),
    endpoint=st.sampled_from(["", "http://127.0.0.1:8333/", "https://s3.eu-west-1.amazonaws.com"]),
    region=st.sampled_from(["", "eu-west-1"]),
    unsigned=st.booleans(),
)


@settings(max_examples=300)
@given(requests)
def test_a_plan_always_comes_and_is_consistent(request_: Request) -> None:
    found = decide(request_)
    place, streaming = found.placement, found.streaming
    assert place.tensor_parallel_size >= 1
    assert place.pods_per_node == place.gpus_per_node // place.tensor_parallel_size
    if place.fits:
        assert place.tensor_parallel_size <= place.gpus_per_node
        shape = request_.model.shape
        assert shape is None or not shape.heads or shape.heads % place.tensor_parallel_size == 0
        assert not [finding for finding in found.findings if finding.severity == "error"]
    else:
        assert [finding for finding in found.findings if finding.severity == "error"]
    assert (streaming.concurrency >= 1) is (streaming.load_format == "runai_streamer")
    assert request_.profile == "guide" or streaming.concurrency <= 1024
    assert not streaming.distributed or place.tensor_parallel_size > 1
    assert found.resources.host_memory_bytes >= 0
    for finding in request_.model.findings:
        assert finding in found.findings
    document = to_document(found)
    VALID.validate(json.loads(json.dumps(document)))
    assert plan_text(found)
    assert decide(request_) == found


@given(models, st.sampled_from(instances()), st.integers(1, 20_000))
def test_the_size_that_is_chosen_always_divides_the_heads(model: Model, one: Any, tokens: int) -> None:
    for rule in (memory.by_share, memory.by_need(tokens)):
        fit = memory.smallest(model, Machine.of_instance(one), rule)
        assert memory.divides(model.shape, fit.tensor_parallel_size)
        assert fit.tensor_parallel_size & (fit.tensor_parallel_size - 1) == 0


@given(st.integers(1, 40_000), st.integers(1, 40_000))
def test_a_longer_sequence_never_needs_less(few: int, more: int) -> None:
    one, other = memory.need(LLAMA_8B, 1, few), memory.need(LLAMA_8B, 1, few + more)
    assert one is not None
    assert other is not None
    assert one.total < other.total


def test_the_document_has_the_promised_fields() -> None:
    document = to_document(plan(67, nodes=10))
    assert document["schema"] == "glowplug.plan/1"
    promised = {
        "model": "source weights_bytes shards tensors largest_tensor_bytes parameters dtype",
        "placement": "instance gpu gpu_memory_bytes gpus_per_node tensor_parallel_size pods_per_node fits candidates",
        "streaming": "load_format chunk_bytes concurrency distributed extra_config args env",
        "compile": "enabled args env cache_root",
        "resources": "host_memory_bytes connections file_descriptors",
        "estimate": "bound network_gbps load_seconds_single load_seconds_fleet_nat load_seconds_fleet_endpoint nat_cost_usd",
    }
    for name, fields in promised.items():
        assert set(fields.split()) <= set(document[name])
    assert {"setting", "value", "why", "source"} == set(document["reasons"][0])
    assert {"rule", "severity", "message"} <= set(document["findings"][0])
    assert {"instance", "tensor_parallel_size", "pods_per_node"} == set(document["placement"]["candidates"][0])


def test_a_document_that_lacks_a_promise_is_refused() -> None:
    document = to_document(plan(67))
    del document["placement"]["fits"]
    with pytest.raises(jsonschema.ValidationError):
        VALID.validate(json.loads(json.dumps(document)))
