"""The words that say why: of documents (`restore.reason`, `publish.reason`) and of what an agent refuses or removes.

The one table of those that are no codes of errors (`core/errors.py`). What is not in it is "other" to whoever counts, so a word
that is written anywhere has its place here; a detail behind a colon does not count.
"""

from __future__ import annotations

from typing import Final

RESTORE: Final = frozenset(
    [
        "already_present",
        "cache_root_unreadable",
        "cache_root_unwritable",
        "command_unreadable",
        "compile_disabled",
        "deadline",
        "disk",
        "engine_not_supported",
        "guard",
        "key",
        "key_blocked",
        "min_version",
        "no_keys",
        "no_node_store",
        "no_parts",
        "no_restore",
        "no_store",
        "node_not_ready",
        "quarantined",
        "restore_off",
        "store_unavailable",
        "unknown",
        "unsafe_cache_root",
        "verify_key",
    ]
)
"""Why something, or nothing, was restored."""

PUBLISH: Final = frozenset(
    [
        "entry_missing",
        "incomplete",
        "newer_format",
        "no_outbox",
        "no_publish",
        "not_ready",
        "observe",
        "outbox_off",
        "publish_off",
        "read_only",
        "rejected",
        "rejection_recorded",
        "secret_found",
        "verdict_unknown",
    ]
)
"""Why something, or nothing, was published or handed over, beside those above."""

REFUSED: Final = frozenset(
    ["allowlist", "claim", "damaged", "no_domain", "pod_unknown", "publisher", "too_large", "too_old"]
)
"""Why an agent does not believe what lies in an outbox."""

CLAIMS: Final = frozenset(["command", "disabled", "guards"])
"""What a claim may be wrong in, `claim:…`, beside the fields of a key."""

REMOVED: Final = frozenset(["blocked", "domain", "gone", "space"])
"""Why a key left a node, beside those above."""

ALL: Final = RESTORE | PUBLISH | REFUSED | REMOVED
