"""A Llama that is small enough to make here, with weights as safetensors, without a network and without torch.

The tests need a model that a real engine loads through its real loader; what it says is irrelevant. It is made from
a seed alone: the same shape and seed give the same bytes on every machine, so digests may be compared. Weights are
bfloat16 with |w| between 2^-7 and 2^-5 (random bytes would hold NaNs and infinities, and an engine with those in its
activations compiles the same code but answers nothing).

The format of the weight files is the public one of safetensors: eight bytes little-endian length, a JSON header
padded with blanks to a multiple of eight, then the tensors without gaps in the order of their offsets.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_BLOCK = 1 << 20
_BF16 = 2
_ONE = b"\x80\x3f"
_HEAD_DIM = 32
"""Smallest head size that vLLM's CPU attention accepts."""


@dataclass(frozen=True)
class Shape:
    """The numbers of a `LlamaForCausalLM` configuration."""

    hidden: int = 256
    layers: int = 4
    heads: int = 8
    intermediate: int = 512
    vocab: int = 512
    positions: int = 2048

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Every tensor's name and shape in the order in which it is stored."""
        hidden, intermediate = self.hidden, self.intermediate
        yield "model.embed_tokens.weight", (self.vocab, hidden)
        for layer in range(self.layers):
            prefix = f"model.layers.{layer}."
            yield prefix + "input_layernorm.weight", (hidden,)
            for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
                yield f"{prefix}self_attn.{name}.weight", (hidden, hidden)
            yield prefix + "post_attention_layernorm.weight", (hidden,)
            yield prefix + "mlp.gate_proj.weight", (intermediate, hidden)
            yield prefix + "mlp.up_proj.weight", (intermediate, hidden)
            yield prefix + "mlp.down_proj.weight", (hidden, intermediate)
        yield "model.norm.weight", (hidden,)
        yield "lm_head.weight", (self.vocab, hidden)

    @property
    def weight_bytes(self) -> int:
        """Bytes of all tensors, without the files' headers."""
        return sum(math.prod(shape) * _BF16 for _, shape in self.tensors())


TINY = Shape()


def shape_of_size(weight_bytes: int) -> Shape:
    """A shape whose weights take about `weight_bytes` (within 1 % from 16 MB upwards, never less than TINY).

    Width grows rather than depth: depth would lengthen the compile, and what grows here is only meant to lengthen the
    download. Hidden follows the usual 1:4 with intermediate; intermediate then takes up what rounding left.
    """
    if weight_bytes <= TINY.weight_bytes:
        return TINY
    layers = TINY.layers
    hidden = max(256, int(math.sqrt(weight_bytes / (_BF16 * layers * 16)) // 256 * 256))
    fixed = Shape(hidden=hidden, heads=hidden // _HEAD_DIM, intermediate=0).weight_bytes
    step = 32
    intermediate = round((weight_bytes - fixed) / (_BF16 * layers * 3 * hidden) / step) * step
    return Shape(hidden=hidden, heads=hidden // _HEAD_DIM, intermediate=max(step, intermediate))


def make(directory: Path, shape: Shape = TINY, *, shards: int = 1, seed: int = 0) -> int:
    """Write the whole model into `directory` (made if missing) and return the bytes of its weights.

    With `shards` above 1 the weights are split as Hugging Face does it, with `model.safetensors.index.json`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    _write_json(directory / "config.json", _config(shape))
    _write_json(directory / "generation_config.json", {"bos_token_id": 256, "eos_token_id": 257})
    _write_json(directory / "tokenizer.json", _tokenizer())
    _write_json(
        directory / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "model_max_length": shape.positions,
            "clean_up_tokenization_spaces": False,
        },
    )
    groups = _split(list(shape.tensors()), shards)
    names = (
        ["model.safetensors"]
        if len(groups) == 1
        else [f"model-{number:05d}-of-{len(groups):05d}.safetensors" for number in range(1, len(groups) + 1)]
    )
    for name, group in zip(names, groups, strict=True):
        _write_safetensors(directory / name, group, seed)
    if len(groups) > 1:
        weight_map = {tensor: name for name, group in zip(names, groups, strict=True) for tensor, _ in group}
        _write_json(
            directory / "model.safetensors.index.json",
            {"metadata": {"total_size": shape.weight_bytes}, "weight_map": weight_map},
        )
    return shape.weight_bytes


def upload(directory: Path, url: str, env: Mapping[str, str]) -> int:
    """Put every file of `directory` below `url` (`s3://bucket/prefix`) and return the bytes sent.

    `env` holds the AWS_* variables of the store, as `lab.s3.Server.env()` returns them. Needs obstore, which glowplug's
    own environment has.
    """
    import obstore
    from obstore.store import S3Store

    store = S3Store.from_url(
        url,
        endpoint=env["AWS_ENDPOINT_URL"],
        region=env["AWS_REGION"],
        access_key_id=env["AWS_ACCESS_KEY_ID"],
        secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
        client_options={"allow_http": True},
        virtual_hosted_style_request=False,
    )
    total = 0
    for path in sorted(directory.iterdir()):
        obstore.put(store, path.name, path)
        total += path.stat().st_size
    return total


def _config(shape: Shape) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.heads,
        "head_dim": shape.hidden // shape.heads,
        "vocab_size": shape.vocab,
        "max_position_embeddings": shape.positions,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "bos_token_id": 256,
        "eos_token_id": 257,
        "use_cache": True,
    }


def _tokenizer() -> dict[str, object]:
    """A byte-level tokenizer without merges: token N is byte N, then the two special tokens."""
    vocab = {character: byte for byte, character in enumerate(_byte_characters())}
    special = [
        {
            "id": identity,
            "content": content,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for identity, content in ((256, "<s>"), (257, "</s>"))
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": vocab | {"<s>": 256, "</s>": 257},
            "merges": [],
        },
    }


def _byte_characters() -> list[str]:
    """GPT-2's mapping of the 256 bytes to printable characters, which the ByteLevel pre-tokenizer has built in."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    characters, spare = [], 256
    for byte in range(256):
        if byte in printable:
            characters.append(chr(byte))
        else:
            characters.append(chr(spare))
            spare += 1
    return characters


def _split(tensors: list[tuple[str, tuple[int, ...]]], shards: int) -> list[list[tuple[str, tuple[int, ...]]]]:
    """Cut the list into at most `shards` runs of about equal bytes, none of them empty."""
    total = sum(math.prod(shape) for _, shape in tensors)
    groups: list[list[tuple[str, tuple[int, ...]]]] = [[]]
    done = 0
    for tensor in tensors:
        if groups[-1] and len(groups) < shards and done >= total * len(groups) / shards:
            groups.append([])
        groups[-1].append(tensor)
        done += math.prod(tensor[1])
    return groups


def _write_safetensors(path: Path, tensors: list[tuple[str, tuple[int, ...]]], seed: int) -> None:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, shape in tensors:
        size = math.prod(shape) * _BF16
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-len(encoded) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(encoded)))
        file.write(encoded)
        for name, shape in tensors:
            for chunk in _values(name, math.prod(shape), seed):
                file.write(chunk)


_SIGN_AND_EXPONENT = bytes(0x3C if byte < 128 else 0xBC for byte in range(256))


def _values(name: str, count: int, seed: int) -> Iterator[bytes]:
    """The tensor's bytes. Norms are one; all else is small noise that depends on seed and name only."""
    if name.endswith("norm.weight"):
        yield _ONE * count
        return
    source = random.Random(f"{seed}/{name}")  # noqa: S311 - weights, not secrets
    while count:
        step = min(count, _BLOCK)
        chunk = bytearray(step * _BF16)
        chunk[0::2] = source.randbytes(step)
        chunk[1::2] = source.randbytes(step).translate(_SIGN_AND_EXPONENT)
        yield bytes(chunk)
        count -= step


def _write_json(path: Path, document: object) -> None:
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """`python -m lab.model DIRECTORY`: make a model there."""
    parser = argparse.ArgumentParser(prog="python -m lab.model", description="Make a Llama with random weights.")
    parser.add_argument("directory", type=Path)
    tiny = f"{TINY.weight_bytes / 1e6:.1f} MB"
    parser.add_argument("--bytes", type=int, default=0, help=f"size of the weights (default: the tiny model, {tiny})")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    size = make(options.directory, shape_of_size(options.bytes), shards=options.shards, seed=options.seed)
    print(f"{size} bytes of weights in {options.directory}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
