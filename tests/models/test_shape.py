"""`config.json` → shape: how each family names its numbers, and that nothing in the file is worth an exception."""

from __future__ import annotations

import dataclasses
import json
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.models import shape
from glowplug.models.contents import Shape


def read(config: object) -> Shape:
    found, findings = shape.read(json.dumps(config).encode())
    assert findings == ()
    assert found is not None
    return found


LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}


def test_grouped_queries() -> None:
    assert read(LLAMA) == Shape(
        architectures=("LlamaForCausalLM",),
        layers=80,
        hidden=8192,
        heads=64,
        kv_heads=8,
        head_dim=128,
        vocabulary=128256,
        max_positions=131072,
        dtype="bfloat16",
        full_attention_layers=80,
    )


FAMILIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "no groups": ({"num_attention_heads": 32}, {"heads": 32, "kv_heads": 32}),
    "one head for all": ({"num_attention_heads": 71, "multi_query": True}, {"kv_heads": 1}),
    "groups by layer": ({"num_attention_heads": 20, "num_key_value_heads": [3, 5, 4]}, {"kv_heads": 5}),
    "Falcon": ({"n_head": 128, "num_kv_heads": 8, "n_layer": 60}, {"heads": 128, "kv_heads": 8, "layers": 60}),
    "ChatGLM": (
        {
            "num_layers": 28,
            "num_attention_heads": 32,
            "multi_query_attention": True,
            "multi_query_group_num": 2,
            "padded_vocab_size": 65024,
        },
        {"layers": 28, "kv_heads": 2, "vocabulary": 65024},
    ),
    "GPT-2": (
        {"n_layer": 12, "n_head": 12, "n_embd": 768, "n_positions": 1024},
        {"layers": 12, "head_dim": 64, "max_positions": 1024},
    ),
    "a head size of its own": ({"hidden_size": 5376, "num_attention_heads": 32, "head_dim": 128}, {"head_dim": 128}),
    "heads that do not divide": ({"hidden_size": 100, "num_attention_heads": 3}, {"head_dim": None}),
    "latent attention": (
        {
            "num_hidden_layers": 61,
            "num_attention_heads": 128,
            "num_key_value_heads": 128,
            "kv_lora_rank": 512,
            "qk_rope_head_dim": 64,
            "qk_nope_head_dim": 128,
            "hidden_size": 7168,
            "n_routed_experts": 256,
            "quantization_config": {"quant_method": "fp8"},
        },
        {
            "kv_lora_rank": 512,
            "rope_head_dim": 64,
            "head_dim": 192,
            "experts": 256,
            "quantization": "fp8",
            "full_attention_layers": 61,
        },
    ),
    "Mixtral": ({"num_local_experts": 8, "sliding_window": None}, {"experts": 8, "sliding_window": None}),
    "Qwen MoE": ({"num_experts": 128}, {"experts": 128}),
    "a dense one that says so": ({"num_local_experts": 0}, {"experts": None}),
    "new name of the type": ({"dtype": "float16"}, {"dtype": "float16"}),
    "type with its module": ({"torch_dtype": "torch.bfloat16"}, {"dtype": "bfloat16"}),
    "all layers slide": (
        {"num_hidden_layers": 32, "sliding_window": 4096},
        {"sliding_window": 4096, "full_attention_layers": 0},
    ),
    "a window that is off": (
        {"num_hidden_layers": 28, "sliding_window": 131072, "use_sliding_window": False, "max_window_layers": 28},
        {"sliding_window": None, "full_attention_layers": 28},
    ),
    "a window for the upper layers": (
        {"num_hidden_layers": 28, "sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 21},
        {"sliding_window": 4096, "full_attention_layers": 21},
    ),
    "layers by name": (
        {"num_hidden_layers": 4, "sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * 2},
        {"sliding_window": 128, "full_attention_layers": 2},
    ),
    "linear attention": (
        {"num_hidden_layers": 4, "layer_types": ["linear_attention"] * 3 + ["full_attention"]},
        {"full_attention_layers": 1},
    ),
    "a kind of tomorrow grows": (
        {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "new"]},
        {"full_attention_layers": 1},
    ),
    "one of four": ({"num_hidden_layers": 48, "full_attention_interval": 4}, {"full_attention_layers": 12}),
    "Jamba": ({"num_hidden_layers": 32, "attn_layer_period": 8, "attn_layer_offset": 4}, {"full_attention_layers": 4}),
    "Nemotron H": ({"num_hidden_layers": 8, "hybrid_override_pattern": "M-M*-M*-"}, {"full_attention_layers": 2}),
    "Gemma 2": (
        {"model_type": "gemma2", "num_hidden_layers": 42, "sliding_window": 4096},
        {"full_attention_layers": 21},
    ),
    "Gemma 3": (
        {
            "model_type": "gemma3",
            "architectures": ["Gemma3ForConditionalGeneration"],
            "vision_config": {"num_hidden_layers": 27},
            "text_config": {"model_type": "gemma3_text", "num_hidden_layers": 62, "sliding_window": 1024},
            "torch_dtype": "bfloat16",
        },
        {
            "layers": 62,
            "full_attention_layers": 10,
            "architectures": ("Gemma3ForConditionalGeneration",),
            "dtype": "bfloat16",
        },
    ),
    "a pattern in letters": (
        {"num_hidden_layers": 64, "sliding_window": 4096, "sliding_window_pattern": "LLLG"},
        {"full_attention_layers": 16},
    ),
    "Cohere 2": (
        {"num_hidden_layers": 32, "sliding_window": 4096, "sliding_window_pattern": 4},
        {"full_attention_layers": 8},
    ),
    "Llama 4": (
        {
            "text_config": {
                "model_type": "llama4_text",
                "num_hidden_layers": 48,
                "attention_chunk_size": 8192,
                "num_local_experts": 16,
            }
        },
        {"layers": 48, "sliding_window": 8192, "full_attention_layers": 12, "experts": 16},
    ),
    "InternVL": (
        {"llm_config": {"num_hidden_layers": 48, "num_attention_heads": 64}, "hidden_size": 1},
        {"layers": 48, "heads": 64},
    ),
    "Qwen omni": ({"thinker_config": {"text_config": {"num_hidden_layers": 28}}}, {"layers": 28}),
    "an empty nest": ({"text_config": {}, "num_hidden_layers": 5}, {"layers": 5}),
    **{
        f"quantised: {method}": ({"quantization_config": {"quant_method": method}}, {"quantization": method.lower()})
        for method in ("awq", "gptq", "compressed-tensors", "mxfp4", "bitsandbytes", "FP8", "modelopt")
    },
    "bitsandbytes of old": ({"quantization_config": {"load_in_4bit": True}}, {"quantization": "bitsandbytes"}),
    "quantised inside": ({"text_config": {"quantization_config": {"quant_method": "fp8"}}}, {"quantization": "fp8"}),
    "not quantised": ({"quantization_config": None}, {"quantization": None}),
    "nothing": ({}, {"layers": None, "architectures": (), "full_attention_layers": None}),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_families(name: str) -> None:
    config, expected = FAMILIES[name]
    found = dataclasses.asdict(read(config))
    assert {field: found[field] for field in expected} == expected


_ODD = [
    "4",
    -1,
    1.5,
    True,
    [],
    {},
    [0],
    {"a": 1},
    1 << 80,
    float("nan"),
    float("inf"),
    ["a", 1],
    "\x1b[2J",
    "x" * 999,
    "",
]
_NUMBERS = {
    "num_hidden_layers": "layers",
    "hidden_size": "hidden",
    "num_attention_heads": "heads",
    "num_key_value_heads": "kv_heads",
    "head_dim": "head_dim",
    "vocab_size": "vocabulary",
    "max_position_embeddings": "max_positions",
    "kv_lora_rank": "kv_lora_rank",
    "qk_rope_head_dim": "rope_head_dim",
    "sliding_window": "sliding_window",
    "num_experts": "experts",
}


@pytest.mark.parametrize("field", ["num_hidden_layers", "num_attention_heads", "hidden_size", "num_key_value_heads"])
def test_none_of_what_every_model_has_is_told(field: str) -> None:
    found, findings = shape.read(json.dumps({field: 0}).encode())
    assert found == shape.read(b"{}")[0]
    assert [(finding.rule, field in finding.message) for finding in findings] == [("config-field", True)]


@pytest.mark.parametrize("odd", _ODD, ids=lambda odd: repr(odd)[:12])
@pytest.mark.parametrize("field", _NUMBERS)
def test_a_number_that_is_none_is_told(field: str, odd: object) -> None:
    found, findings = shape.read(json.dumps({field: odd}).encode())
    assert found is not None
    assert getattr(found, _NUMBERS[field]) is None
    assert [(finding.rule, finding.severity) for finding in findings] == [("config-field", "warning")]
    assert field in findings[0].message


@pytest.mark.parametrize(
    "config",
    [
        {"architectures": "Llama"},
        {"architectures": [5]},
        {"torch_dtype": 5},
        {"dtype": ""},
        {"quantization_config": "fp8"},
        {"quantization_config": {"quant_method": 5}},
        {"quantization_config": {}},
        {"layer_types": "full"},
        {"layer_types": [1]},
        {"layer_types": []},
    ],
    ids=json.dumps,
)
def test_other_fields_that_are_odd_are_told(config: object) -> None:
    found, findings = shape.read(json.dumps(config).encode())
    assert found is not None
    assert [finding.rule for finding in findings] == ["config-field"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"5",
        b'"x"',
        b"\xff",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"9" * 10_000,
        b"[" + b"[]," * 2_000_000 + b"1]",
    ],
    ids=range(11),
)
def test_what_is_no_object_says_nothing(data: bytes) -> None:
    began = time.process_time()
    found, findings = shape.read(data)
    assert found is None
    assert [(finding.rule, finding.severity) for finding in findings] == [("config-unusable", "error")]
    assert findings[0].message.isprintable()
    assert time.process_time() - began < 5


def test_memory_is_bounded() -> None:
    data = b'{"a":[' + b"[]," * 480_000 + b"1]}"
    tracemalloc.start()
    try:
        found, _ = shape.read(data)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert found is None


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["text_config", "a", "quant_method"]), inner, max_size=3)
    ),
    max_leaves=8,
)
_fields = (
    *shape._LAYERS,
    *shape._HIDDEN,
    *shape._HEADS,
    *shape._KV_HEADS,
    *shape._EXPERTS,
    *shape._POSITIONS,
    *shape._VOCABULARY,
    *shape._NESTS,
    "architectures",
    "dtype",
    "torch_dtype",
    "quantization_config",
    "layer_types",
    "layers_block_type",
    "hybrid_override_pattern",
    "full_attention_interval",
    "attn_layer_period",
    "attn_layer_offset",
    "sliding_window",
    "sliding_window_pattern",
    "use_sliding_window",
    "max_window_layers",
    "multi_query",
    "model_type",
    "head_dim",
    "kv_lora_rank",
    "qk_rope_head_dim",
    "qk_nope_head_dim",
)


@given(st.dictionaries(st.sampled_from(_fields), _json | st.integers(0, 100), max_size=12) | _json)
def test_any_json_is_a_shape_or_a_finding(config: object) -> None:
    found, findings = shape.read(json.dumps(config).encode())
    if found is None:
        assert [finding.rule for finding in findings] == ["config-unusable"]
        return
    for name, value in dataclasses.asdict(found).items():
        assert value is None or type(value) in (str, tuple) or (type(value) is int and value >= 0), name
    if found.layers is not None and found.full_attention_layers is not None:
        assert found.full_attention_layers <= found.layers


@given(st.binary(max_size=200))
def test_any_bytes_are_a_shape_or_a_finding(data: bytes) -> None:
    shape.read(data)
