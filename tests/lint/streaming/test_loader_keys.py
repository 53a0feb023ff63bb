"""`--model-loader-extra-config`: keys that the loader does not know, values that it does not take."""

from __future__ import annotations

import pytest

from tests.lint import checking
from tests.lint.streaming.pods import (
    CHUNK,
    FORMAT,
    GUIDES,
    MODEL,
    SGLANG,
    TENSORRT,
    Case,
    check,
    deployment,
    extra,
    streamed,
    table,
)

SHARDED = "--load-format=runai_streamer_sharded"
OLD = "vllm/vllm-openai:v0.10.2"
CUSTOM = "registry.example/llm:prod"
SERVE = ("vllm", "serve", "s3://models/llama-70b", FORMAT)


@table(
    Case("misspelt, refused", streamed(extra(concurency=16)), '"concurency"', "ends with a ValueError"),
    Case("misspelt, ignored", streamed(extra(concurency=16), image=GUIDES), '"concurency"', "ignored without a word"),
    Case("like none", streamed(extra(concurrency=16, threads=4)), '"threads"', "no key of vllm 0.33.0's loader"),
    Case("with dashes", streamed(extra(**{"memory-limit": 4})), '"memory-limit"'),
    Case("too new for the version", streamed(extra(distributed=True), image=OLD), '"distributed"', "vllm 0.10.2"),
    Case(
        "the sharded loader takes one key",
        deployment(MODEL, SHARDED, extra(concurrency=16)),
        '"concurrency"',
        "ValueError",
    ),
    Case("the sharded loader, misspelt", deployment(MODEL, SHARDED, extra(patern="x")), '"patern"'),
    Case(
        "misspelt, whatever the version",
        deployment(*SERVE[2:], extra(concurency=8), image=CUSTOM, command=SERVE[:2]),
        '"concurency"',
    ),
    Case(
        "the streamer's keys for another loader",
        deployment("--model=/models/x", extra(concurrency=16)),
        '"concurrency"',
        "for auto refuses it",
    ),
    Case("by dotted name", streamed("--model-loader-extra-config.concurency=16"), "concurency"),
    Case(
        "SGLang",
        deployment(
            "--model-path=s3://m/x",
            extra(concurency=4),
            image=SGLANG,
            command=("python3", "-m", "sglang.launch_server"),
        ),
        '"concurency"',
    ),
    Case("all three", streamed(extra(concurrency=16, distributed=True, memory_limit=-1))),
    Case("the sharded loader's own", deployment(MODEL, SHARDED, extra(pattern="model-rank-{rank}.safetensors"))),
    Case("no config", deployment(MODEL, FORMAT)),
    Case("an empty one", streamed(extra())),
    Case(
        "another loader's own keys", deployment("--model=/models/x", extra(enable_multithread_load=True, num_threads=8))
    ),
    Case(
        "a loader that nobody described",
        deployment("--model=/m", "--load-format=tensorizer", extra(tensorizer_uri="x")),
    ),
    Case("a newer version may know it", streamed(extra(concurrency=16, warmup=True), image="vllm/vllm-openai:v9.9.9")),
    Case(
        "a version that nobody names may know it",
        deployment(*SERVE[2:], extra(warmup=True), image=CUSTOM, command=SERVE[:2]),
    ),
    Case("no JSON", streamed("--model-loader-extra-config=concurrency=16")),
    Case("TensorRT-LLM", deployment("s3://m/x", image=TENSORRT, command=("trtllm-serve",))),
)
def test_unknown_keys(case: Case) -> None:
    check("loader-key-unknown", case)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"concurency":16}', '{"concurrency":16}'),
        ('{ "concurency" : 16 }', '{ "concurrency" : 16 }'),
        ('{"distributed": false, "memorylimit": 5}', '{"distributed": false, "memory_limit": 5}'),
        ('{"threads":4}', '{"threads":4}'),
        ('{"concurency":16,"concurrency":8}', '{"concurency":16,"concurrency":8}'),
    ],
)
def test_a_misspelt_key_gets_its_name(before: str, after: str) -> None:
    text = streamed(f"--model-loader-extra-config={before}")
    assert checking.fixed("loader-key-unknown", text) == text.replace(before, after)


def test_distributed_is_not_turned_on_by_the_way_where_it_corrupts() -> None:
    text = streamed("--tensor-parallel-size=2", extra(distribted=True), image=GUIDES)
    assert checking.fixed("loader-key-unknown", text) == text
    assert '{"distributed":true}' in checking.fixed("loader-key-unknown", text, unsafe=True)


@table(
    Case("a number in quotes", streamed(extra(concurrency="16")), '"16"', "must be a whole number"),
    Case("ignored", streamed(extra(concurrency="16"), image=GUIDES), '"16"', "vllm 0.21.0 ignores it"),
    Case("a boolean is a number to Python", streamed(extra(concurrency=True), image=GUIDES), "true", "the load fails"),
    Case("a fraction", streamed(extra(concurrency=16.5)), "16.5"),
    Case("zero clients", streamed(extra(concurrency=0), image=GUIDES), "0", "must be 1 or more"),
    Case("less than none", streamed(extra(memory_limit=-2)), "-2", "must be -1 or more"),
    Case("a boolean in quotes", streamed(extra(distributed="true")), '"true"', "must be `true` or `false`"),
    Case("one for true", streamed(extra(distributed=1)), "1"),
    Case("null", streamed(extra(concurrency=None)), "null"),
    Case("a list", streamed(extra(concurrency=[16])), "[16]"),
    Case("a limit with a unit", streamed(extra(memory_limit="40GB")), '"40GB"'),
    Case("gigabytes that are bytes", streamed(extra(memory_limit=5)), "5", "`5` bytes, less than the model's largest"),
    Case("the same in any version", streamed(extra(memory_limit=40), image=GUIDES), "40", "the load fails"),
    Case("the smallest limit that may do", streamed(extra(memory_limit=1 << 20))),
    Case("the largest tensor, whatever that is", streamed(extra(memory_limit=0))),
    Case(
        "the sharded loader's pattern", deployment(MODEL, "--load-format=runai_streamer_sharded", extra(pattern=1)), "1"
    ),
    Case("no JSON", streamed("--model-loader-extra-config=concurrency=16"), "concurrency=16", "no JSON object"),
    Case(
        "Python's words",
        streamed('--model-loader-extra-config={"distributed":True}'),
        '{"distributed":True}',
        "no JSON",
    ),
    Case("a list of keys", streamed("--model-loader-extra-config=[]"), "[]", "no JSON object"),
    Case("by dotted name", streamed("--model-loader-extra-config.concurrency=many"), "many"),
    Case(
        "SGLang",
        deployment(
            "--model-path=s3://m/x",
            extra(concurrency="4"),
            image=SGLANG,
            command=("python3", "-m", "sglang.launch_server"),
        ),
        '"4"',
    ),
    Case("right", streamed(extra(concurrency=16, distributed=False, memory_limit=-1))),
    Case("a number by dotted name", streamed("--model-loader-extra-config.concurrency=16")),
    Case("a boolean by dotted name", streamed("--model-loader-extra-config.distributed=true", "-tp", "2")),
    Case("a key that is not known", streamed(extra(concurency="16"))),
    Case("a limit that was not checked", streamed(extra(memory_limit=-2), image=GUIDES)),
    Case("another loader", deployment("--model=/models/x", extra(concurrency="16"))),
    Case(
        "a config that is not known",
        deployment(
            MODEL,
            "--model-loader-extra-config=$(EXTRA)",
            env=CHUNK,
            entries="- name: EXTRA\n  valueFrom: {secretKeyRef: {name: a, key: b}}",
        ),
    ),
)
def test_types(case: Case) -> None:
    check("loader-key-type", case)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"concurrency":"16"}', '{"concurrency":16}'),
        ('{ "concurrency" : "16" , "distributed" : "False" }', '{ "concurrency" : 16 , "distributed" : false }'),
        ('{"concurrency": 16.0}', '{"concurrency": 16}'),
        ('{"memory_limit": "-1"}', '{"memory_limit": -1}'),
        ('{"distributed": "true"}', '{"distributed": true}'),
        ('{"concurrency":"many"}', '{"concurrency":"many"}'),
        ('{"concurrency":true}', '{"concurrency":true}'),
        ('{"concurrency":0}', '{"concurrency":0}'),
    ],
)
def test_what_was_meant_is_written(before: str, after: str) -> None:
    text = streamed(f"--model-loader-extra-config={before}")
    assert checking.fixed("loader-key-type", text) == text.replace(before, after)


def test_distributed_is_not_made_true_where_it_corrupts() -> None:
    text = streamed("-tp", "2", extra(distributed="true"), image=GUIDES)
    assert checking.fixed("loader-key-type", text) == text
    assert checking.fixed("loader-key-type", text, unsafe=True) == text.replace('"true"', "true")
