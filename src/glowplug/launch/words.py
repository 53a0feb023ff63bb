"""Reasons of documents in words for people: what it means here, and what to do next. `docs/howto/why-did-it-miss.md` has more.

A reason is a word that scripts compare; it is always shown, and what follows it is for the eyes alone.
"""

from __future__ import annotations

from typing import Final

from glowplug.core.errors import CODES

NOT_STARTED: Final = "the engine was not started: nothing can be published"
"""Why a bake that could publish nothing has no verdict."""
NOT_STARTED_LINE: Final = "a bake that can publish nothing is for nothing: the engine is not started"
"""The same as it is told in a log, where `starts` finds it."""

_WORDS: Final = {
    "no_keys": "nothing is published in this domain yet",
    "no_parts": "the key has nothing to offer",
    "key_blocked": "the key is blocked; `glowplug cache show` says why, `glowplug cache quarantine --lift` lifts it",
    "deadline": "the store was too slow; --restore-timeout bounds the wait",
    "store_unavailable": "the store does not answer; check the network path and AWS_ENDPOINT_URL",
    "restore_off": "restoring is switched off for this store (`glowplug cache control`)",
    "publish_off": "publishing is switched off for this store (`glowplug cache control`)",
    "outbox_off": "the node's agent publishes nothing: it was started with --read-only or --observe",
    "quarantined": "it is set aside on this machine, since a start failed on it",
    "compile_disabled": "the command turns compilation or its cache off",
    "cache_root_unwritable": "the engine has a private cache instead",
    "verdict_unknown": "whether the cache was used is not known",
    "no_space": "the disk is too full",
    "integrity": "what the store has is damaged; the next publish mends it",
    "signature": "it is not signed by the key of --verify-key",
    "read_only_store": "the store cannot be written with these rights, or has no conditional writes",
    "engine_not_supported": "there is no adapter for this engine yet",
    "engine_unknown": "not an engine that glowplug knows; for a program that uses torch.compile add --engine torch",
    "command_unreadable": "its command line cannot be understood",
}
_DETAILED: Final = {
    "key": "the nearest key has another {detail}; `glowplug cache why --store URL --fingerprint REPORT` compares",
    "guard": "what is published was compiled under another {detail}",
    "unknown": "not known are {detail}: is this the Python that the engine runs on?",
}


def explained(reason: str) -> str:
    """`no_bucket` → `no_bucket (The bucket does not exist: check …)`; a reason without words stays as it is."""
    name, _, detail = reason.partition(":")
    if detail and name in _DETAILED:
        return f"{reason} ({_DETAILED[name].format(detail=detail.replace(',', ', '))})"
    if name in _WORDS:
        return f"{reason} ({_WORDS[name]})"
    code = CODES.get(name.replace("_", "-"))
    if code is None or detail:
        return reason
    meaning = code.meaning.rstrip(".")
    return f"{reason} ({meaning}: {code.hint})" if code.hint else f"{reason} ({meaning})"
