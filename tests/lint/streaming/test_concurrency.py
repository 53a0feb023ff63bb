"""How many clients read, in what chunks: none set, too few, more than can work."""

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
CLIENTS = "`concurrency` in --model-loader-extra-config"
(CHUNK_NAME,) = CHUNK
SECRET = """\
- name: RUNAI_STREAMER_CONCURRENCY
  valueFrom: {secretKeyRef: {name: s, key: k}}
"""


@table(
    Case("neither is set", deployment(MODEL, FORMAT), "runai_streamer", "8 clients and chunks of 8 MiB"),
    Case("an object's address alone streams", deployment(MODEL), "s3://models/llama-70b", "8 clients"),
    Case("the chunk alone", deployment(MODEL, FORMAT, env=CHUNK), "runai_streamer", "8 clients"),
    Case("the clients alone", deployment(MODEL, FORMAT, extra(concurrency=16)), "runai_streamer", "chunks of 8 MiB"),
    Case(
        "SGLang too",
        deployment("--model-path=s3://m/x", image=SGLANG, command=("python3", "-m", "sglang.launch_server")),
        "s3://m/x",
        "8 clients",
    ),
    Case("both", streamed()),
    Case("clients by variable", deployment(MODEL, FORMAT, env={**CHUNK, "RUNAI_STREAMER_CONCURRENCY": "16"})),
    Case(
        "clients by the newer variable",
        deployment(MODEL, FORMAT, env={**CHUNK, "RUNAI_STREAMER_OBJ_CONCURRENCY": "16"}),
    ),
    Case("a secret may say it", deployment(MODEL, FORMAT, env=CHUNK, entries=SECRET)),
    Case(
        "so may an unknown ConfigMap",
        deployment(MODEL, FORMAT, container="envFrom:\n- configMapRef: {name: other}"),
    ),
    Case("a server that nobody measured keeps its chunk", streamed(env={"AWS_ENDPOINT_URL": "http://minio:9000"})),
    Case("a disk has other defaults", deployment("--model=/models/llama", FORMAT)),
    Case("another loader", deployment("--model=/models/llama")),
    Case("each rank's own file", deployment(MODEL, "--load-format=runai_streamer_sharded")),
    Case(
        "a script that cannot be followed", deployment(command=("sh", "-c", "while true; do vllm serve s3://a/b; done"))
    ),
    Case("no streamer", deployment("s3://m/x", image=TENSORRT, command=("trtllm-serve",))),
)
def test_untuned(case: Case) -> None:
    check("streamer-untuned", case)


def test_untuned_is_set_as_a_plan_sets_it() -> None:
    spec = "nodeSelector: {node.kubernetes.io/instance-type: p5.48xlarge}"
    text = deployment(MODEL, FORMAT, spec=spec)
    assert checking.fixed("streamer-untuned", text, size=67 * GB) == text
    fixed = checking.fixed("streamer-untuned", text, size=67 * GB, unsafe=True)
    assert '{"concurrency":18}' in fixed
    assert 'value: "4294967296"' in fixed


def test_untuned_has_no_fix_where_a_plan_would_guess() -> None:
    text = deployment(MODEL, FORMAT)
    assert checking.fixed("streamer-untuned", text, unsafe=True) == text


@table(
    Case("a misspelt key is that rule's", deployment(MODEL, FORMAT, extra(concurency=16), env=CHUNK)),
    Case(
        "the rest is this one's", deployment(MODEL, FORMAT, extra(concurency=16)), "runai_streamer", "chunks of 8 MiB"
    ),
    Case("a misspelt number of clients", deployment(MODEL, FORMAT, env={**CHUNK, "RUNAI_STREAMER_CONCURENCY": "16"})),
    Case("a misspelt chunk", deployment(MODEL, FORMAT, extra(concurrency=16), env={"RUNAI_STREAMER_CHUNK_SIZE": "4"})),
    Case(
        "another unknown key is none",
        deployment(MODEL, FORMAT, extra(threads=16), env=CHUNK),
        "runai_streamer",
        "8 clients",
    ),
)
def test_what_is_set_under_a_wrong_name_is_not_missing(case: Case) -> None:
    check("streamer-untuned", case)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (deployment(MODEL, FORMAT), f"set {CLIENTS} and {CHUNK_NAME}; `glowplug plan` computes both"),
        (deployment(MODEL, FORMAT, env=CHUNK), f"set {CLIENTS}; `glowplug plan` computes it"),
        (deployment(MODEL, FORMAT, extra(concurrency=16)), f"set {CHUNK_NAME}; `glowplug plan` computes it"),
        (
            deployment(MODEL, FORMAT, env={"AWS_ENDPOINT_URL": "http://minio:9000"}),
            f"set {CLIENTS}; `glowplug plan` computes it",
        ),
    ],
)
def test_the_hint_names_what_is_missing_and_no_more(text: str, hint: str) -> None:
    (finding,) = checking.found("streamer-untuned", text)
    assert finding.hint == hint


def test_a_default_that_a_plan_would_set_is_no_fault() -> None:
    spec = "nodeSelector: {node.kubernetes.io/instance-type: p5.48xlarge}"
    text = deployment(MODEL, FORMAT, "--tensor-parallel-size=8", image="vllm/vllm-openai:v0.23.0", spec=spec)
    (finding,) = checking.found("streamer-untuned", text, size=140 * GB)
    assert finding.message.endswith("defaults: chunks of 8 MiB")
    after = checking.fixed("streamer-untuned", text, size=140 * GB, unsafe=True)
    assert "concurrency" not in after
    assert checking.found("streamer-untuned", after, size=140 * GB) == []


@table(
    Case("the guide's 67 GB", streamed(extra(concurrency=17)), "17", "16", size=67 * GB),
    Case(
        "by annotation",
        streamed(extra(concurrency=17), annotations={"glowplug.dev/weights": "67GB"}),
        "17",
        "67 GB / 4 GB",
    ),
    Case("the guide's 140 GB", streamed(extra(concurrency=35)), "35", "33", size=140 * GB),
    Case("too few", streamed(extra(concurrency=4)), "4", "less than 8", size=67 * GB),
    Case(
        "too few by variable",
        deployment(MODEL, FORMAT, env={**CHUNK, "RUNAI_STREAMER_CONCURRENCY": "2"}),
        "'2'",
        "less than 8",
        size=67 * GB,
    ),
    Case("where GB and GiB agree", streamed(extra(concurrency=3)), size=10 * GB),
    Case("counted in chunks", streamed(extra(concurrency=16)), size=67 * GB),
    Case("the plan's", streamed(extra(concurrency=18)), size=67 * GB),
    Case("no size is known", streamed(extra(concurrency=17))),
    Case("no more chunks than clients", streamed(extra(concurrency=2)), size=8 * GB),
    Case("the host's memory bounds it", streamed(extra(concurrency=2, memory_limit=4 * GB)), size=67 * GB),
    Case(
        "another chunk is divided as it is",
        streamed(extra(concurrency=63), env={"RUNAI_STREAMER_CHUNK_BYTESIZE": "1073741824"}),
        size=67 * GB,
    ),
)
def test_formula(case: Case) -> None:
    check("concurrency-formula", case)


def test_formula_is_mended_on_request() -> None:
    text = streamed('--model-loader-extra-config={ "concurrency" : 17 , "distributed" : true }')
    assert checking.fixed("concurrency-formula", text, size=67 * GB) == text
    fixed = checking.fixed("concurrency-formula", text, size=67 * GB, unsafe=True)
    assert fixed == text.replace(": 17 ,", ": 16 ,")


@table(
    Case("beyond the ring", streamed(extra(concurrency=35)), "35", "at most 18 of 35"),
    Case(
        "by variable",
        deployment(MODEL, FORMAT, env={**CHUNK, "RUNAI_STREAMER_CONCURRENCY": "64"}),
        "'64'",
        "at most 18",
    ),
    Case(
        "a deeper ring", streamed(extra(concurrency=35), env={**CHUNK, "RUNAI_STREAMER_RING_BUFFERS": "24"}), "35", "24"
    ),
    Case(
        "before rings, beyond the chunks of a rank",
        streamed(extra(concurrency=17), image=GUIDES),
        "17",
        "at most 16",
        size=67 * GB,
    ),
    Case(
        "before rings, shared by ranks",
        streamed("--tensor-parallel-size=2", extra(concurrency=17, distributed=True), image=GUIDES),
        "17",
        "at most 8",
        size=67 * GB,
    ),
    Case("as many as the ring", streamed(extra(concurrency=18))),
    Case("small chunks share a buffer", streamed(extra(concurrency=64), env={})),
    Case("before rings without a size", streamed(extra(concurrency=35), image=GUIDES)),
    Case("a version that nobody names", streamed(extra(concurrency=35), image="vllm/vllm-openai:latest")),
    Case("no limit, and no size", streamed(extra(concurrency=35, memory_limit=-1))),
    Case(
        "a ring that a secret sets",
        streamed(extra(concurrency=35), entries=SECRET.replace("CONCURRENCY", "RING_BUFFERS")),
    ),
)
def test_wasted(case: Case) -> None:
    check("concurrency-wasted", case)


def test_wasted_is_lowered_where_it_is_set() -> None:
    text = deployment(MODEL, FORMAT, env={**CHUNK, "RUNAI_STREAMER_CONCURRENCY": "64"})
    assert checking.fixed("concurrency-wasted", text) == text
    assert "value: '18'" in checking.fixed("concurrency-wasted", text, unsafe=True)
