"""Models of known shape, and a short way to ask for a plan."""

from __future__ import annotations

from typing import Any

from glowplug.catalog.gpus import gpu
from glowplug.catalog.instances import instance
from glowplug.models.contents import Model, Shape
from glowplug.plan.decide import decide
from glowplug.plan.outcome import Plan
from glowplug.plan.request import Machine, Request

GIB = 2**30

LLAMA_8B = Model(
    "s3://models/llama-8b",
    16_060_522_240,
    shards=4,
    tensors=291,
    largest_tensor_bytes=1_050_673_152,
    parameters=8_030_261_248,
    dtype="BF16",
    shape=Shape(
        architectures=("LlamaForCausalLM",),
        layers=32,
        hidden=4096,
        heads=32,
        kv_heads=8,
        head_dim=128,
        vocabulary=128256,
        max_positions=131072,
        dtype="bfloat16",
    ),
)
LLAMA_70B = Model(
    "s3://models/llama-70b",
    141_107_412_992,
    shards=30,
    shape=Shape(
        layers=80,
        hidden=8192,
        heads=64,
        kv_heads=8,
        head_dim=128,
        vocabulary=128256,
        max_positions=131072,
        dtype="bfloat16",
    ),
)
QWEN_7B = Model(
    "s3://models/qwen-7b",
    15_231_233_024,
    shards=4,
    shape=Shape(layers=28, hidden=3584, heads=28, kv_heads=4, head_dim=128, vocabulary=152064, max_positions=32768),
)
DEEPSEEK_V3 = Model(
    "s3://models/deepseek-v3",
    688_586_727_753,
    shards=163,
    shape=Shape(
        layers=61,
        hidden=7168,
        heads=128,
        kv_heads=128,
        head_dim=56,
        vocabulary=129280,
        max_positions=163840,
        kv_lora_rank=512,
        rope_head_dim=64,
        experts=256,
    ),
)
GEMMA_27B = Model(
    "s3://models/gemma-27b",
    54_864_804_576,
    shards=12,
    shape=Shape(
        layers=62,
        hidden=5376,
        heads=32,
        kv_heads=16,
        head_dim=128,
        vocabulary=262208,
        max_positions=131072,
        sliding_window=1024,
        full_attention_layers=10,
    ),
)


def size(gb: float, source: str = "") -> Model:
    """A model of which only the size is known."""
    return Model(source or f"{gb:g}GB", round(gb * 1e9))


def on(name: str) -> Machine:
    """An instance type."""
    return Machine.of_instance(instance(name))


def gpus(name: str, count: int) -> Machine:
    """So many GPUs."""
    return Machine.of_gpus(gpu(name), count)


def plan(model: Model | float, machine: str | Machine | None = "p5.48xlarge", **asked: Any) -> Plan:
    """The plan for a model (or GB) on an instance type (or GPUs)."""
    found = model if isinstance(model, Model) else size(model)
    return decide(Request(found, machine=on(machine) if isinstance(machine, str) else machine, **asked))


def rules(plan: Plan) -> set[str]:
    """Names of its findings."""
    return {finding.rule for finding in plan.findings}
