"""Beside the running engine: wait until it is ready, give the verdict, hand over what is new, keep the document up to date.

Runs on a thread of its own, so that signals and the engine's end are handled at once whatever happens here. The engine may end
at any moment; what was compiled is then still there and is still published, within a shorter deadline when somebody asked for
the end, or when it failed and whoever supervises us waits to start it again.

Where new artifacts go, what is remembered of a start and in which words it is told is the owner's: `run`, a pod's watcher with a
store, and one with an outbox differ in that alone.
"""

from __future__ import annotations

import enum
import signal
import threading
import time
from typing import TYPE_CHECKING, Callable, Final, Optional, Protocol

from glowplug.core.clock import Deadline
from glowplug.core.documents.start import Compile, PublishOutcome, PublishResult, Verdict, Weights
from glowplug.engines.adapter import Reach
from glowplug.launch.conclusion import Conclusion, conclude
from glowplug.observe.opens import OpenWatch
from glowplug.observe.ready import QUIET_SECONDS, QuietProbe, UrlProbe
from glowplug.observe.timeline import timeline
from glowplug.tree.model import File, Index

if TYPE_CHECKING:
    from glowplug.core.documents.start import Start
    from glowplug.engines.adapter import Entry, LogReader
    from glowplug.launch.options import RunOptions
    from glowplug.launch.prepare import Prepared
    from glowplug.launch.record import Record

_POLL_SECONDS: Final = 0.25
_SETTLE_SECONDS: Final = 60.0
"""How long after ready quiet is waited for at most: an engine under load may never be."""
_PUBLISH_SECONDS: Final = 900.0
_PUBLISH_ENDING_SECONDS: Final = 15.0
"""When somebody asked for the end (a pod has 30 seconds by default), the publish has to be done by then."""
_LONGEST_QUIET_SECONDS: Final = 600.0
_FROM_OUTSIDE: Final = frozenset(
    128 + number for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
)
"""Statuses of an engine that somebody ended, if only the kernel for want of memory: they say nothing of what it had loaded."""


class End(enum.Enum):
    """How the observation ended."""

    READY = "ready"
    ENDED = "ended"
    TIMED_OUT = "timed out"


class Owner(Protocol):
    """Whose start it is. Nothing here raises for a foreseeable fault."""

    source: str
    """The document's word for who saw the start: `run`, `exec`."""

    def note(self, start: Start) -> None:
        """The document as it now is, without secrets."""
        ...

    def cold_seconds(self, own: tuple[Entry, ...]) -> Optional[float]:
        """What compiling these entries took when they were made; None where that is not known."""
        ...

    def publish(
        self, conclusion: Conclusion, start: Start, ready_seconds: float, deadline: Deadline
    ) -> Optional[PublishResult]:
        """Hand over what the start made; None for an owner that keeps nothing."""
        ...

    def failed(self) -> None:
        """The engine failed by itself before it was ready: remember what it had been given."""
        ...

    def succeeded(self, conclusion: Conclusion) -> None:
        """The engine became ready with what it had been given."""
        ...

    def tell(self, conclusion: Conclusion, ready_seconds: float) -> None:
        """Say the verdict."""
        ...

    def tell_publish(self, result: PublishResult) -> None:
        """Say what became of the publish, where that is news."""
        ...


class Observer:
    """One start's observation. `begin` right before the engine is started, `engine_ended` when it has ended, then `join`."""

    def __init__(
        self,
        prepared: Prepared,
        options: RunOptions,
        record: Record,
        reader: Optional[LogReader],
        owner: Owner,
        say: Callable[[str], None],
        on_done: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_done = on_done
        self._prepared = prepared
        self._options = options
        self._record = record
        self._reader = reader
        self._owner = owner
        self._say = say
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)
        self._ended = threading.Event()
        self._status: Optional[int] = None
        self._asked_to_end = False
        self._process_at = 0.0
        self._began = time.monotonic()
        self._opens: Optional[OpenWatch] = None
        self._quiet: Optional[QuietProbe] = None
        self.end: Optional[End] = None
        self.done = threading.Event()

    def begin(self, run_began: float) -> None:
        """Start to watch opened files and quiet; `run_began` is the monotonic moment of `started_at`."""
        self._began = run_began
        try:
            self._watch()
        except Exception as error:  # noqa: BLE001 - without a watch there is less evidence, and a start all the same
            self._say(f"the cache root cannot be watched: {type(error).__name__}: {error}")

    def _watch(self) -> None:
        prepared = self._prepared
        if prepared.root is None or prepared.adapter is None:
            return
        adapter = prepared.adapter
        paths = [path for entry in prepared.before.entries for path in entry.index_files]
        self._opens = OpenWatch(prepared.root, paths)
        self._quiet = QuietProbe(prepared.root, lambda path: adapter.reach(path) is Reach.PORTABLE, time.monotonic)

    def started(self, pid: int) -> None:
        """The engine's process runs now."""
        self._process_at = time.monotonic()
        if self._opens is not None:
            self._opens.attach(pid)
        self._thread.start()

    def engine_ended(self, status: Optional[int], *, asked: bool) -> None:
        """The engine has ended; `asked`: because somebody wanted it to. `status` None: only its parent knows."""
        self._status = status
        self._asked_to_end = asked
        self._ended.set()

    def _run(self) -> None:
        try:
            self._observe()
        except Exception as error:  # noqa: BLE001 - an observer's fault must not become the engine's
            self._say(f"the observation failed: {type(error).__name__}: {error}")
            self._record.add(verdict=Verdict(Compile.UNKNOWN, reason="observation_failed"))
            self._record.write()
        finally:
            self.done.set()
            self._on_done()

    def _observe(self) -> None:
        ready_at = self._await_ready()
        if ready_at is None:
            self._not_ready()
            return
        self.end = End.READY
        self._settle()
        self._conclude(ready_at - self._began)
        quiet_seconds = QUIET_SECONDS
        while not self._says_ready() and self._changes_again(quiet_seconds):
            # Quiet was only a pause of the compiler: what came after it belongs to this start too. Each time more patiently: a
            # program that compiles something new every minute must not publish all of it every minute.
            quiet_seconds = min(2 * quiet_seconds, _LONGEST_QUIET_SECONDS)
            self._conclude(ready_at - self._began)

    def _says_ready(self) -> bool:
        return self._url() is not None

    def _changes_again(self, quiet_seconds: float) -> bool:
        """Wait for the end of an engine that cannot say when it is ready; whether its cache has changed by then."""
        if self._quiet is None or self._options.exit_when_ready:
            return False
        seen = self._quiet.seen
        while not self._ended.wait(_POLL_SECONDS):
            self._quiet.ready()
            if self._quiet.seen != seen and self._quiet.since_change >= quiet_seconds:
                return True
        self._quiet.ready()
        return self._quiet.seen != seen

    def _conclude(self, ready_seconds: float) -> None:
        if self._quiet is not None:
            self._quiet.ready()  # what changes from here on is not in the conclusion
        conclusion = conclude(self._prepared, self._reader, self._opens, self._owner.cold_seconds)
        self._note(conclusion, ready_seconds)
        self._record.write()
        self._owner.tell(conclusion, ready_seconds)
        if not self._asked_to_end or self._says_ready():
            self._owner.succeeded(conclusion)  # else it ended well because it was told to: that is not readiness
        self._publish(conclusion, ready_seconds)
        self._record.write()

    def _url(self) -> Optional[str]:
        return self._options.ready_url or (self._prepared.launch.ready_url if self._prepared.launch else None)

    def _await_ready(self) -> Optional[float]:
        """The monotonic moment of readiness; None where the engine ended or time ran out before."""
        url = self._url()
        probe = UrlProbe(url) if url else None
        limit = self._process_at + self._options.ready_timeout
        activity = _Activity(self._quiet, self._opens, self._has_entry)
        while time.monotonic() < limit:
            if self._opens is not None:
                self._opens.opened()  # emptied often, the kernel's queue does not overflow
            if self._ended.wait(_POLL_SECONDS):
                # A program without a health URL that ended well has done all that it is for.
                if probe is None and self._status == 0 and self._prepared.adapter is not None:
                    return time.monotonic()
                self.end = End.ENDED
                return None
            if probe is not None:
                if probe.ready():
                    return time.monotonic()
            elif self._prepared.adapter is not None:
                last = activity.quiet_since()
                if last is not None:
                    return last
        self.end = End.TIMED_OUT
        return None

    def _has_entry(self, stamps: frozenset[tuple[str, int, int]]) -> bool:
        """Whether this start has made a whole entry or opened one, by names and sizes alone."""
        adapter, launch = self._prepared.adapter, self._prepared.launch
        if adapter is None or launch is None:
            return False
        index = Index({path: File(path, size, "", 0, mtime_ns) for path, size, mtime_ns in stamps})
        opened = self._opens.opened() if self._opens else frozenset()
        before = {entry.name for entry in self._prepared.before.entries}
        return any(
            entry.index_files
            and not entry.incomplete
            and (entry.name not in before or not opened.isdisjoint(entry.index_files))
            for entry in adapter.entries(index, launch)
        )

    def _settle(self) -> None:
        """After ready: until nothing has changed for a while, or the engine ended."""
        if self._quiet is None:
            return
        limit = time.monotonic() + _SETTLE_SECONDS
        while time.monotonic() < limit and not self._ended.wait(_POLL_SECONDS):
            if self._quiet.ready() or self._quiet.since_change >= QUIET_SECONDS:
                return

    def _not_ready(self) -> None:
        trace = self._reader.trace() if self._reader else None
        status = "" if self._status is None else f" with status {self._status}"
        what = (
            f"the engine ended{status} before it was ready"
            if self.end is End.ENDED
            else f"not ready after {self._options.ready_timeout:.0f} s"
        )
        known = self._prepared.adapter is not None
        if self._options.exit_when_ready or (known and not self._asked_to_end):
            self._say(what)
        reason = self._prepared.unknown or what
        verdict = Verdict(Compile.UNKNOWN, None, reason, trace.lines[-6:] if trace else ())
        self._record.add(verdict=verdict, publish=PublishResult(PublishOutcome.SKIPPED, "not_ready"))
        if self.end is End.ENDED and not self._asked_to_end and self._status not in (0, *_FROM_OUTSIDE):
            self._owner.failed()
        self._record.write()

    def _note(self, conclusion: Conclusion, ready_seconds: float) -> None:
        trace = conclusion.trace
        self._record.add(
            verdict=conclusion.verdict,
            weights=Weights(trace.weights_bytes, trace.weights_seconds),
            engine_init_seconds=trace.engine_init_seconds,
            ready_seconds=ready_seconds,
            phases=timeline(
                trace,
                restore_seconds=self._prepared.restore.seconds or None,
                process_seconds=self._process_at - self._began,
                ready_seconds=ready_seconds,
                source=self._owner.source,
            ),
        )

    def _publish(self, conclusion: Conclusion, ready_seconds: float) -> None:
        hurry = self._asked_to_end or self._status not in (None, 0)
        deadline = Deadline.after(_PUBLISH_ENDING_SECONDS if hurry else _PUBLISH_SECONDS)
        try:
            result = self._owner.publish(conclusion, self._record.start, ready_seconds, deadline)
        except Exception as error:  # noqa: BLE001 - the verdict stands, whatever becomes of the publish
            self._say(f"publishing failed: {type(error).__name__}: {error}")
            result = PublishResult(PublishOutcome.FAILED, "internal")
        if result is None:
            return
        self._record.add(publish=_together(self._record.start.publish, result))
        self._owner.tell_publish(result)


def _together(before: Optional[PublishResult], now: PublishResult) -> PublishResult:
    """Two publishes of one start as one: what the first brought into the store is there, whatever became of the second."""
    if before is None or before.outcome is not PublishOutcome.PUBLISHED:
        return now
    return PublishResult(
        PublishOutcome.PUBLISHED,
        now.reason,
        (*before.parts, *now.parts),
        before.bytes + now.bytes,
        before.seconds + now.seconds,
    )


class _Activity:
    """Quiet after activity: something was written or opened, then nothing for a while, and there is a whole entry."""

    def __init__(
        self,
        quiet: Optional[QuietProbe],
        opens: Optional[OpenWatch],
        has_entry: Callable[[frozenset[tuple[str, int, int]]], bool],
    ) -> None:
        self._has_entry = has_entry
        self._quiet = quiet
        self._opens = opens
        self._opened = 0
        self._seen = quiet.seen if quiet else frozenset()
        self._last: Optional[float] = None

    def quiet_since(self) -> Optional[float]:
        """The moment of the last activity when that is long enough ago."""
        if self._quiet is None:
            return None
        now = time.monotonic()
        self._quiet.ready()
        if self._quiet.seen != self._seen:
            self._seen, self._last = self._quiet.seen, now
        opened = len(self._opens.opened()) if self._opens else 0
        if opened != self._opened:
            self._opened, self._last = opened, now
        quiet = self._last is not None and now - self._last >= QUIET_SECONDS
        return self._last if quiet and self._has_entry(self._seen) else None
