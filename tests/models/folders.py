"""Small folders of models, made by hand: a name and its bytes, so that a test can spoil any of them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glowplug.core.clock import Deadline
from glowplug.store.contract import Store

Files = dict[str, bytes]
Tensors = Mapping[str, tuple[str, tuple[int, ...]]]

BITS = {
    "F4": 4,
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "F32": 32,
    "I64": 64,
}


def described(tensors: Tensors) -> dict[str, Any]:
    """The object of a header: tensors one after the other."""
    found: dict[str, Any] = {}
    begin = 0
    for name, (dtype, shape) in tensors.items():
        end = begin + math.prod(shape) * BITS[dtype] // 8
        found[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    return found


def head(header: object | bytes, pad: int = 8) -> bytes:
    """Prefix and header, filled up with spaces."""
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % pad)
    return len(text).to_bytes(8, "little") + text


def data_bytes(tensors: Tensors) -> int:
    """Bytes of the tensors themselves."""
    return sum(math.prod(shape) * BITS[dtype] // 8 for dtype, shape in tensors.values())


def shard(tensors: Tensors, metadata: Mapping[str, str] | None = None) -> bytes:
    """A whole file; its tensors are zero."""
    first: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    return head(first | described(tensors)) + bytes(data_bytes(tensors))


def shard_name(number: int, total: int) -> str:
    """As Hugging Face numbers them, from 1."""
    return f"model-{number:05}-of-{total:05}.safetensors"


def index(weight_map: Mapping[str, str], total_size: int) -> bytes:
    """`model.safetensors.index.json`."""
    return json.dumps({"metadata": {"total_size": total_size}, "weight_map": dict(weight_map)}).encode()


def tensors_of(number: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    """What shard `number` of a small model holds: 2 tensors, 3,072 elements, 6,144 bytes."""
    return {
        f"model.layers.{number}.mlp.up_proj.weight": ("BF16", (32, 64)),
        f"model.layers.{number}.mlp.down_proj.weight": ("BF16", (16, 64)),
    }


CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 512,
    "max_position_embeddings": 2048,
    "torch_dtype": "bfloat16",
}


def model(shards: int = 2) -> Files:
    """A sound model."""
    names = [shard_name(number, shards) for number in range(1, shards + 1)]
    files = {name: shard(tensors_of(number)) for number, name in enumerate(names)}
    weight_map = {tensor: name for number, name in enumerate(names) for tensor in tensors_of(number)}
    return files | {
        "config.json": json.dumps(CONFIG).encode(),
        "tokenizer.json": b"{}",
        "model.safetensors.index.json": index(weight_map, shards * 6144),
    }


def write(files: Mapping[str, bytes], directory: Path) -> Path:
    """Put them into a directory; returns it."""
    for name, data in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return directory


def put(files: Mapping[str, bytes], store: Store) -> None:
    """Put them into a store."""
    for name, data in files.items():
        store.put(name, data, Deadline.after(60))
