"""The order of things in `glowplug run`: prepare → start → observe → end, and the exit status.

The main thread belongs to signals and the engine: it starts it, forwards signals, reaps, waits. Everything that reads, fetches,
looks or publishes happens on other threads, and the main thread waits for them as long as it was promised and no longer:
preparation that fails, or hangs where nothing can be interrupted, becomes a plain start; a publish that does not end is left.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

from glowplug.cache.quarantine import Quarantine
from glowplug.core.clock import SYSTEM, Deadline
from glowplug.core.documents.start import PublishOutcome
from glowplug.core.errors import UsageError
from glowplug.launch.document import begun, note_unfinished, secrets_of
from glowplug.launch.execute import execute
from glowplug.launch.observer import End, Observer
from glowplug.launch.record import Record
from glowplug.launch.telling import say, tell_restore
from glowplug.launch.words import NOT_STARTED, NOT_STARTED_LINE, explained
from glowplug.supervise.child import CannotStartError, Child, terminate
from glowplug.supervise.owner import StoreOwner
from glowplug.supervise.prepare import Prepared, plain, prepare
from glowplug.supervise.state import state_directory
from glowplug.supervise.streams import Passthrough, ensure_standard_streams

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from glowplug.core.documents.start import Start
    from glowplug.launch.options import RunOptions

NOT_READY: Final = 1
NOT_PUBLISHED: Final = 5
_DRAIN_SECONDS: Final = 5.0
_GRACE_SECONDS: Final = 30.0
_OVERTIME_SECONDS: Final = 1.0
"""How long after --restore-timeout what should have ended by then is waited for."""
_JOIN_SECONDS: Final = 960.0
_JOIN_ENDING_SECONDS: Final = 20.0
"""A pod has 30 seconds by default from SIGTERM to SIGKILL, and the engine needs some of them."""


def run(options: RunOptions, command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run `command` as cli.md says; returns the exit status. Raises UsageError for options that can never work.

    Does not return, but ends the process, where a thread was left behind in a call that does not end.
    """
    ensure_standard_streams()
    child = Child(command)
    child.listen()
    try:
        status, finished = _run(options, command, environ, child)
    except UsageError:
        raise
    except Exception as error:
        if child.started:
            raise
        child.release()
        say(f"{type(error).__name__}: {error}; the command is started as it is, and glowplug is gone")
        return execute(command, environ, say)
    finally:
        child.release()
    if not finished:
        _leave(status)
    return status


class _Preparation:
    """`prepare` on a thread of its own; `wake` is called at its end."""

    def __init__(self, work: Callable[[], Prepared], wake: Callable[[], None]) -> None:
        self._work = work
        self._wake = wake
        self.result: Prepared | None = None
        self.error: Exception | None = None
        self.done = threading.Event()
        threading.Thread(target=self._run, name="prepare", daemon=True).start()

    def _run(self) -> None:
        try:
            self.result = self._work()
        except Exception as error:  # noqa: BLE001 - whatever it is, the engine starts
            self.error = error
        self.done.set()
        self._wake()


def _run(options: RunOptions, command: Sequence[str], environ: Mapping[str, str], child: Child) -> tuple[int, bool]:
    """The status, and whether all threads have ended."""
    began, wall = time.monotonic(), SYSTEM.now()
    quarantine = Quarantine(state_directory(environ))
    deadline = Deadline.after(options.restore_timeout)
    job = _Preparation(
        lambda: prepare(options, command, environ, deadline=deadline, quarantine=quarantine, say=say), child.wake
    )
    child.attend(lambda: job.done.is_set() or child.ending_signal is not None, deadline.remaining() + _OVERTIME_SECONDS)
    prepared = _outcome(job, options, command, environ)
    start = begun(prepared, options, command, wall=wall, source="run")
    record = Record(start, options.report, say, secrets_of(prepared, command, environ))
    if child.ending_signal is not None:
        status = _never_started(record, child.ending_signal)
        prepared.discard()
        return (NOT_READY if options.exit_when_ready else status), job.done.is_set()
    record.write()
    if not prepared.unknown:
        tell_restore(record.start.restore)
    if prepared.hopeless:
        return _never_publishes(record, prepared), job.done.is_set()
    status, finished = _supervise(options, prepared, record, quarantine, child, began)
    return status, finished and job.done.is_set()


def _outcome(job: _Preparation, options: RunOptions, command: Sequence[str], environ: Mapping[str, str]) -> Prepared:
    """What was prepared, else the command as it is. Raises UsageError."""
    if not job.done.is_set():
        say(f"preparing the start took longer than {options.restore_timeout:.0f} s; the command is started as it is")
        return plain(command, environ, options.engine, "deadline")
    if isinstance(job.error, UsageError):
        raise job.error
    if job.error is not None:
        say(f"preparing the start failed: {type(job.error).__name__}: {job.error}; the command is started as it is")
    return job.result or plain(command, environ, options.engine, "internal")


def _never_started(record: Record, number: int) -> int:
    """A signal came first: an engine that gets it right at its start dies of it too, but only after it has begun."""
    status = 128 + number
    name = signal.Signals(number).name
    say(f"{name} before the engine was started: it is not started")
    note_unfinished(record, f"ended by {name} before the engine was started", "not_ready", PublishOutcome.SKIPPED)
    record.add(exit_status=status)
    record.close()
    return status


def _never_publishes(record: Record, prepared: Prepared) -> int:
    """A bake is there to publish: what can never be published is not worth the minutes of an engine. Any other start goes on."""
    say(f"not published: {explained(prepared.hopeless)}")
    say(NOT_STARTED_LINE)
    note_unfinished(record, NOT_STARTED, prepared.hopeless, PublishOutcome.SKIPPED)
    record.close()
    prepared.discard()
    return NOT_PUBLISHED


def _leave(status: int) -> None:
    """End at once: at a regular end the interpreter would wait for threads that hang in a library."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(status)


def _supervise(
    options: RunOptions, prepared: Prepared, record: Record, quarantine: Quarantine, child: Child, began: float
) -> tuple[int, bool]:
    """From the engine's start to its end and ours: the status, and whether the observer has ended."""
    reader = prepared.adapter.log_reader() if prepared.adapter else None
    owner = StoreOwner(prepared, options, quarantine, say)
    observer = Observer(prepared, options, record, reader, owner, say, child.wake)
    passthrough = Passthrough(reader.feed if reader else lambda _line, _at: None)
    child.on_resize = passthrough.resize
    observer.begin(began)
    ends = passthrough.open()
    try:
        child.start(prepared.environ, ends)
    except CannotStartError as error:
        say(str(error))
        note_unfinished(record, "the engine could not be started", "not_ready", PublishOutcome.SKIPPED)
        record.add(exit_status=error.status)
        record.close()
        prepared.discard()
        return error.status, True
    finally:
        ends.close()
    observer.started(child.pid)
    ended = threading.Event()
    if options.exit_when_ready:
        threading.Thread(target=_end_when_done, args=(observer, child, ended), daemon=True).start()
    status = child.wait()
    ended.set()
    asked = child.ending_signal is not None
    observer.engine_ended(status, asked=asked)
    passthrough.drain(
        _DRAIN_SECONDS, lambda: child.ending_signal is not None, lambda seconds: child.attend(_never, seconds)
    )
    finished = _join(observer, child, hurry=asked or status != 0)
    if not finished:
        say("gave up on publishing: the engine has ended")
        note_unfinished(record, "the engine ended before the verdict", "deadline", PublishOutcome.FAILED)
    record.add(exit_status=status)
    record.close()
    prepared.discard()
    return (_baked(observer, record.start) if options.exit_when_ready else status), finished


def _join(observer: Observer, child: Child, *, hurry: bool) -> bool:
    """Wait for the observer, as long as one may: a failed engine is to be restarted soon, who asks for the end may ask twice."""
    if not hurry:
        child.attend(lambda: observer.done.is_set() or child.ending_signal is not None, _JOIN_SECONDS)
    asked = child.endings
    child.attend(lambda: observer.done.is_set() or child.endings > asked, _JOIN_ENDING_SECONDS)
    return observer.done.is_set()


def _never() -> bool:
    return False


def _end_when_done(observer: Observer, child: Child, ended: threading.Event) -> None:
    observer.done.wait()
    if not ended.is_set():
        say("ready is all that was asked for: ending the engine" if observer.end is End.READY else "ending the engine")
        terminate(child, _GRACE_SECONDS, ended.is_set)


def _baked(observer: Observer, start: Start) -> int:
    if observer.end is not End.READY:
        return NOT_READY
    outcome = start.publish.outcome if start.publish else PublishOutcome.FAILED
    return 0 if outcome in (PublishOutcome.PUBLISHED, PublishOutcome.UNCHANGED) else NOT_PUBLISHED
