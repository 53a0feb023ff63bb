"""The order of things in `glowplug run`: prepare → start → observe → end, and the exit status.

The main thread belongs to signals and the engine: it starts it, forwards signals, reaps, waits. Everything that reads, fetches,
looks or publishes happens on other threads, and the main thread waits for them as long as it was promised and no longer:
preparation that fails, or hangs where nothing can be interrupted, becomes a plain start; a publish that does not end is left.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from glowplug.cache.quarantine import Quarantine
from glowplug.core import redact, units
from glowplug.core.clock import SYSTEM, Deadline, iso
from glowplug.core.documents import codec
from glowplug.core.documents.start import Compile, PublishOutcome, PublishResult, RestoreOutcome, Start, Verdict
from glowplug.core.errors import UsageError
from glowplug.core.printable import one_line
from glowplug.host import writable
from glowplug.supervise.child import CannotStartError, Child, terminate
from glowplug.supervise.execute import execute
from glowplug.supervise.observer import End, Observer
from glowplug.supervise.prepare import Prepared, plain, prepare
from glowplug.supervise.record import Record
from glowplug.supervise.streams import Passthrough, ensure_standard_streams
from glowplug.supervise.words import explained

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from glowplug.supervise.options import RunOptions

NOT_READY: Final = 1
NOT_PUBLISHED: Final = 5
_SILENT: Final = frozenset(
    ("no_store", "no_restore", "already_present", "cache_root_unwritable", "engine_unknown", "engine_not_supported")
)
"""Reasons that are wanted, or have been told where they arose."""
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
        _say(f"{type(error).__name__}: {error}; the command is started as it is, and glowplug is gone")
        return execute(command, environ, _say)
    finally:
        child.release()
    if not finished:
        _leave(status)
    return status


def state_directory(environ: Mapping[str, str]) -> Path:
    """`$XDG_STATE_HOME/glowplug`: where what this machine has learnt lies."""
    home = environ.get("XDG_STATE_HOME") or ""
    if home.startswith("/"):
        return Path(home) / "glowplug"
    own = environ.get("HOME") or ""
    if own.startswith("/"):
        return Path(own) / ".local/state/glowplug"
    # Without a home: beside the fallback cache root, in the directory that is this user's alone, or nowhere at all.
    claimed = Path(writable.FALLBACK_PARENT) / f"glowplug-{os.getuid()}"
    return Path(os.devnull) / "glowplug" if writable.claim(claimed) else claimed / "state"


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
        lambda: prepare(options, command, environ, deadline=deadline, quarantine=quarantine, say=_say), child.wake
    )
    child.attend(lambda: job.done.is_set() or child.ending_signal is not None, deadline.remaining() + _OVERTIME_SECONDS)
    prepared = _outcome(job, options, command, environ)
    known_secrets = redact.secret_values(environ, command) | redact.secret_values(
        prepared.invocation.environ, prepared.invocation.argv
    )
    record = Record(_document(prepared, options, command, wall), options.report, _say, known_secrets)
    if child.ending_signal is not None:
        status = _never_started(record, child.ending_signal)
        prepared.discard()
        return (NOT_READY if options.exit_when_ready else status), job.done.is_set()
    record.write()
    if not prepared.unknown:
        _tell_restore(record.start)
    status, finished = _supervise(options, prepared, record, quarantine, child, began)
    return status, finished and job.done.is_set()


def _outcome(job: _Preparation, options: RunOptions, command: Sequence[str], environ: Mapping[str, str]) -> Prepared:
    """What was prepared, else the command as it is. Raises UsageError."""
    if not job.done.is_set():
        _say(f"preparing the start took longer than {options.restore_timeout:.0f} s; the command is started as it is")
        return plain(command, environ, options.engine, "deadline")
    if isinstance(job.error, UsageError):
        raise job.error
    if job.error is not None:
        _say(f"preparing the start failed: {type(job.error).__name__}: {job.error}; the command is started as it is")
    return job.result or plain(command, environ, options.engine, "internal")


def _never_started(record: Record, number: int) -> int:
    """A signal came first: an engine that gets it right at its start dies of it too, but only after it has begun."""
    status = 128 + number
    name = signal.Signals(number).name
    _say(f"{name} before the engine was started: it is not started")
    _note_unfinished(record, f"ended by {name} before the engine was started", "not_ready", PublishOutcome.SKIPPED)
    record.add(exit_status=status)
    record.close()
    return status


def _note_unfinished(record: Record, why: str, publish: str, outcome: PublishOutcome) -> None:
    """Fill in what nobody has found out: no field is left to mean anything."""
    start = record.start
    if start.verdict.compile is Compile.UNKNOWN and not start.verdict.reason:
        record.add(verdict=Verdict(Compile.UNKNOWN, reason=why))
    if start.publish is None:
        record.add(publish=PublishResult(outcome, publish))


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
    observer = Observer(prepared, options, record, reader, quarantine, _say, child.wake)
    passthrough = Passthrough(reader.feed if reader else lambda _line, _at: None)
    child.on_resize = passthrough.resize
    observer.begin(began)
    ends = passthrough.open()
    try:
        child.start(prepared.environ, ends)
    except CannotStartError as error:
        _say(str(error))
        _note_unfinished(record, "the engine could not be started", "not_ready", PublishOutcome.SKIPPED)
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
        _say("gave up on publishing: the engine has ended")
        _note_unfinished(record, "the engine ended before the verdict", "deadline", PublishOutcome.FAILED)
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
        _say("ready is all that was asked for: ending the engine" if observer.end is End.READY else "ending the engine")
        terminate(child, _GRACE_SECONDS, ended.is_set)


def _baked(observer: Observer, start: Start) -> int:
    if observer.end is not End.READY:
        return NOT_READY
    outcome = start.publish.outcome if start.publish else PublishOutcome.FAILED
    return 0 if outcome in (PublishOutcome.PUBLISHED, PublishOutcome.UNCHANGED) else NOT_PUBLISHED


def _document(prepared: Prepared, options: RunOptions, command: Sequence[str], wall: float) -> Start:
    fingerprint = prepared.fingerprint
    workload: dict[str, Any] = {"engine": prepared.engine, "command": redact.arguments(command)}
    launch = prepared.launch
    if launch is not None:
        workload |= {
            "model": redact.value("model", launch.model),
            "layout": codec.to_json(launch.layout),
            "args": {name: redact.value(name, text) for name, text in launch.other_args.items()},
            "env": {name: redact.value(name, text) for name, text in launch.other_env.items()},
            "placed": dict(prepared.placement.variables),
            "kept": {name: redact.value(name, text) for name, text in prepared.placement.kept.items()},
        }
    if prepared.private:
        workload["cache_root"] = {"private": True, "reason": prepared.private}
    workload["domain"] = options.domain
    return Start(
        id=secrets.token_hex(8),
        source="run",
        started_at=iso(wall),
        workload=workload,
        fingerprint=fingerprint.fields if fingerprint else {},
        key_digest=fingerprint.key_digest if fingerprint else None,
        restore=prepared.restore,
    )


def _tell_restore(start: Start) -> None:
    result = start.restore
    if result.outcome is RestoreOutcome.RESTORED:
        size, seconds = units.format_size(result.bytes), units.format_seconds(result.seconds)
        _say(f"restored {size} (unpacked) in {seconds} from {result.source}")
    elif result.reason not in _SILENT:
        _say(f"nothing restored: {explained(result.reason)}")


def _say(message: str) -> None:
    try:
        # Reasons and names come from stores and command lines: none of them may move a terminal's cursor.
        sys.stderr.write(f"glowplug: {one_line(message)}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        # Nobody listens any more; the engine matters, not our words.
        return
