"""`config.json` → what planning needs of an architecture: layers, heads, what of the KV cache grows with the context.

Names differ between families, values are of any type, and a model of several kinds (text and images) nests the language model's
part. What is missing or odd is None and, where it is odd, told; nothing here is worth an exception.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from glowplug.core import tables
from glowplug.core.printable import one_line
from glowplug.models import json_text
from glowplug.models.contents import Finding, Shape
from glowplug.models.json_text import JsonError

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME: Final = "config.json"
LARGEST: Final = 8 << 20
"""Bytes of a file that is read. Lists of modules that are not quantised make up to 1 MB."""

_MOST_VALUES: Final = 500_000
_MOST: Final = 1 << 40  # of any number in a configuration
_LONGEST: Final = 128
_SHOWN: Final = 8

_NESTS: Final = ("text_config", "llm_config", "language_config", "language_model_config", "llm", "thinker_config")
_DEPTH: Final = 3

_LAYERS: Final = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
_HIDDEN: Final = ("hidden_size", "n_embd", "d_model", "dim")
_HEADS: Final = ("num_attention_heads", "n_head", "n_heads")
_KV_HEADS: Final = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num", "n_kv_heads")
_EXPERTS: Final = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
_POSITIONS: Final = (
    "max_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "max_seq_len",
    "seq_length",
    "n_ctx",
)
_VOCABULARY: Final = ("vocab_size", "padded_vocab_size", "n_vocab")

_BOUNDED_LAYERS: Final = frozenset(
    {
        "sliding_attention",
        "chunked_attention",
        "window_attention",
        "local_attention",
        "hybrid_sliding",
        "linear_attention",
        "mamba",
        "mamba2",
        "recurrent",
        "conv",
        "moe",
        "mlp",
    }
)
"""Kinds of layers whose state does not grow with the context. Any other kind counts as one whose does: rather too much memory
planned than too little."""


def read(data: bytes) -> tuple[Shape | None, tuple[Finding, ...]]:
    """Shape and findings (`config-unusable`, `config-field`) of the bytes of a config.json; the shape is None for no object."""
    try:
        value = json_text.load(data, _MOST_VALUES)
    except JsonError as error:
        return None, (unusable(str(error)),)
    if not isinstance(value, dict):
        return None, (unusable("it is no object"),)
    reader = _Reader(_parts(value))
    shape = reader.shape()
    return shape, reader.findings()


def unusable(why: str) -> Finding:
    """The finding for a config.json that says nothing."""
    return Finding(
        "config-unusable",
        "error",
        f"{NAME} cannot be used: {why}",
        "copy the model's own file; an engine starts with nothing less",
    )


def _parts(value: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The language model's own part first, then what it lies in."""
    parts = [value]
    while len(parts) <= _DEPTH:
        inner = next((part for name in _NESTS if isinstance(part := parts[0].get(name), dict) and part), None)
        if inner is None:
            break
        parts.insert(0, inner)
    return tuple(parts)


class _Reader:
    """Looks fields up in the parts of a configuration and remembers which were odd."""

    def __init__(self, parts: tuple[Mapping[str, Any], ...]) -> None:
        self._parts = parts
        self._odd: list[str] = []

    def findings(self) -> tuple[Finding, ...]:
        """One for all odd fields."""
        if not self._odd:
            return ()
        names = ", ".join(self._odd[:_SHOWN]) + (" …" if len(self._odd) > _SHOWN else "")
        message = f"{NAME} has fields whose values cannot be used: {names}"
        return (Finding("config-field", "warning", message, "compare the file with the model's own"),)

    def shape(self) -> Shape:
        """All of it."""
        layers, heads, hidden = (self._some(*names) for names in (_LAYERS, _HEADS, _HIDDEN))
        rope, content = self._number("qk_rope_head_dim"), self._number("qk_nope_head_dim")
        head_dim = self._number("head_dim") or (rope + content if rope and content else None)
        if head_dim is None and hidden and heads and hidden % heads == 0:
            head_dim = hidden // heads
        window = self._window()
        return Shape(
            architectures=self._architectures(),
            layers=layers,
            hidden=hidden,
            heads=heads,
            kv_heads=self._kv_heads(heads),
            head_dim=head_dim,
            vocabulary=self._number(*_VOCABULARY),
            max_positions=self._number(*_POSITIONS),
            dtype=self._dtype(),
            quantization=self._quantization(),
            kv_lora_rank=self._number("kv_lora_rank"),
            rope_head_dim=rope,
            sliding_window=window,
            full_attention_layers=self._full_attention(layers, window),
            experts=self._number(*_EXPERTS),
        )

    def _find(self, *names: str) -> tuple[str, Any]:
        """The first of these names that some part has a value for."""
        for part in self._parts:
            for name in names:
                if part.get(name) is not None:
                    return name, part[name]
        return "", None

    def _number(self, *names: str) -> int | None:
        """A whole number above zero. Zero is how some say "none"."""
        name, value = self._find(*names)
        if value is None or (type(value) is int and value == 0):
            return None
        if type(value) is int and 0 < value <= _MOST:
            return value
        self._note(name)
        return None

    def _some(self, *names: str) -> int | None:
        """A number of something that no model is without: zero is odd."""
        name, value = self._find(*names)
        if type(value) is int and value == 0:
            self._note(name)
        return self._number(*names)

    def _text(self, *names: str) -> str | None:
        name, value = self._find(*names)
        if value is None:
            return None
        if isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable():
            return value
        self._note(name)
        return None

    def _note(self, name: str) -> None:
        if name not in self._odd:
            self._odd.append(name)

    def _architectures(self) -> tuple[str, ...]:
        """Of the outermost part: what the engine goes by."""
        for part in reversed(self._parts):
            value = part.get("architectures")
            if value is None:
                continue
            if isinstance(value, list) and all(isinstance(name, str) for name in value):
                return tuple(one_line(name)[:_LONGEST] for name in value[:_SHOWN])
            self._note("architectures")
        return ()

    def _kv_heads(self, heads: int | None) -> int | None:
        name, value = self._find(*_KV_HEADS)
        if isinstance(value, list) and value and all(type(one) is int and 0 < one <= _MOST for one in value):
            largest: int = max(value)
            return largest  # one number a layer; the largest is safe
        found = self._some(*_KV_HEADS)
        if found is not None:
            return found
        if name:
            return None  # said, and odd
        return 1 if self._find("multi_query")[1] is True else heads

    def _dtype(self) -> str | None:
        text = self._text("dtype", "torch_dtype")
        return text.removeprefix("torch.") if text else None

    def _quantization(self) -> str | None:
        name, value = self._find("quantization_config", "compression_config")
        if value is None:
            return None
        if not isinstance(value, dict):
            self._note(name)
            return None
        method = value.get("quant_method")
        if isinstance(method, str) and 0 < len(method) <= _LONGEST and method.isprintable():
            return method.lower()
        if method is None and any(value.get(key) is True for key in ("load_in_4bit", "load_in_8bit")):
            return "bitsandbytes"
        self._note(f"{name}.quant_method")
        return None

    def _window(self) -> int | None:
        if self._find("use_sliding_window")[1] is False:
            return None
        return self._number("sliding_window", "sliding_window_size", "attention_chunk_size")

    def _full_attention(self, layers: int | None, window: int | None) -> int | None:
        """From the most exact statement to the least."""
        listed = self._listed("layer_types", "layers_block_type")
        name, pattern = self._find("hybrid_override_pattern")
        if listed is None and isinstance(pattern, str):
            listed = pattern.count("*")
        if listed is not None:
            return listed if layers is None else min(listed, layers)
        if layers is None:
            return None
        every = self._number("full_attention_interval")
        if every:
            return layers // every
        period = self._number("attn_layer_period")
        if period:
            offset = self._number("attn_layer_offset") or 0
            return max(0, -(-(layers - offset) // period))
        if window is None:
            return layers
        name, pattern = self._find("sliding_window_pattern", "_sliding_window_pattern")
        if isinstance(pattern, str) and 0 < len(pattern) <= _LONGEST:
            return sum(pattern[layer % len(pattern)] != "L" for layer in range(min(layers, 10_000)))
        every = self._number(name) if name else _default_interval(self._find("model_type")[1])
        if every:
            return layers // every
        if self._find("use_sliding_window")[1] is True:
            return min(layers, self._number("max_window_layers") or layers)
        return 0

    def _listed(self, *names: str) -> int | None:
        name, value = self._find(*names)
        if value is None:
            return None
        if isinstance(value, list) and value and all(isinstance(kind, str) for kind in value):
            return sum(kind not in _BOUNDED_LAYERS for kind in value)
        self._note(name)
        return None


def _default_interval(model_type: object) -> int | None:
    rows = tables.table("glowplug.models", "attention")
    return next((int(row["every"]) for row in rows if row["model_type"] == model_type), None)
