"""Kubernetes around the engine: GPUs, probes, taints, node pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.lint.rules.kubernetes import (
    agent_tolerations,
    device_plugin_taint,
    gpu_count_mismatch,
    gpu_product_selector,
    gpu_toleration_missing,
    liveness_kills_start,
    nodepool_mixed_gpus,
    nonroot_hostpath_cache,
    service_account_missing,
    startup_probe_too_short,
    startup_taint_missing,
    startup_taint_prefix,
)

if TYPE_CHECKING:
    from glowplug.lint.rule import Rule

RULES: Final[tuple[Rule, ...]] = (
    gpu_count_mismatch.RULE,
    gpu_toleration_missing.RULE,
    startup_probe_too_short.RULE,
    liveness_kills_start.RULE,
    device_plugin_taint.RULE,
    gpu_product_selector.RULE,
    startup_taint_missing.RULE,
    startup_taint_prefix.RULE,
    nodepool_mixed_gpus.RULE,
    service_account_missing.RULE,
    agent_tolerations.RULE,
    nonroot_hostpath_cache.RULE,
)
