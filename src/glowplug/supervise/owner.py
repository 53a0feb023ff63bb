"""What `run` does with a start's outcome: evidence for the quarantine, the cache root's history, a publish, lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.core import units
from glowplug.core.clock import Deadline
from glowplug.core.documents.start import Compile, PublishOutcome, PublishResult, RestoreOutcome
from glowplug.core.errors import GlowplugError
from glowplug.launch import history
from glowplug.launch.telling import tell_compile
from glowplug.launch.words import explained

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from glowplug.cache.quarantine import Quarantine
    from glowplug.core.documents.start import Start, Verdict
    from glowplug.engines.adapter import Entry
    from glowplug.launch.conclusion import Conclusion
    from glowplug.launch.options import RunOptions
    from glowplug.supervise.prepare import Prepared

_LOOK_SECONDS = 10.0


class StoreOwner:
    """A start whose artifacts come from a store and go there. An `launch.observer.Owner`."""

    def __init__(
        self,
        prepared: Prepared,
        options: RunOptions,
        quarantine: Quarantine,
        say: Callable[[str], None],
        *,
        source: str = "run",
        tell: Callable[[Verdict, float, Callable[[str], None]], None] = tell_compile,
    ) -> None:
        self.source = source
        self._tell = tell
        self._prepared = prepared
        self._options = options
        self._quarantine = quarantine
        self._say = say

    def note(self, start: Start) -> None:
        """The report is all that is kept of it."""

    def cold_seconds(self, own: tuple[Entry, ...]) -> float | None:
        """As this machine remembers, else as the entries' publisher said."""
        if self._prepared.root is None:
            return None
        here = history.load(self._prepared.root).cold(entry.name for entry in own)
        if here is not None:
            return here
        if self._prepared.restore.outcome not in (RestoreOutcome.RESTORED, RestoreOutcome.SKIPPED):
            return None
        return _published_seconds(self._prepared, own)

    def failed(self) -> None:
        """What was restored and has never carried a start is under suspicion."""
        known = self._remembered()
        if known is None:
            return
        root, key_digest = known
        suspects = history.load(root).unproved(self._prepared.restore.parts)
        self._quarantine.failed(key_digest, {*suspects, *self._in_tree(key_digest, root)})
        if suspects:
            self._say("it failed on restored artifacts: the next start here goes without them, as a test")

    def succeeded(self, conclusion: Conclusion) -> None:
        """What was restored has carried a start; what a cold compile took is kept for later verdicts."""
        known = self._remembered()
        if known is None:
            return
        root, key_digest = known
        parts = self._prepared.restore.parts
        self._quarantine.succeeded(key_digest, {*parts, *self._in_tree(key_digest, root)})
        learnt = history.load(root).after_ready(parts)
        seconds = conclusion.verdict.compile_seconds
        if conclusion.verdict.compile is Compile.MISS and seconds is not None:
            learnt = learnt.after_cold((entry.name for entry in conclusion.own), seconds)
        try:
            history.save(root, learnt)
        except OSError as error:
            self._say(f"the history of the cache root cannot be written: {error.strerror}")

    def _remembered(self) -> tuple[Path, str] | None:
        """The cache root and the key digest, where anything is remembered of this start."""
        fingerprint, root = self._prepared.fingerprint, self._prepared.root
        if fingerprint is None or fingerprint.key_digest is None or root is None or self._prepared.private:
            return None
        return root, fingerprint.key_digest

    def _in_tree(self, key_digest: str, root: Path) -> frozenset[str]:
        """Parts under suspicion that were in this start's tree all the same (nothing was asked of the store, say).

        A start with them proves nothing about a start without them.
        """
        from glowplug.tree import receipts

        rows = self._quarantine.read().rows
        return frozenset(
            part for part in receipts.in_tree(root) if part in rows and rows[part].key_digest == key_digest
        )

    def publish(
        self, conclusion: Conclusion, start: Start, ready_seconds: float, deadline: Deadline
    ) -> PublishResult | None:
        """Into the store, or the reason why not."""
        from glowplug.core.faults import reason_of
        from glowplug.supervise.publishing import publish  # after the start: it imports what packs and uploads

        try:
            return publish(self._prepared, self._options, conclusion, start, ready_seconds, deadline)
        except (GlowplugError, OSError) as error:
            return PublishResult(PublishOutcome.FAILED, reason_of(error))

    def tell(self, conclusion: Conclusion, ready_seconds: float) -> None:
        """One line."""
        self._tell(conclusion.verdict, ready_seconds, self._say)

    def tell_publish(self, result: PublishResult) -> None:
        """One line, but not when the restore has told the same reason; a bake, which is for this alone, always says."""
        if result.outcome is PublishOutcome.PUBLISHED:
            size, seconds = units.format_size(result.bytes), units.format_seconds(result.seconds)
            self._say(f"published {size} (packed) in {seconds}")
            return
        if self._options.exit_when_ready and self._options.publish:
            unchanged = result.outcome is PublishOutcome.UNCHANGED
            self._say(
                "published nothing: nothing is new" if unchanged else f"not published: {explained(result.reason)}"
            )
            return
        asked = result.outcome is not PublishOutcome.UNCHANGED and self._prepared.store is not None
        if asked and result.reason != self._prepared.restore.reason:
            self._say(f"not published: {explained(result.reason)}")


def _published_seconds(prepared: Prepared, own: tuple[Entry, ...]) -> float | None:
    fingerprint = prepared.fingerprint
    if prepared.store is None or fingerprint is None or fingerprint.key is None:
        return None
    from glowplug.cache.lookup import Found, look_up

    try:
        found = look_up(prepared.store, fingerprint.key, Deadline.after(_LOOK_SECONDS), guards=fingerprint.guards)
    except GlowplugError:
        return None
    if not isinstance(found, Found):
        return None
    names = {entry.name for entry in own}
    said = [offer.entry.observed.get("compile_ms") for offer in found.offers if offer.entry.name in names]
    return max((milliseconds / 1000 for milliseconds in said if milliseconds), default=None)
