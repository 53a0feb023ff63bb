"""Whether a GPU computes in the number format of the weights, or the engine has to make do with another one.

A model starts either way; it is slower than the GPU's price suggests, or less exact. So a machine that somebody names is taken
and told about, and one that nobody named is not chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.models.contents import Finding
from glowplug.plan.assumptions import assumed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.models.contents import Model

_PREFIX: Final = "sm_"


def native(model: Model, capability: str) -> bool:
    """Whether a GPU of that compute capability (`sm_90`) has the model's formats; so it is taken where either is unknown."""
    return not any(True for _ in findings(model, capability))


def findings(model: Model, capability: str) -> Iterator[Finding]:
    """`fp8-not-native` and `bf16-not-native`."""
    number = capability.removeprefix(_PREFIX)
    if not number.isdecimal():
        return
    has = int(number)
    fp8, bf16 = assumed("gpu.capability_fp8"), assumed("gpu.capability_bf16")
    if _fp8(model) and has < fp8.value:
        old = has < bf16.value
        engines = "newer versions of vLLM unpack" if old else "vLLM and SGLang unpack"
        yield Finding(
            "fp8-not-native",
            "warning" if old else "info",
            f"the weights are FP8, which a GPU of {capability} cannot compute with: {engines} them as they compute, so that "
            f"they are as small, but not as fast ({fp8.source})",
            f"GPUs from sm_{fp8.value:.0f} on have FP8: L4, L40S, H100 and newer",
        )
    if _bf16(model) and has < bf16.value:
        yield Finding(
            "bf16-not-native",
            "warning",
            f"the model computes in bfloat16, which a GPU of {capability} does not have: vLLM falls back to float16, whose range "
            f"is smaller, and refuses --dtype=bfloat16 ({bf16.source})",
            f"GPUs from sm_{bf16.value:.0f} on have it; compare the first answers where you stay with this one",
        )


def _fp8(model: Model) -> bool:
    """By what most bytes of the weights are, since `quantization_config` has many names for it."""
    if model.dtype is not None:
        return model.dtype.startswith("F8_")
    return bool(model.shape and model.shape.quantization and "fp8" in model.shape.quantization)


def _bf16(model: Model) -> bool:
    """What config.json says goes before what the weights are: engines follow it."""
    if model.shape is not None and model.shape.dtype is not None:
        return model.shape.dtype == "bfloat16"
    return model.dtype == "BF16"
