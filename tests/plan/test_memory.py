"""Fit from the memory that is needed: weights, KV cache, reserve; heads that can be split; machines that would do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from glowplug.models.contents import Model, Shape
from glowplug.plan import memory
from tests.plan.known import (
    DEEPSEEK_V3,
    GEMMA_27B,
    GIB,
    LLAMA_8B,
    LLAMA_70B,
    QWEN_7B,
    gpus,
    on,
    plan,
    rules,
    size,
)


@pytest.mark.parametrize(
    ("model", "ranks", "tokens", "expected"),
    [
        # 2 (K and V) x 8 heads x 128 x 2 bytes x 32 layers
        (LLAMA_8B, 1, 1, 131072),
        (LLAMA_8B, 4, 1, 32768),
        # eight KV heads on sixteen ranks: each rank keeps a copy of one
        (LLAMA_8B, 16, 1, 16384),
        (LLAMA_70B, 8, 8192, 2 * 1 * 128 * 2 * 80 * 8192),
        # latent attention: 512 + 64 values a layer, whole on every rank
        (DEEPSEEK_V3, 1, 1, 576 * 2 * 61),
        (DEEPSEEK_V3, 8, 1, 576 * 2 * 61),
        # ten layers keep everything, 52 keep a window
        (GEMMA_27B, 1, 8192, 2 * 16 * 128 * 2 * (10 * 8192 + 52 * 1024)),
        # state-space layers keep nothing that grows
        (
            Model("m", GIB, shape=Shape(layers=10, kv_heads=2, head_dim=64, full_attention_layers=2)),
            1,
            100,
            2 * 512 * 100,
        ),
        (GEMMA_27B, 1, 512, 2 * 16 * 128 * 2 * 62 * 512),
    ],
)
def test_kv_cache_of_a_sequence(model: Model, ranks: int, tokens: int, expected: int) -> None:
    assert model.shape is not None
    assert memory.kv_bytes(model.shape, ranks, tokens) == expected


@pytest.mark.parametrize(
    "shape", [Shape(), Shape(layers=4), Shape(layers=4, kv_heads=2), Shape(kv_heads=2, head_dim=64), Shape(heads=8)]
)
def test_a_shape_that_says_too_little_leaves_the_guides_rule(shape: Shape) -> None:
    model = Model("s3://b/m", 67_000_000_000, shape=shape)
    assert memory.need(model, 1, 8192) is None
    assert plan(model).placement.tensor_parallel_size == 2


@pytest.mark.parametrize(
    ("model", "machine", "tokens", "ranks"),
    [
        (LLAMA_8B, "g6.xlarge", 8192, 1),
        (LLAMA_8B, "g6.12xlarge", 32768, 2),
        (LLAMA_8B, "p5.48xlarge", 131072, 1),
        (LLAMA_70B, "p5.48xlarge", 8192, 2),
        (LLAMA_70B, "p5.48xlarge", 32768, 4),
        (LLAMA_70B, "p5en.48xlarge", 8192, 2),
        (DEEPSEEK_V3, "p5en.48xlarge", 8192, 8),
    ],
)
def test_the_smallest_that_holds_weights_cache_and_reserve(model: Model, machine: str, tokens: int, ranks: int) -> None:
    found = plan(model, machine, max_model_len=tokens).placement
    assert (found.tensor_parallel_size, found.fits) == (ranks, True)
    assert found.pods_per_node == on(machine).gpus // ranks


@pytest.mark.parametrize(
    ("model", "machine", "tokens"),
    [(DEEPSEEK_V3, "p5.48xlarge", 8192), (LLAMA_70B, "g6.12xlarge", 8192), (LLAMA_8B, "g6.xlarge", 131072)],
)
def test_what_does_not_fit_says_what_lacks_and_where_it_would(model: Model, machine: str, tokens: int) -> None:
    found = plan(model, machine, max_model_len=tokens)
    assert not found.placement.fits
    finding = next(one for one in found.findings if one.rule == "does-not-fit")
    assert finding.severity == "error"
    assert "GB" in finding.message
    assert found.placement.candidates[0].instance in finding.hint


def test_what_fits_nowhere_speaks_of_several_nodes() -> None:
    found = plan(9_000, None)
    assert (found.placement.fits, found.placement.candidates) == (False, ())
    finding = next(one for one in found.findings if one.rule == "does-not-fit")
    assert "pipeline parallelism" in finding.hint
    assert found.placement.instance == "p6-b300.48xlarge"


@pytest.mark.parametrize(
    ("model", "ranks", "possible"),
    [
        (QWEN_7B, 1, True),
        (QWEN_7B, 4, True),
        (QWEN_7B, 8, False),  # 28 heads
        (QWEN_7B, 7, False),  # 28 / 7, but four KV heads neither divide by seven nor repeat
        (LLAMA_8B, 16, True),  # KV heads are repeated
        (DEEPSEEK_V3, 128, True),
        (size(10), 7, True),
    ],
)
def test_heads(model: Model, ranks: int, possible: bool) -> None:
    assert memory.divides(model.shape, ranks) is possible


@pytest.mark.parametrize(("ranks", "rule"), [(16, "tensor-parallel-too-large"), (3, "tensor-parallel-heads")])
def test_an_impossible_size_that_was_asked_for(ranks: int, rule: str) -> None:
    found = plan(LLAMA_8B, "p5.48xlarge", tensor_parallel_size=ranks)
    assert not found.placement.fits
    assert rule in rules(found)
    assert found.placement.tensor_parallel_size == ranks


def test_a_size_asked_for_that_is_too_small() -> None:
    found = plan(LLAMA_70B, "p5.48xlarge", tensor_parallel_size=1)
    assert (found.placement.fits, found.placement.tensor_parallel_size) == (False, 1)


def test_candidates_are_the_cheapest_of_each_family_and_fit() -> None:
    found = plan(LLAMA_70B, "p5.48xlarge").placement.candidates
    assert 1 < len(found) <= memory.CANDIDATES
    assert len({one.instance.partition(".")[0] for one in found}) == len(found)
    costs = [on_price(one.instance) for one in found]
    assert costs == sorted(costs)
    for one in found:
        again = plan(LLAMA_70B, one.instance).placement
        assert (again.fits, again.tensor_parallel_size, again.pods_per_node) == (
            True,
            one.tensor_parallel_size,
            one.pods_per_node,
        )


def on_price(name: str) -> float:
    from glowplug.catalog.instances import instance

    return instance(name).usd_per_hour or float("inf")


def test_without_a_machine_the_cheapest_is_taken_and_said() -> None:
    found = plan(LLAMA_8B, None)
    assert found.placement.fits
    assert found.why("instance")
    rivals = [on_price(one.instance) for one in found.placement.candidates]
    assert on_price(str(found.placement.instance)) <= min(rivals)


def test_a_part_of_a_gpu_is_one_gpu_of_its_memory() -> None:
    machine = on("g6f.4xlarge")
    assert (machine.gpus, machine.gpu_memory_bytes) == (1, 11444 * 2**20)
    assert plan(8, machine).placement.fits
    assert not plan(9, machine).placement.fits


def test_gpus_without_an_instance_have_no_network() -> None:
    found = plan(LLAMA_70B, gpus("h100", 8))
    assert found.placement.instance is None
    assert (found.placement.gpu, found.placement.gpus_per_node, found.placement.tensor_parallel_size) == (
        "h100-80gb",
        8,
        2,
    )
    assert found.estimate.network_gbps is None
    assert found.estimate.load_seconds_single is None
    assert found.estimate.nat_cost_usd == pytest.approx(141.1 * 0.045, abs=0.01)


def test_the_length_that_was_not_asked_for_is_the_guides_and_says_what_else_has_room() -> None:
    found = plan(LLAMA_8B, "g6.xlarge")
    assert found.max_model_len == 8192
    finding = next(one for one in found.findings if one.rule == "max-model-len")
    room = memory.most_tokens(LLAMA_8B, on("g6.xlarge"), 1)
    assert room is not None
    assert f"{room:,}" in finding.message
    assert plan(LLAMA_8B, "g6.xlarge", max_model_len=room).placement.fits
    assert not plan(LLAMA_8B, "g6.xlarge", max_model_len=room + 64).placement.fits


def test_a_model_of_fewer_positions_is_planned_for_those() -> None:
    short = Model("s3://b/m", GIB, shape=Shape(layers=2, kv_heads=2, head_dim=64, heads=2, max_positions=2048))
    assert plan(short, "g6.xlarge").max_model_len == 2048
    assert "max-model-len" in rules(plan(short, "g6.xlarge", max_model_len=4096))


def test_room_for_few_sequences_is_said_with_what_would_help() -> None:
    finding = next(one for one in plan(LLAMA_70B, "p5.48xlarge").findings if one.rule == "kv-cache-small")
    assert "--tp 4" in finding.hint
    assert "kv-cache-small" not in rules(plan(LLAMA_70B, "p5.48xlarge", tensor_parallel_size=4))
    assert "kv-cache-small" not in rules(plan(LLAMA_8B, "p5.48xlarge"))


def test_what_a_gpu_holds() -> None:
    """Weights and logits are divided, hidden states and the context are not."""
    wanted = memory.need(LLAMA_8B, 2, 8192)
    assert wanted is not None
    assert wanted.weights == LLAMA_8B.weights_bytes / 2
    assert wanted.kv_cache == 65536 * 8192
    assert wanted.reserve == 2 * GIB + 8192 * 4096 * 2 * 8 + 256 * 128256 * 4 / 2


def test_a_second_copy_is_streamed_but_not_kept() -> None:
    """`consolidated*.safetensors` beside the files of the index: read, charged, and not in GPU memory."""
    twice = replace(LLAMA_8B, weights_bytes=2 * LLAMA_8B.weights_bytes, indexed_bytes=LLAMA_8B.weights_bytes)
    assert memory.need(twice, 1, 8192) == memory.need(LLAMA_8B, 1, 8192)
    assert plan(twice, "g6.xlarge").estimate.nat_cost_usd == pytest.approx(2 * 16.06 * 0.045, abs=0.01)
