"""What went wrong for somebody, and what a plan does about it: one row a report, numbered as in the project's list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from glowplug.models.contents import Model
from glowplug.plan.outcome import Plan
from tests.plan.known import plan, rules, size

S3 = size(30, "s3://bucket/model")


@dataclass(frozen=True)
class Case:
    row: str
    what: str
    model: Model
    asked: dict[str, Any]
    holds: Callable[[Plan], bool]


CASES = [
    Case(
        "1",
        "a slash at the end of the endpoint fails every read",
        S3,
        {"endpoint": "https://s3.example/"},
        lambda found: (
            found.streaming.env["AWS_ENDPOINT_URL"] == "https://s3.example"
            and "endpoint-trailing-slash" in rules(found)
        ),
    ),
    Case(
        "2",
        "the streamer's own endpoint variable is dead",
        S3,
        {"endpoint": "https://s3.example"},
        lambda found: (
            "RUNAI_STREAMER_S3_ENDPOINT" not in found.streaming.env
            and found.streaming.env["AWS_ENDPOINT_URL"] == "https://s3.example"
        ),
    ),
    Case("3", "a wrong region is only an access error", S3, {}, lambda found: "region-missing" in rules(found)),
    Case(
        "3",
        "a known region is set",
        S3,
        {"region": "us-west-2"},
        lambda found: found.streaming.env["AWS_REGION"] == "us-west-2" and "region-missing" not in rules(found),
    ),
    Case(
        "5",
        "a public bucket needs no signature",
        S3,
        {"unsigned": True, "streamer_version": "0.15.9"},
        lambda found: found.streaming.env["RUNAI_STREAMER_S3_UNSIGNED"] == "1",
    ),
    Case(
        "5",
        "older streamers cannot read one",
        S3,
        {"unsigned": True, "streamer_version": "0.15.8"},
        lambda found: "RUNAI_STREAMER_S3_UNSIGNED" not in found.streaming.env and "streamer-unsigned" in rules(found),
    ),
    Case(
        "6",
        "an S3-compatible server: path style, and not the chunk that was measured on AWS",
        S3,
        {"endpoint": "http://seaweed.example:8333"},
        lambda found: (
            found.streaming.env["RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING"] == "0"
            and found.streaming.chunk_bytes == 8 * 2**20
        ),
    ),
    Case(
        "6",
        "an endpoint of AWS is none of those",
        S3,
        {"endpoint": "https://bucket.vpce-1a2b.s3.eu-west-1.vpce.amazonaws.com"},
        lambda found: (
            "RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING" not in found.streaming.env
            and found.streaming.chunk_bytes == 4 * 2**30
        ),
    ),
    Case(
        "9",
        "a burst of 503 ends a start of eight ranks",
        size(300, "s3://bucket/model"),
        {"streamer_version": "0.17.1"},
        lambda found: int(found.streaming.env["RUNAI_STREAMER_S3_TIMEOUT"]) >= 60,
    ),
    Case(
        "10",
        "more than three seconds to the first byte from another region",
        S3,
        {},
        lambda found: int(found.streaming.env["RUNAI_STREAMER_S3_REQUEST_TIMEOUT_MS"]) > 8000,
    ),
    Case(
        "12",
        "0.6.6 wants the last slash",
        S3,
        {"engine_version": "0.6.6"},
        lambda found: "model-url-slash" in rules(found),
    ),
    Case(
        "12", "newer ones do not", S3, {"engine_version": "0.33.0"}, lambda found: "model-url-slash" not in rules(found)
    ),
    Case(
        "14",
        "the sharded loader refuses concurrency",
        S3,
        {},
        lambda found: "--load-format=runai_streamer" in found.streaming.args,
    ),
    Case(
        "15",
        "silent corruption: `distributed` without the clone",
        size(67, "s3://bucket/model"),
        {"engine_version": "0.21.0"},
        lambda found: not found.streaming.distributed and "distributed-corrupts" in rules(found),
    ),
    Case(
        "20",
        "credentials of a profile list but do not read",
        S3,
        {"streamer_version": "0.15.5"},
        lambda found: "streamer-credentials" in rules(found),
    ),
    Case(
        "20",
        "0.16.0 has the same native code as 0.15.9",
        S3,
        {"streamer_version": "0.16.0"},
        lambda found: "streamer-credentials" in rules(found),
    ),
    Case("20", "fixed", S3, {"streamer_version": "0.16.1"}, lambda found: "streamer-credentials" not in rules(found)),
    Case(
        "vllm 24460",
        "a streamed model never hits the compile cache",
        S3,
        {"engine_version": "0.10.2"},
        lambda found: "engine-never-hits" in rules(found),
    ),
    Case(
        "vllm 24460",
        "fixed",
        S3,
        {"engine_version": "0.11.0"},
        lambda found: "engine-never-hits" not in rules(found),
    ),
    Case(
        "guide a",
        "ranks that read alone read everything",
        size(67, "s3://bucket/model"),
        {"engine_version": "0.21.0", "nodes": 10},
        lambda found: found.estimate.nat_cost_usd == round(2 * 670 * 0.045, 2),
    ),
    Case(
        "guide d",
        "a limit for each connection breaks slow links",
        S3,
        {},
        lambda found: "RUNAI_STREAMER_S3_LOW_SPEED_LIMIT" not in found.streaming.env,
    ),
    Case(
        "guide g",
        "more clients than ring buffers",
        size(60, "s3://bucket/model"),
        {"streamer_version": "0.17.1"},
        lambda found: found.streaming.concurrency <= 18,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.row}: {case.what}")
def test_case(case: Case) -> None:
    assert case.holds(plan(case.model, **case.asked))
