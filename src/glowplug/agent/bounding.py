"""Words that others chose, as label values of metrics: from a fixed set, since a pod could send new ones for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.core.documents.fingerprint import GUARDS
from glowplug.core.errors import CODES
from glowplug.launch import reasons

if TYPE_CHECKING:
    from collections.abc import Collection

OTHER: Final = "other"
"""What is none of the known words."""

NONE: Final = "none"
"""No word at all; an empty label value is no label to Prometheus."""

FIELDS: Final = frozenset(
    [
        "domain",
        "engine",
        "engine_version",
        "torch",
        "gpu",
        "machine",
        "layout",
        "tp",
        "pp",
        "dp",
        "ep",
        "model",
        "args",
        "env",
        "cache_root",
        "command",
    ]
) | frozenset(GUARDS)
"""Fields by which keys differ. Of arguments and variables the names are left out here: events and log lines have them."""

REASONS: Final = frozenset(code.replace("-", "_") for code in CODES) | reasons.ALL
"""Reasons without their details."""
_MOST: Final = 7 * 86_400.0


def word(reason: str) -> str:
    """A reason without its details; of `claim:env.X` the field stays: `claim:env`."""
    name, _, detail = reason.partition(":")
    if not name:
        return NONE
    if name not in REASONS:
        return OTHER
    return f"claim:{_claim(detail)}" if name == "claim" and detail else name


def _claim(detail: str) -> str:
    return detail if detail in reasons.CLAIMS else field(detail)


def fields(reason: str) -> tuple[str, ...]:
    """The fields that `key:<field>[,…]` and `guard:<field>[,…]` name, each once."""
    name, _, detail = reason.partition(":")
    if name not in ("key", "guard"):
        return ()
    return tuple(dict.fromkeys(field(one) for one in detail.split(",")))


def field(name: str) -> str:
    """A field of the key: `args.max_model_len` is `args`."""
    first = name.strip().partition(".")[0]
    return first if first in FIELDS else OTHER


def among(text: str, known: Collection[str]) -> str:
    """`text` where it is known."""
    return text if text in known else OTHER if text else NONE


def seconds(number: float | None) -> float | None:
    """A duration that somebody claims, as one that can be: not negative, a week at most."""
    return None if number is None else min(max(number, 0.0), _MOST)
