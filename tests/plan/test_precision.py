"""Number formats that a GPU does not have: said of a machine that somebody named, avoided where nobody did."""

from __future__ import annotations

import dataclasses

import pytest

from glowplug.catalog.instances import instance
from glowplug.models.contents import Model, Shape
from tests.plan.known import LLAMA_8B, plan, rules, size

FP8 = Model("s3://b/m", 30_000_000_000, shards=4, dtype="F8_E4M3", shape=Shape(dtype="float16", quantization="fp8"))
BF16 = Model("s3://b/m", 8_000_000_000, shards=4, dtype="BF16")
HALF = Model("s3://b/m", 8_000_000_000, shards=4, dtype="F16", shape=Shape(dtype="float16"))
PACKED = Model("s3://b/m", 8_000_000_000, shards=4, dtype="I32", shape=Shape(dtype="bfloat16", quantization="awq"))


@pytest.mark.parametrize(
    ("model", "machine", "said"),
    [
        (FP8, "p5.48xlarge", {}),
        (FP8, "g6.12xlarge", {}),  # L4, sm_89
        (FP8, "p4d.24xlarge", {"fp8-not-native": "info"}),  # A100: it runs, weights alone in FP8
        (FP8, "g5.12xlarge", {"fp8-not-native": "info"}),
        (FP8, "g4dn.12xlarge", {"fp8-not-native": "warning"}),  # T4: only newer versions of vLLM
        (BF16, "g4dn.12xlarge", {"bf16-not-native": "warning"}),
        (BF16, "p3dn.24xlarge", {"bf16-not-native": "warning"}),
        (BF16, "g5.xlarge", {}),
        (PACKED, "g4dn.12xlarge", {"bf16-not-native": "warning"}),
        (HALF, "g4dn.12xlarge", {}),
        (size(8), "g4dn.12xlarge", {}),  # of a bare size nothing is known
    ],
)
def test_a_format_that_the_gpu_lacks_is_said(model: Model, machine: str, said: dict[str, str]) -> None:
    found = {one.rule: one.severity for one in plan(model, machine).findings if one.rule.endswith("-not-native")}
    assert found == said


@pytest.mark.parametrize(("model", "least"), [(FP8, 89), (BF16, 80), (LLAMA_8B, 80)])
def test_no_such_machine_is_chosen_or_proposed(model: Model, least: int) -> None:
    for weights in (10**9, 8 * 10**9, 30 * 10**9, 200 * 10**9):
        found = plan(dataclasses.replace(model, weights_bytes=weights), None)
        names = [found.placement.instance or "", *(one.instance for one in found.placement.candidates)]
        assert len(names) > 1
        assert all(int(instance(name).gpu.capability.removeprefix("sm_")) >= least for name in names)
        assert not {rule for rule in rules(found) if rule.endswith("-not-native")}


def test_an_old_card_is_proposed_for_what_it_can_do() -> None:
    assert (plan(HALF, None).placement.instance or "").startswith("g4dn.")
