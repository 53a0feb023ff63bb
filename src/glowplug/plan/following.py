"""What to type after a plan: the command that renders exactly this plan, or one that plans for a machine that can have it.

It names whatever the caller had decided, and what a config.json decided where the command cannot read it again: a model of this
machine has to lie in a bucket before pods can stream it, so that the command has a place to be filled in and a size.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from glowplug.catalog.limits import fact
from glowplug.core.errors import UsageError
from glowplug.models.address import is_size, parse_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.plan.outcome import Plan

_BUCKET: Final = "s3://your-bucket/your-model"
_STREAMED: Final = ("s3://", "gs://", "az://")


def words(plan: Plan) -> tuple[str, ...]:
    """The command, word by word; () where no machine is known that could have the model."""
    place = plan.placement
    if place.fits and not any(finding.rule == "instance-unfit" for finding in plan.findings):
        machine = (
            ("--instance", place.instance)
            if place.instance
            else ("--gpu", place.gpu, "--gpu-count", str(place.gpus_per_node))
        )
        options = {**_lost(plan), **plan.asked}
        return ("glowplug", "render", "deployment", *_in_a_bucket(plan), *machine, *_flat(options), *_mode(plan))
    if not place.candidates:
        return ()
    # The other machine has a tensor-parallel size of its own.
    options = {name: value for name, value in plan.asked.items() if name != "--tp"}
    return ("glowplug", "plan", *_as_given(plan), "--instance", place.candidates[0].instance, *_flat(options))


def _mode(plan: Plan) -> tuple[str, ...]:
    """The guide's own Deployment has the shared directory; otherwise the command's default is what fits a first try."""
    return ("--mode", "shared") if plan.profile == "guide" else ()


def _flat(options: dict[str, str]) -> Iterator[str]:
    for name, value in options.items():
        yield from (name, value)


def _in_a_bucket(plan: Plan) -> tuple[str, ...]:
    """The model's address, with its size where the command does not read it."""
    if _streamed(plan):
        return (plan.model.source,) if _was_read(plan) else (plan.model.source, "--size", _size(plan))
    if _was_read(plan) and not _fits_by_size(plan):
        return (_BUCKET,)
    return (_BUCKET, "--size", _size(plan))


def _fits_by_size(plan: Plan) -> bool:
    """Whether the size alone would say that the model fits (as `memory.by_share` does)."""
    place = plan.placement
    room = fact("guide.memory_share").value * place.gpu_memory_bytes
    return plan.model.weights_bytes / place.tensor_parallel_size <= room


def _lost(plan: Plan) -> dict[str, str]:
    """What was decided by a config.json that the command does not read."""
    if _streamed(plan) or not _was_read(plan):
        return {}
    lost = {"--tp": str(plan.placement.tensor_parallel_size)}
    return lost if plan.max_model_len is None else {**lost, "--max-model-len": str(plan.max_model_len)}


def _as_given(plan: Plan) -> tuple[str, ...]:
    source = plan.model.source
    if _was_read(plan) or (is_size(source) and _size(plan) == source):
        return (source,)
    return (source, "--size", _size(plan))


def _streamed(plan: Plan) -> bool:
    return plan.model.source.lower().startswith(_STREAMED)


def _was_read(plan: Plan) -> bool:
    return plan.model.shards is not None


def _size(plan: Plan) -> str:
    """The size as somebody wrote it, where the model was given as one."""
    source, weights = plan.model.source, plan.model.weights_bytes
    with contextlib.suppress(UsageError):
        return source if is_size(source) and parse_size(source) == weights else str(weights)
    return str(weights)
