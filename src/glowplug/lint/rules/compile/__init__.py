"""Compile caches: whether there is one, whether the engine uses it, and whether what is in it can ever fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.lint.rules.compile import (
    auto_mode_ephemeral_too_large,
    cache_env_missing,
    cache_env_outside_mount,
    cache_key_poisoned,
    cache_not_writable,
    cache_on_emptydir,
    cache_on_network_filesystem,
    cache_shared_by_workloads,
    cache_without_compile,
    compile_cache_dir_override,
    compile_cache_disabled,
    compile_switch_missing,
    eager_mode,
    engine_never_hits,
    hostpath_name_reserved,
    hostpath_not_nvme,
    image_unpinned,
    instance_store_policy_missing,
    model_unpinned,
)

if TYPE_CHECKING:
    from glowplug.lint.rule import Rule

RULES: Final[tuple[Rule, ...]] = (
    eager_mode.RULE,
    cache_without_compile.RULE,
    compile_cache_disabled.RULE,
    cache_env_missing.RULE,
    cache_env_outside_mount.RULE,
    cache_on_emptydir.RULE,
    hostpath_not_nvme.RULE,
    hostpath_name_reserved.RULE,
    instance_store_policy_missing.RULE,
    auto_mode_ephemeral_too_large.RULE,
    cache_shared_by_workloads.RULE,
    cache_on_network_filesystem.RULE,
    cache_key_poisoned.RULE,
    compile_cache_dir_override.RULE,
    cache_not_writable.RULE,
    compile_switch_missing.RULE,
    image_unpinned.RULE,
    model_unpinned.RULE,
    engine_never_hits.RULE,
)
