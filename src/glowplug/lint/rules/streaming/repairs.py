"""Fixes of this area, made of the operations of `lint/mending.py`; None where the place cannot be edited safely."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from glowplug.lint import mending
from glowplug.lint.rule import Fix
from glowplug.lint.rules.streaming.weights import EXTRA

if TYPE_CHECKING:
    from glowplug.lint.rules.streaming.weights import Stream, Weights
    from glowplug.manifests.edit import Operation


def fix(title: str, *groups: tuple[Operation, ...] | None, safe: bool = True) -> Fix | None:
    """One fix of several changes; None as soon as one of them cannot be made."""
    operations: list[Operation] = []
    for group in groups:
        if not group:
            return None
        operations += group
    return Fix(title, tuple(operations), safe=safe) if operations else None


def with_key(weights: Weights, key: str, value: Any) -> tuple[Operation, ...] | None:
    """A key of the extra config; the option is added where there is none."""
    if weights.extra is not None:
        return None if weights.extra.error else mending.set_extra(weights.workload, key, value)
    if not weights.extra_known:
        return None
    return mending.set_option(weights.workload, EXTRA, json.dumps({key: value}, separators=(",", ":")))


def concurrency(stream: Stream, number: int) -> Fix | None:
    """Another concurrency, where it is set now. Unsafe: it changes how much host memory the load takes."""
    clients = stream.concurrency
    if clients is None or clients.at is None:
        return None
    title = f"set {clients.name} to {number}"
    if clients.name == "concurrency":
        return fix(title, mending.set_extra(stream.workload, "concurrency", number), safe=False)
    return fix(title, mending.set_variable(stream.workload.container, clients.name, str(number)), safe=False)
