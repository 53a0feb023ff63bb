"""What went wrong for somebody, and what lint says of the manifest: one row a report, numbered as in the project's list."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from glowplug.lint import registry
from tests.lint import checking
from tests.lint.streaming.pods import CHUNK, FORMAT, GUIDES, MODEL, SGLANG, deployment, extra, streamed

OFF = {"AWS_EC2_METADATA_DISABLED": "true"}
KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "x"}
TP2 = "--tensor-parallel-size=2"
AREA = [name for name, rule in registry.RULES.items() if rule.area == "streaming"]


@dataclass(frozen=True)
class Case:
    """`rules`: exactly those of this area that are found."""

    row: str
    what: str
    text: str
    rules: tuple[str, ...]
    size: int | None = None
    compute: str = ""


GUIDE = {
    **CHUNK,
    "RUNAI_STREAMER_S3_REQUEST_TIMEOUT_MS": "3000",
    "RUNAI_STREAMER_S3_LOW_SPEED_LIMIT": "1048576",
}
PATH = {"RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING": "0"}

CASES = [
    Case(
        "1",
        "an endpoint with a slash",
        streamed(env={**CHUNK, **OFF, **PATH, "AWS_ENDPOINT_URL": "https://h/"}),
        ("endpoint-trailing-slash",),
    ),
    Case(
        "2",
        "the dead variable",
        streamed(env={**CHUNK, "RUNAI_STREAMER_S3_ENDPOINT": "https://h"}),
        ("streamer-variable-dead",),
    ),
    Case("3", "no region", streamed(env={**CHUNK, **OFF, **KEYS}), ("region-missing",)),
    Case("3", "no region on Auto Mode", streamed(env={**CHUNK, **KEYS}), ("region-missing",), compute="auto-mode"),
    Case(
        "5",
        "a public bucket",
        streamed(env={**CHUNK, "RUNAI_STREAMER_S3_UNSIGNED": "1", "AWS_REGION": "us-west-2"}),
        (),
    ),
    Case(
        "6",
        "an S3-compatible server asked under bucket.host",
        streamed(env={"AWS_ENDPOINT_URL": "http://seaweedfs:8333"}),
        ("endpoint-virtual-hosted",),
    ),
    Case(
        "6", "by path, with the default chunk", streamed(env={"AWS_ENDPOINT_URL": "http://seaweedfs:8333", **PATH}), ()
    ),
    Case("9", "a retry window", streamed(env={**CHUNK, "RUNAI_STREAMER_S3_TIMEOUT": "60"}), ()),
    Case(
        "10",
        "a timeout without effect",
        streamed(env={**CHUNK, "RUNAI_STREAMER_S3_REQUEST_TIMEOUT_MS": "3000"}),
        ("streamer-timeout-ineffective",),
    ),
    Case("10", "a timeout that helps", streamed(env={**CHUNK, "RUNAI_STREAMER_S3_REQUEST_TIMEOUT_MS": "30000"}), ()),
    Case(
        "14",
        "the sharded loader refuses concurrency",
        deployment(MODEL, "--load-format=runai_streamer_sharded", extra(concurrency=16)),
        ("loader-key-unknown",),
    ),
    Case(
        "15",
        "silent corruption",
        streamed(TP2, extra(concurrency=16, distributed=True), image=GUIDES),
        ("distributed-corrupts",),
    ),
    Case("15", "mended", streamed(TP2, extra(concurrency=16, distributed=True), image="vllm/vllm-openai:v0.22.0"), ()),
    Case(
        "15",
        "SGLang",
        deployment(
            "--model-path=s3://m/x",
            "--tp=2",
            extra(concurrency=4, distributed=True),
            image=SGLANG,
            command=("python3", "-m", "sglang.launch_server"),
            env=CHUNK,
        ),
        ("distributed-corrupts",),
    ),
    Case("guide a", "each rank reads everything", streamed(TP2), ("distributed-missing",)),
    Case(
        "guide b",
        "`distributed` goes with eager mode",
        streamed(TP2, "--enforce-eager", extra(concurrency=16, distributed=True)),
        (),
    ),
    Case(
        "guide c, d, e",
        "the guide's settings",
        streamed(TP2, extra(concurrency=17, distributed=True), image=GUIDES, env=GUIDE),
        ("distributed-corrupts", "streamer-timeout-ineffective", "streamer-low-speed-limit"),
    ),
    Case("guide f, g", "its formula", streamed(extra(concurrency=35)), ("concurrency-formula",), size=140 * 10**9),
    Case("guide g", "more clients than buffers", streamed(extra(concurrency=35)), ("concurrency-wasted",)),
    Case(
        "ignored keys",
        "0.21.0 ignores what it does not know",
        streamed(extra(concurency=17), image=GUIDES),
        ("loader-key-unknown",),
    ),
    Case("ignored types", "true is a number", streamed(extra(concurrency=True), image=GUIDES), ("loader-key-type",)),
    Case("memory", "less than the ring", streamed(limits={"memory": "24Gi"}), ("host-memory-bound",), size=140 * 10**9),
    Case(
        "open files",
        "a hard limit of 1024",
        deployment(
            f"ulimit -n 1024; exec vllm serve s3://m/x {FORMAT} --model-loader-extra-config.concurrency=18",
            command=("sh", "-c"),
            env=CHUNK,
        ),
        ("file-descriptor-bound",),
    ),
    Case(
        "units",
        "a chunk with a unit",
        streamed(env={"RUNAI_STREAMER_CHUNK_BYTESIZE": "4GiB"}),
        ("streamer-variable-type",),
    ),
    Case("case", "an upper-case scheme", streamed().replace("s3://", "S3://"), ("scheme-case",)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.row}: {case.what}")
def test_case(case: Case) -> None:
    found = [rule for rule in AREA if checking.found(rule, case.text, size=case.size, compute=case.compute)]
    if case.row == "guide f, g":
        assert set(case.rules) <= set(found)
        return
    assert found == list(case.rules)
