"""`distributed`: without ranks, missing, and in versions that corrupt weights."""

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

GB = 10**9
ON = extra(concurrency=16, distributed=True)
TP2 = "--tensor-parallel-size=2"
SGLANG_SERVER = ("python3", "-m", "sglang.launch_server")


def sglang(*args: str, image: str = SGLANG) -> str:
    return deployment("--model-path=s3://m/x", *args, image=image, command=SGLANG_SERVER, env=CHUNK)


@table(
    Case("no tensor parallelism", streamed(ON), '"distributed"', "this engine has one"),
    Case("tensor parallel 1", streamed("--tensor-parallel-size", "1", ON), '"distributed"'),
    Case("from a disk", deployment("--model=/models/x", FORMAT, ON), '"distributed"'),
    Case("SGLang", sglang(ON), '"distributed"'),
    Case("by dotted name", streamed("--model-loader-extra-config.distributed=true"), "distributed"),
    Case("two ranks", streamed(TP2, ON)),
    Case("by its short name", streamed("-tp", "2", ON)),
    Case("pipeline ranks", streamed("--pipeline-parallel-size=2", ON)),
    Case("off", streamed(extra(concurrency=16, distributed=False))),
    Case("not there", streamed()),
    Case(
        "ranks by a variable that is not known",
        streamed(
            "--tensor-parallel-size=$(TP)", ON, entries="- name: TP\n  valueFrom: {secretKeyRef: {name: a, key: b}}"
        ),
    ),
    Case("of the wrong type", streamed(extra(distributed="true"))),
)
def test_without_ranks(case: Case) -> None:
    check("distributed-without-tp", case)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"concurrency":16,"distributed":true}', '{"concurrency":16}'),
        ('{"distributed": true, "concurrency": 16}', '{"concurrency": 16}'),
    ],
)
def test_without_ranks_the_key_goes(before: str, after: str) -> None:
    text = streamed(f"--model-loader-extra-config={before}")
    assert checking.fixed("distributed-without-tp", text) == text.replace(before, after)


@table(
    Case("no key", streamed(TP2), '{"concurrency":16}', "each of 2 ranks"),
    Case("no config at all", deployment(MODEL, FORMAT, TP2), "runai_streamer", "each of 2 ranks"),
    Case("an address alone", deployment(MODEL, "-tp", "8"), "s3://models/llama-70b", "each of 8 ranks"),
    Case("off in so many words", streamed(TP2, extra(concurrency=16, distributed=False)), "false"),
    Case(
        "a version that nobody names counts as new",
        streamed(TP2, image="vllm/vllm-openai:latest"),
        '{"concurrency":16}',
    ),
    Case(
        "turned off beside", streamed(TP2, ON, env={**CHUNK, "RUNAI_STREAMER_DIST": "0"}), "'0'", "RUNAI_STREAMER_DIST"
    ),
    Case("on", streamed(TP2, ON)),
    Case("one rank", streamed()),
    Case("a version in which it is not safe", streamed(TP2, image=GUIDES)),
    Case("a version that does not know it", streamed(TP2, image="vllm/vllm-openai:v0.10.2")),
    Case("SGLang, where it is not safe", sglang("--tp-size=2", extra(concurrency=16))),
    Case("from a disk", deployment("--model=/models/x", FORMAT, TP2)),
    Case("each rank's own file", deployment(MODEL, "--load-format=runai_streamer_sharded", TP2)),
    Case(
        "no room for its staging buffers",
        streamed(TP2, spec="nodeSelector: {node.kubernetes.io/instance-type: g5.12xlarge}"),
        size=46 * GB,
    ),
    Case("TensorRT-LLM", deployment("s3://m/x", "--tp_size=2", image=TENSORRT, command=("trtllm-serve",))),
)
def test_missing(case: Case) -> None:
    check("distributed-missing", case)


def test_missing_is_added_in_the_json() -> None:
    text = streamed(TP2, '--model-loader-extra-config={"concurrency": 16}')
    fixed = checking.fixed("distributed-missing", text)
    assert '{"concurrency": 16, "distributed": true}' in fixed


def test_missing_is_added_as_an_option() -> None:
    text = deployment(MODEL, FORMAT, TP2)
    assert '--model-loader-extra-config={"distributed":true}' in checking.fixed("distributed-missing", text)


def test_false_becomes_true() -> None:
    text = streamed(TP2, extra(concurrency=16, distributed=False))
    assert checking.fixed("distributed-missing", text) == text.replace("false", "true")


def test_before_rings_it_is_unsafe_to_add() -> None:
    """Streamer 0.16 ignores its memory limit with `distributed`."""
    text = streamed(TP2, image="vllm/vllm-openai:v0.22.0")
    assert checking.fixed("distributed-missing", text) == text
    assert '"distributed":true' in checking.fixed("distributed-missing", text, unsafe=True)


@table(
    Case("the guide's version", streamed(TP2, ON, image=GUIDES), '"distributed"', "vllm 0.21.0"),
    Case("the first with the key", streamed(TP2, ON, image="vllm/vllm-openai:v0.11.1"), '"distributed"'),
    Case(
        "a mirror's tag",
        streamed(TP2, ON, image="registry.example:5000/vllm/vllm-openai:v0.20.1-cu130"),
        '"distributed"',
    ),
    Case("SGLang", sglang("--tp-size=2", ON), '"distributed"', "sglang"),
    Case("from a disk", deployment("--model=/models/x", FORMAT, TP2, ON, image=GUIDES), '"distributed"'),
    Case("by dotted name", streamed(TP2, "--model-loader-extra-config.distributed=true", image=GUIDES), "distributed"),
    Case("mended", streamed(TP2, ON, image="vllm/vllm-openai:v0.22.0")),
    Case("the newest", streamed(TP2, ON)),
    Case("a tag without a version", streamed(TP2, ON, image="vllm/vllm-openai:latest")),
    Case("a digest", streamed(TP2, ON, image="vllm/vllm-openai@sha256:" + "0" * 64)),
    Case("a version between the last bad and the first good", streamed(TP2, ON, image="vllm/vllm-openai:v0.21.1")),
    Case("a candidate of the good one", streamed(TP2, ON, image="vllm/vllm-openai:v0.22.0rc1")),
    Case("before the key, which is ignored", streamed(TP2, ON, image="vllm/vllm-openai:v0.11.0")),
    Case("one rank shares nothing", streamed(ON, image=GUIDES)),
    Case("off", streamed(TP2, extra(distributed=False), image=GUIDES)),
    Case("turned off beside", streamed(TP2, ON, image=GUIDES, env={"RUNAI_STREAMER_DIST": "0"})),
    Case("somebody's own image", streamed(TP2, ON, image="registry.example/llm:v0.21.0", command=("vllm", "serve"))),
)
def test_corrupts(case: Case) -> None:
    check("distributed-corrupts", case)


def test_corruption_is_only_mended_on_request() -> None:
    text = streamed(TP2, ON, image=GUIDES)
    assert checking.fixed("distributed-corrupts", text) == text
    assert checking.fixed("distributed-corrupts", text, unsafe=True) == text.replace(',"distributed":true', "")
