"""A model as an engine would load it: sizes, tensors, configuration, what will go wrong. `models/read.py` fills it in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class Finding:
    """Something about a model or a plan that a person should know. `rule` is stable: a lint rule's name where one exists."""

    rule: str
    severity: Severity
    message: str
    hint: str = ""


@dataclass(frozen=True)
class Shape:
    """What `config.json` says of the architecture, as far as planning needs it; None where it says nothing usable.

    `kv_heads` equals `heads` without grouped queries. `kv_lora_rank` and `rope_head_dim` are those of multi-head latent
    attention (one shared latent instead of heads). `full_attention_layers` counts layers whose KV cache grows with the context.
    """

    architectures: tuple[str, ...] = ()
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    vocabulary: int | None = None
    max_positions: int | None = None
    dtype: str | None = None
    quantization: str | None = None
    kv_lora_rank: int | None = None
    rope_head_dim: int | None = None
    sliding_window: int | None = None
    full_attention_layers: int | None = None
    experts: int | None = None


@dataclass(frozen=True)
class Traffic:
    """What reading cost: requests that were sent, payload bytes that came back, seconds."""

    requests: int = 0
    bytes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Model:
    """One model. A bare size (`67GB`) is a model of which nothing else is known.

    `weights_bytes` is the sum of the root `*.safetensors` objects that the engine would really load (whole files, headers
    included). Everything that was not read is None. `dtype` is the safetensors name (`BF16`, `F8_E4M3`) that holds most bytes.
    """

    source: str
    weights_bytes: int
    shards: int | None = None
    tensors: int | None = None
    largest_tensor_bytes: int | None = None
    largest_shard_bytes: int | None = None
    parameters: int | None = None
    dtype: str | None = None
    shape: Shape | None = None
    findings: tuple[Finding, ...] = ()
    traffic: Traffic = field(default_factory=Traffic)
