"""glowplug's own lines on stderr, beside an engine's: each begins with its name, none can fail or move a terminal's cursor."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Callable, Final

from glowplug.core import units
from glowplug.core.documents.start import Compile, RestoreOutcome
from glowplug.core.printable import one_line
from glowplug.launch.words import explained

if TYPE_CHECKING:
    from glowplug.core.documents.start import RestoreResult, Verdict

_SILENT: Final = frozenset(
    ("no_store", "no_restore", "already_present", "cache_root_unwritable", "engine_unknown", "engine_not_supported")
)
"""Reasons that are wanted, or have been told where they arose."""


def say(message: str) -> None:
    """One line."""
    try:
        # Reasons and names come from stores and command lines: none of them may move a terminal's cursor.
        sys.stderr.write(f"glowplug: {one_line(message)}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        # Nobody listens any more; the engine matters, not our words.
        return


def tell_restore(result: RestoreResult, saying: Callable[[str], None] = say) -> None:
    """What was restored, or why nothing was, where that is news."""
    if result.outcome is RestoreOutcome.RESTORED:
        size, seconds = units.format_size(result.bytes), units.format_seconds(result.seconds)
        saying(f"restored {size} (unpacked) in {seconds} from {result.source}")
    elif result.reason not in _SILENT:
        saying(f"nothing restored: {explained(result.reason)}")


def tell_verdict(verdict: Verdict, ready_seconds: float, saying: Callable[[str], None] = say) -> None:
    """A pod's one line: the verdict first, so that a log can be searched for it."""
    why = f" ({verdict.reason})" if verdict.reason else ""
    saying(f"{verdict.compile.value}{why}: ready after {ready_seconds:.1f} s")


def tell_compile(verdict: Verdict, ready_seconds: float, saying: Callable[[str], None] = say) -> None:
    """The same in a sentence, for somebody at a terminal."""
    doing = "loaded in" if verdict.compile is Compile.HIT else "compiled for"
    seconds = f", {doing} {verdict.compile_seconds:.1f} s" if verdict.compile_seconds is not None else ""
    why = f" ({verdict.reason})" if verdict.reason else ""
    saying(f"ready after {ready_seconds:.1f} s: compile cache {verdict.compile.value}{why}{seconds}")
