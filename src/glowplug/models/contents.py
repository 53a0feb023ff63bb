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
    """What reading cost: requests that were sent (of a directory: reads and one listing), bytes of objects that came back, seconds.

    Repeated requests count again. A listing counts one request for each 1,000 names, and no bytes.
    """

    requests: int = 0
    bytes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Model:
    """One model. A bare size (`67GB`) is a model of which nothing else is known.

    `weights_bytes` is the sum of the root `*.safetensors` objects that a streamer loads, which goes by names alone (whole files,
    headers included; `consolidated*` beside `model-*` counts). `indexed_bytes` is the sum of those that
    `model.safetensors.index.json` names, which is what an engine that goes by the index loads; None without a usable index.
    Everything that was not read is None.

    `shards`, `tensors` and the largest ones are of the same objects as `weights_bytes`, tensors as far as headers can be read.
    `dtype` and `parameters` are of one copy of the model. `dtype` is the safetensors name (`BF16`, `F8_E4M3`) that holds most
    bytes. `parameters` counts the elements of floating-point tensors and of 8-bit signed ones (scales and zero points with
    them); it is None where another integer type holds more than a hundredth of the bytes, since that is how 4-bit weights are
    packed, and headers do not say how many are in a word.
    """

    source: str
    weights_bytes: int
    indexed_bytes: int | None = None
    shards: int | None = None
    tensors: int | None = None
    largest_tensor_bytes: int | None = None
    largest_shard_bytes: int | None = None
    parameters: int | None = None
    dtype: str | None = None
    shape: Shape | None = None
    findings: tuple[Finding, ...] = ()
    traffic: Traffic = field(default_factory=Traffic)
