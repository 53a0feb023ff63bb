"""What a misspelt key or variable was meant to be: so that one typo is one finding, and not also a setting that is missing."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from glowplug.catalog import spelling, streamer
from glowplug.plan.loaders import all_keys

if TYPE_CHECKING:
    from collections.abc import Iterable

    from glowplug.lint.rules.streaming.weights import Stream, Weights

_ALIKE: Final = 0.75


def known_keys(weights: Weights) -> list[str]:
    """The keys of the extra config that this loader knows; those of all versions where its own is not known."""
    if weights.newer_than_known:
        return [one.name for one in all_keys(weights.workload.engine.name, weights.load_format or "")]
    return [one.name for one in weights.loader.keys(weights.load_format or "")]


def key_meant(weights: Weights, key: str, here: Iterable[str]) -> str:
    """The key that was meant by one that no version knows, "" for none."""
    if any(one.name == key for one in all_keys(weights.workload.engine.name, weights.load_format or "")):
        return ""
    return next(iter(spelling.nearest(key, here, 1, _ALIKE)), "")


@functools.lru_cache(maxsize=4096)
def variable_meant(name: str) -> str | None:
    """The streamer's variable that was meant by a name that it does not read, None for none."""
    return streamer.nearest(name)


def is_misspelt(stream: Stream, key: str, *names: str) -> bool:
    """Whether a setting is there under a name like that of this key of the extra config, or of these variables."""
    parts = stream.extra.parts if stream.extra is not None and not stream.extra.error else {}
    here = known_keys(stream) if key else []
    if key and any(one not in here and key_meant(stream, one, here) == key for one in parts):
        return True
    return any(variable_meant(name) in names for name in stream.environment.variables)
