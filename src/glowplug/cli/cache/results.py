"""start/1's objects `restore` and `publish`, printed by themselves, and the status that each ends with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from glowplug.cli import errors
from glowplug.cli.cache import table
from glowplug.core.documents import codec
from glowplug.core.documents.start import PublishOutcome, PublishResult, RestoreOutcome, RestoreResult
from glowplug.core.errors import CODES, hint_of

if TYPE_CHECKING:
    from glowplug.cli.output import Output

_NO: Final = 1
_ENVIRONMENT: Final = 3
_INTEGRITY: Final = 4
_STATUS: Final = {
    **dict.fromkeys(("integrity", "signature"), _INTEGRITY),
    **dict.fromkeys(
        (
            "access_denied",
            "cache_root_unwritable",
            "conflict",
            "deadline",
            "disk",
            "missing_extra",
            "no_bucket",
            "no_credentials",
            "no_space",
            "read_only_store",
            "store_unavailable",
            "tree_changing",
            "unsafe_cache_root",
            "wrong_region",
        ),
        _ENVIRONMENT,
    ),
}
"""Reasons that are more than "no"."""
_CODES: Final = {"store_unavailable": "unavailable", "deadline": "timeout"}


def print_restore(output: Output, result: RestoreResult) -> None:
    """The object on stdout."""
    output.document(codec.to_json(result), lambda: _restore_text(result))


def end_publish(output: Output, result: PublishResult) -> None:
    """The object on stdout, an error's lines on stderr, and the exit."""
    output.document(codec.to_json(result), lambda: _publish_text(result))
    if result.outcome in (PublishOutcome.PUBLISHED, PublishOutcome.UNCHANGED):
        return
    word = result.reason.partition(":")[0]
    code = _CODES.get(word, word.replace("_", "-"))
    if code in CODES:
        detail = result.reason.partition(": ")[2]
        errors.show(code, detail or CODES[code].meaning, hint_of(code))
    click.get_current_context().exit(_STATUS.get(word, _NO))


def _restore_text(result: RestoreResult) -> str:
    if result.outcome is RestoreOutcome.RESTORED:
        also = f" (left out: {result.reason})" if result.reason else ""
        return (
            f"restored {table.number(len(result.parts), 'part')}, {table.size(result.bytes)} in {result.seconds:.1f} s "
            f"from {result.source}{also}"
        )
    if result.reason == "already_present":
        return "nothing to do: all of it is there (already_present)"
    return f"nothing restored: {result.reason}"


def _publish_text(result: PublishResult) -> str:
    if result.outcome is PublishOutcome.PUBLISHED:
        return (
            f"published {table.number(len(result.parts), 'part')}, {table.size(result.bytes)} in {result.seconds:.1f} s"
        )
    if result.outcome is PublishOutcome.UNCHANGED:
        return f"unchanged: the store has all of it{f' ({result.reason})' if result.reason else ''}"
    return f"not published: {result.reason}"
