"""Whether a model fits, and on how many GPUs: from the memory that is really needed, or by the guide's rule.

Needed on each GPU: its share of the weights (the files' own sizes, so a quantised model counts as it is), the KV cache of one
sequence of the longest length, and a reserve for activations, CUDA graphs and the context. vLLM refuses to start where one
sequence does not fit, so that one is the least. Available is what vLLM takes by default (gpu_memory_utilization). Where nothing
but the size is known, the guide's rule decides: weights in at most three quarters of the memory.

Tensor parallelism stays within a node, in powers of two (what EC2's machines have and what engines test). It must divide the
attention heads; KV heads are divided, or repeated where there are fewer of them than ranks.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.catalog.instances import instances
from glowplug.catalog.limits import fact
from glowplug.plan import precision
from glowplug.plan.assumptions import assumed
from glowplug.plan.outcome import Candidate
from glowplug.plan.request import Machine

if TYPE_CHECKING:
    from glowplug.catalog.instances import Instance
    from glowplug.models.contents import Model, Shape

CANDIDATES: Final = 6
_BYTES: Final = {"float32": 4, "float": 4, "F32": 4}
_HALF: Final = 2


@dataclass(frozen=True)
class Need:
    """Bytes on each GPU."""

    weights: float
    kv_cache: float
    reserve: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.weights + self.kv_cache + self.reserve


Lacking = Callable[["Model", Machine, int], float]
"""Bytes that each GPU lacks for a model at a tensor-parallel size; zero or less: it fits."""


@dataclass(frozen=True)
class Fit:
    """`lacking` bytes on each GPU, zero or less where it fits."""

    tensor_parallel_size: int
    lacking: float

    @property
    def fits(self) -> bool:
        """Whether nothing lacks."""
        return self.lacking <= 0


def by_share(model: Model, machine: Machine, ranks: int) -> float:
    """The guide's rule: weights in at most 0.75 of the memory (the share is ours; the guide has one example)."""
    return model.weights_bytes / ranks - fact("guide.memory_share").value * machine.gpu_memory_bytes


def by_need(tokens: int) -> Lacking:
    """The rule of what is really needed, for one sequence of so many tokens; by share where the shape is not known."""

    def lacking(model: Model, machine: Machine, ranks: int) -> float:
        wanted = need(model, ranks, tokens)
        return by_share(model, machine, ranks) if wanted is None else wanted.total - usable(machine)

    return lacking


def usable(machine: Machine) -> float:
    """Bytes of one GPU that the engine takes by default."""
    return assumed("vllm.gpu_memory_utilization").value * machine.gpu_memory_bytes


def need(model: Model, ranks: int, tokens: int) -> Need | None:
    """What each GPU holds, None where the shape says too little for a KV cache."""
    per_sequence = kv_bytes(model.shape, ranks, tokens) if model.shape else None
    if model.shape is None or per_sequence is None:
        return None
    # A second copy beside the indexed one (consolidated*.safetensors) is streamed too, but kept only once.
    kept = min(model.weights_bytes, model.indexed_bytes or model.weights_bytes)
    return Need(kept / ranks, per_sequence, _reserve(model.shape, ranks))


def kv_bytes(shape: Shape, ranks: int, tokens: int) -> float | None:
    """KV cache of one sequence on each rank, None where the shape says too little.

    Latent attention (MLA) keeps one shared latent, which every rank has whole. Layers with a sliding window keep a window; the
    others that do not grow (state-space layers) keep a state of which config.json says too little, and which is small.
    """
    per_layer = _kv_bytes_per_token(shape, ranks)
    if per_layer is None or shape.layers is None:
        return None
    full = shape.layers if shape.full_attention_layers is None else min(shape.full_attention_layers, shape.layers)
    window = min(tokens, shape.sliding_window) if shape.sliding_window else 0
    return float(per_layer * (full * tokens + (shape.layers - full) * window))


def sequences(model: Model, machine: Machine, ranks: int, tokens: int) -> float | None:
    """How many sequences of so many tokens the KV cache has room for, None where the shape says too little."""
    wanted = need(model, ranks, tokens)
    if wanted is None or wanted.kv_cache <= 0:
        return None
    return max(0.0, (usable(machine) - wanted.weights - wanted.reserve) / wanted.kv_cache)


def most_tokens(model: Model, machine: Machine, ranks: int) -> int | None:
    """The longest sequence that the KV cache has room for, at most what the model can; None where the shape says too little."""
    small = need(model, ranks, 0)
    one = kv_bytes(model.shape, ranks, 1) if model.shape else None
    if small is None or not one or model.shape is None:
        return None
    room = usable(machine) - small.total
    limit = model.shape.max_positions
    if room <= 0:
        return 0
    low, high = 0, limit or int(room // one) * (model.shape.layers or 1)
    while low < high:  # sliding windows make it grow by less than one step a token, so it is searched
        middle = (low + high + 1) // 2
        if (kv_bytes(model.shape, ranks, middle) or 0) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def divides(shape: Shape | None, ranks: int) -> bool:
    """Whether the attention can be split over so many ranks; unknown heads split into anything."""
    if shape is None or ranks == 1:
        return True
    if shape.heads is not None and shape.heads % ranks:
        return False
    latent = shape.kv_lora_rank is not None
    return latent or not shape.kv_heads or shape.kv_heads % ranks == 0 or ranks % shape.kv_heads == 0


def at(model: Model, machine: Machine, ranks: int, lacking: Lacking) -> Fit:
    """The fit at a size that somebody has chosen."""
    return Fit(ranks, lacking(model, machine, ranks))


def smallest(model: Model, machine: Machine, lacking: Lacking) -> Fit:
    """The smallest power of two that divides the heads and fits; the largest that divides them where none fits."""
    sizes = [size for size in _powers_of_two(machine.gpus) if divides(model.shape, size)]
    fits = (Fit(size, lacking(model, machine, size)) for size in sizes)
    return next((fit for fit in fits if fit.fits), Fit(sizes[-1], lacking(model, machine, sizes[-1])))


def candidates(model: Model, lacking: Lacking, *, besides: str | None = None) -> tuple[Candidate, ...]:
    """The cheapest machine of each family that the model fits on, cheapest first; those without a price come last, by size. Only
    GPUs that have the weights' number formats.
    """
    best: dict[str, tuple[Instance, Fit]] = {}
    for one in sorted(_whole(), key=_cost):
        if one.family in best or one.name == besides or not precision.native(model, one.gpu.capability):
            continue
        fit = smallest(model, Machine.of_instance(one), lacking)
        if fit.fits:
            best[one.family] = (one, fit)
    return tuple(
        Candidate(one.name, fit.tensor_parallel_size, max(1, one.gpus) // fit.tensor_parallel_size)
        for one, fit in list(best.values())[:CANDIDATES]
    )


def largest_machine() -> Machine:
    """The one with the most GPU memory."""
    return Machine.of_instance(max(_whole(), key=_size))


@functools.cache
def _whole() -> tuple[Instance, ...]:
    """Whole GPUs on x86-64: EC2 reports none for fractional types, so Karpenter and the scheduler see none there."""
    return tuple(one for one in instances() if not one.fractional and one.arch == "amd64")


def _cost(one: Instance) -> tuple[float, float, int, int, str]:
    price = one.usd_per_hour
    return (math.inf if price is None else price, *_size(one))


def _size(one: Instance) -> tuple[float, int, int, str]:
    return (one.gpus * one.gpu_memory_bytes, one.vcpus, one.memory_bytes, one.name)


def _powers_of_two(limit: int) -> list[int]:
    return [2**exponent for exponent in range(max(1, limit).bit_length())]


def _kv_bytes_per_token(shape: Shape, ranks: int) -> float | None:
    width = _BYTES.get(shape.dtype or "", _HALF)
    if shape.kv_lora_rank is not None:
        return float((shape.kv_lora_rank + (shape.rope_head_dim or 0)) * width)
    if not shape.kv_heads or not shape.head_dim:
        return None
    return float(2 * math.ceil(shape.kv_heads / ranks) * shape.head_dim * width)


def _reserve(shape: Shape, ranks: int) -> float:
    activations = (
        assumed("vllm.batched_tokens").value * (shape.hidden or 0) * _HALF * assumed("gpu.activation_copies").value
    )
    logits = assumed("vllm.sequences").value * (shape.vocabulary or 0) * _BYTES["float32"]
    return assumed("gpu.reserve_bytes").value + activations + logits / ranks
