"""What glowplug's own lines in a container's log say of a start's restore and publish.

The launcher's document stays in the pod; its lines are in the log that anybody may read. They are read as `launch/telling.py` and
the owners of a start write them, with sizes and seconds by `core/units.py`: rounded, and nothing else in a log is a word of ours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from glowplug.core import units
from glowplug.core.clock import from_iso
from glowplug.core.documents.start import PublishOutcome, PublishResult, RestoreOutcome, RestoreResult
from glowplug.launch.words import NOT_STARTED_LINE, explained

_SEARCHED: Final = 1 << 20
"""Characters of a log's beginning in which the restore is told."""
_SIZE: Final = r"(?P<size>\d{1,9}(?:\.\d{1,3})? [kMGT]?B)"
_TOOK: Final = r"in (?:(?P<minutes>\d{1,6}) min )?(?P<seconds>\d{1,5}(?:\.\d{1,3})? m?s)"
_LINE: Final = r"^(?P<at>\S{19,40}) glowplug: "


def _pattern(rest: str) -> re.Pattern[str]:
    return re.compile(f"{_LINE}{rest}$", re.MULTILINE | re.ASCII)


_RESTORED: Final = _pattern(rf"restored {_SIZE} \(unpacked\) {_TOOK} from (?P<source>.{{1,1000}})")
_NOTHING: Final = _pattern(r"nothing restored: (?P<why>.{1,1000})")
_NOT_STARTED: Final = _pattern(re.escape(NOT_STARTED_LINE))
_PUBLISHED: Final = _pattern(
    rf"(?:published {_SIZE} \(packed\) {_TOOK}"
    r"|handed (?P<handed>\d{1,9}(?:\.\d{1,3})? [kMGT]?B) to the node's agent"
    r"|(?P<nothing>published nothing: nothing is new)"
    r"|(?:not published|nothing handed to the node's agent): (?P<why>.{1,1000}))"
)
_FAULTS: Final = frozenset(
    [
        "archive_limit", "cache_root_unreadable", "conflict", "deadline", "disk", "integrity", "internal", "missing_extra",
        "no_space", "outbox_unwritable", "secret_found", "store_unavailable", "throttled", "tree_changing", "unsafe_cache_root",
    ]
)  # fmt: skip
"""Reasons of a publish that failed; it is skipped for any other, which was decided. The line itself does not say."""


@dataclass(frozen=True)
class Restored:
    """What was told of the restore; `at`: when it was told, in seconds since the epoch, None where nothing was restored."""

    result: RestoreResult
    at: float | None = None


def restored(text: str) -> Restored:
    """The restore in a log with a moment before each line."""
    head = text[:_SEARCHED]
    found = _RESTORED.search(head)
    if found is not None:
        source, size = found["source"].strip(), units.parse_size(found["size"])
        result = RestoreResult(RestoreOutcome.RESTORED, source=source, bytes=size, seconds=_seconds(found))
        return Restored(result, _moment(found["at"]))
    nothing = _NOTHING.search(head)
    return Restored(RestoreResult(RestoreOutcome.NONE, _reason(nothing["why"]) if nothing else ""))


def not_started(text: str) -> bool:
    """Whether a bake did not start its engine, so that there is no line of one."""
    return _NOT_STARTED.search(text[:_SEARCHED]) is not None


def published(text: str) -> PublishResult | None:
    """What became of the publish, or of what was handed to the node's agent (reason `outbox`); None where nothing is told.

    A start may publish twice: what came into the store first is there, whatever became of the rest.
    """
    size, seconds, last, any_published = 0, 0.0, None, False
    for found in _PUBLISHED.finditer(text):
        last = found
        if found["size"] or found["handed"]:
            any_published = True
            size += units.parse_size(found["size"] or found["handed"])
            seconds += _seconds(found) if found["size"] else 0.0
    if last is None:
        return None
    reason = "outbox" if last["handed"] else _reason(last["why"]) if last["why"] else ""
    if any_published:
        return PublishResult(PublishOutcome.PUBLISHED, reason, bytes=size, seconds=seconds)
    if last["nothing"]:
        return PublishResult(PublishOutcome.UNCHANGED)
    failed = reason.partition(":")[0] in _FAULTS
    return PublishResult(PublishOutcome.FAILED if failed else PublishOutcome.SKIPPED, reason)


def _seconds(found: re.Match[str]) -> float:
    return 60.0 * int(found["minutes"] or 0) + units.parse_duration(found["seconds"])


def _reason(words: str) -> str:
    """The word of a document, without the explanation that lines have behind it."""
    words = words.strip()
    for place in re.finditer(r" \(", words):
        if explained(words[: place.start()]) == words:
            return words[: place.start()]
    return words


def _moment(text: str) -> float | None:
    try:
        return from_iso(text)
    except (ValueError, OverflowError):
        return None
