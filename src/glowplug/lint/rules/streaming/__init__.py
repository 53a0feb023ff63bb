"""Rules about how the weights come: the streamer's settings, its loader's keys, the way to the object store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.lint.rules.streaming import (
    concurrency_formula,
    concurrency_wasted,
    distributed_corrupts,
    distributed_missing,
    distributed_without_tp,
    endpoint_trailing_slash,
    endpoint_virtual_hosted,
    file_descriptor_bound,
    host_memory_bound,
    loader_key_type,
    loader_key_unknown,
    region_missing,
    scheme_case,
    streamer_low_speed_limit,
    streamer_missing,
    streamer_timeout_ineffective,
    streamer_untuned,
    streamer_variable_dead,
    streamer_variable_type,
    streamer_variable_unknown,
)

if TYPE_CHECKING:
    from glowplug.lint.rule import Rule

RULES: Final[tuple[Rule, ...]] = (
    streamer_untuned.RULE,
    concurrency_formula.RULE,
    concurrency_wasted.RULE,
    distributed_without_tp.RULE,
    distributed_missing.RULE,
    distributed_corrupts.RULE,
    loader_key_unknown.RULE,
    loader_key_type.RULE,
    streamer_variable_unknown.RULE,
    streamer_variable_dead.RULE,
    streamer_variable_type.RULE,
    streamer_timeout_ineffective.RULE,
    streamer_low_speed_limit.RULE,
    endpoint_trailing_slash.RULE,
    endpoint_virtual_hosted.RULE,
    region_missing.RULE,
    streamer_missing.RULE,
    host_memory_bound.RULE,
    file_descriptor_bound.RULE,
    scheme_case.RULE,
)
