"""Profile `guide`: the guide's own numbers, quoted; and what it errs in, said without changing them."""

from __future__ import annotations

from pathlib import Path

import pytest

from glowplug.plan.guide import concurrency
from tests.plan.known import LLAMA_70B, QWEN_7B, plan, rules

FOUR_GIB = 4294967296


@pytest.mark.parametrize(("gb", "clients"), [(10, 3), (67, 17), (140, 35)])
def test_the_table_of_concurrency(gb: int, clients: int) -> None:
    assert plan(gb, profile="guide").streaming.concurrency == clients


@pytest.mark.parametrize(
    ("weights", "chunk", "clients"),
    [
        (67_000_000_000, FOUR_GIB, 17),  # the default's other spelling is no other chunk
        (67_000_000_000, 2 * FOUR_GIB, 8),
        (67_000_000_000, 4_000_000_000, 17),
        (8_000_000_000, FOUR_GIB, 2),
        (8_000_000_001, FOUR_GIB, 3),
        (1, FOUR_GIB, 1),
        (0, FOUR_GIB, 1),
    ],
)
def test_the_formula(weights: int, chunk: int, clients: int) -> None:
    assert concurrency(weights, chunk) == clients


def test_the_guides_example_as_a_whole() -> None:
    found = plan(67, profile="guide")
    assert (found.engine, found.engine_version, found.max_model_len) == ("vllm", "0.21.0", 8192)
    assert (found.placement.tensor_parallel_size, found.placement.pods_per_node, found.placement.fits) == (2, 4, True)
    assert found.streaming.args == (
        "--load-format=runai_streamer",
        '--model-loader-extra-config={"concurrency":17,"distributed":true}',
    )
    assert found.streaming.env == {
        "RUNAI_STREAMER_CHUNK_BYTESIZE": "4294967296",
        "RUNAI_STREAMER_S3_REQUEST_TIMEOUT_MS": "3000",
        "RUNAI_STREAMER_S3_LOW_SPEED_LIMIT": "1048576",
    }
    assert found.compile.env == {
        "XDG_CACHE_HOME": "/compile-cache",
        "TORCHINDUCTOR_CACHE_DIR": "/compile-cache/inductor",
        "TRITON_CACHE_DIR": "/compile-cache/triton",
    }
    assert (found.compile.enabled, found.compile.args, found.streaming.chunk_bytes) == (True, (), FOUR_GIB)


def test_distributed_is_left_out_without_tensor_parallelism() -> None:
    found = plan(10, profile="guide")
    assert found.placement.tensor_parallel_size == 1
    assert found.streaming.args[1] == '--model-loader-extra-config={"concurrency":3}'
    assert "distributed" not in found.streaming.extra_config
    assert not found.streaming.distributed


@pytest.mark.parametrize(
    ("gb", "machine", "ranks"),
    [
        (64, "p5.48xlarge", 1),
        (65, "p5.48xlarge", 2),
        (140, "p5.48xlarge", 4),
        (500, "p5.48xlarge", 8),
        (17, "g6.12xlarge", 1),
        (19, "g6.12xlarge", 2),
        (70, "g6.12xlarge", 4),
    ],
)
def test_tensor_parallelism_is_the_smallest_power_of_two_within_three_quarters(
    gb: int, machine: str, ranks: int
) -> None:
    found = plan(gb, machine, profile="guide")
    assert (found.placement.tensor_parallel_size, found.placement.fits) == (ranks, True)
    memory = found.placement.gpu_memory_bytes
    assert gb * 1e9 <= 0.75 * ranks * memory
    assert ranks == 1 or gb * 1e9 > 0.75 * ranks / 2 * memory


def test_tensor_parallelism_divides_the_heads() -> None:
    found = plan(QWEN_7B, "p4d.24xlarge", profile="guide", tensor_parallel_size=8)
    assert not found.placement.fits
    assert "tensor-parallel-heads" in rules(found)
    assert plan(LLAMA_70B, profile="guide").placement.tensor_parallel_size == 4


@pytest.mark.parametrize(
    ("erratum", "there", "not_there"),
    [
        ("streamer-timeout-ineffective", {"model": 10}, None),
        ("streamer-low-speed-limit", {"model": 10}, None),
        ("xdg-moves-everything", {"model": 10}, None),
        ("ranks-read-everything", {"model": 67, "engine_version": "0.11.0"}, {"model": 67}),
        ("ranks-read-everything", {"model": 67, "engine_version": "0.10.0"}, {"model": 10, "engine_version": "0.10.0"}),
        ("distributed-corrupts", {"model": 67}, {"model": 67, "engine_version": "0.22.0"}),
        ("distributed-corrupts", {"model": 67, "engine_version": "v0.20.1"}, {"model": 10}),
        ("distributed-corrupts", {"model": 67}, {"model": 67, "engine_version": "0.11.0"}),
        ("concurrency-formula", {"model": 67}, {"model": 10}),
        (
            "concurrency-wasted",
            {"model": 140, "streamer_version": "0.17.1"},
            {"model": 140, "streamer_version": "0.15.9"},
        ),
        ("concurrency-wasted", {"model": 140, "engine_version": "0.33.0"}, {"model": 67, "engine_version": "0.33.0"}),
        ("cache-variable-overwritten", {"model": 10}, {"model": 10, "engine": "sglang"}),
        ("host-memory-bound", {"model": 16, "machine": "g6.xlarge"}, {"model": 10}),
    ],
)
def test_what_the_guide_errs_in_is_said_where_it_applies(erratum: str, there: dict, not_there: dict | None) -> None:
    found = next(one for one in plan(**there, profile="guide").findings if one.rule == erratum)
    assert found.severity in ("info", "warning")
    if not_there is not None:
        assert erratum not in rules(plan(**not_there, profile="guide"))


def test_every_finding_of_the_profile_is_explained() -> None:
    page = (Path(__file__).parents[2] / "docs/guide-errata.md").read_text()
    asked = [{"model": gb, "engine_version": version} for gb in (10, 67, 140) for version in (None, "0.33.0")]
    said = {rule for one in asked for rule in rules(plan(**one, profile="guide"))}
    assert len(said) > 6
    assert {rule for rule in said if f"`{rule}`" not in page} == set()


def test_ranks_that_read_everything_are_counted() -> None:
    """The guide's `distributed` does nothing in a version that does not know it."""
    one, other = (plan(67, profile="guide", engine_version=version).estimate for version in ("0.11.0", "0.21.0"))
    assert one.nat_cost_usd == pytest.approx(2 * 67 * 0.045, abs=0.01)
    assert other.nat_cost_usd == pytest.approx(67 * 0.045, abs=0.01)


def test_a_chunk_that_was_asked_for_is_not_called_the_guides() -> None:
    found = plan(67, profile="guide", chunk_bytes=8 * 2**30)
    assert found.why("RUNAI_STREAMER_CHUNK_BYTESIZE") == "as asked for"


def test_an_asked_for_size_is_used() -> None:
    found = plan(10, profile="guide", tensor_parallel_size=4)
    assert found.placement.tensor_parallel_size == 4
    assert found.streaming.extra_config == {"concurrency": 3, "distributed": True}


def test_sglang_gets_its_switch() -> None:
    found = plan(67, profile="guide", engine="sglang")
    assert found.compile.args == ("--enable-torch-compile",)
    assert found.streaming.args[0] == "--load-format=runai_streamer"
