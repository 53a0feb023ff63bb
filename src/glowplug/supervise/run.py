"""The order of things in `glowplug run`: prepare → start → observe → end, and the exit status.

The main thread belongs to the engine: it starts it, forwards signals, reaps, waits. Preparation happens on it before the start,
within one deadline; observation and publishing happen on the observer's thread.
"""

from __future__ import annotations

import secrets
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from glowplug.cache.quarantine import Quarantine
from glowplug.core import redact
from glowplug.core.clock import SYSTEM, Deadline, iso
from glowplug.core.documents import codec
from glowplug.core.documents.start import PublishOutcome, RestoreOutcome, Start
from glowplug.supervise.child import CannotStartError, Child, terminate
from glowplug.supervise.observer import End, Observer
from glowplug.supervise.prepare import Prepared, prepare
from glowplug.supervise.record import Record
from glowplug.supervise.streams import Passthrough

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from glowplug.supervise.options import RunOptions

NOT_READY: Final = 1
NOT_PUBLISHED: Final = 5
_DRAIN_SECONDS: Final = 5.0
_GRACE_SECONDS: Final = 30.0
_JOIN_SECONDS: Final = 960.0
_JOIN_ENDING_SECONDS: Final = 25.0


def run(options: RunOptions, command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run `command` as cli.md says; returns the exit status. Raises UsageError for options that can never work."""
    began, wall = time.monotonic(), SYSTEM.now()
    quarantine = Quarantine(state_directory(environ))
    child = Child(command)
    child.listen()
    try:
        prepared = prepare(
            options,
            command,
            environ,
            deadline=Deadline.after(options.restore_timeout),
            quarantine=quarantine,
            say=_say,
        )
        record = Record(_document(prepared, options, command, environ, wall), options.report, _say)
        record.write()
        _tell_restore(record.start)
        return _supervise(options, prepared, record, quarantine, child, began)
    finally:
        child.release()


def state_directory(environ: Mapping[str, str]) -> Path:
    """`$XDG_STATE_HOME/glowplug`: where what this machine has learnt lies."""
    home = environ.get("XDG_STATE_HOME") or ""
    if home.startswith("/"):
        return Path(home) / "glowplug"
    return Path(environ.get("HOME") or "/var/tmp") / ".local/state/glowplug"  # noqa: S108 - a machine without HOME


def _supervise(
    options: RunOptions, prepared: Prepared, record: Record, quarantine: Quarantine, child: Child, began: float
) -> int:
    reader = prepared.adapter.log_reader() if prepared.adapter else None
    observer = Observer(prepared, options, record, reader, quarantine, _say)
    passthrough = Passthrough(reader.feed if reader else lambda _line, _at: None)
    observer.begin(began)
    ends = passthrough.open()
    try:
        child.start(prepared.environ, ends)
    except CannotStartError as error:
        _say(str(error))
        record.add(exit_status=error.status)
        record.write()
        prepared.discard()
        return error.status
    finally:
        ends.close()
    observer.started()
    ended = threading.Event()
    if options.exit_when_ready:
        threading.Thread(target=_end_when_done, args=(observer, child, ended), daemon=True).start()
    status = child.wait()
    ended.set()
    passthrough.drain(_DRAIN_SECONDS)
    asked = child.ending_signal is not None
    observer.engine_ended(status, asked=asked)
    if not observer.join(_JOIN_ENDING_SECONDS if asked else _JOIN_SECONDS):
        _say("gave up on publishing: the engine has ended")
    record.add(exit_status=status)
    record.write()
    prepared.discard()
    return _baked(observer, record.start) if options.exit_when_ready else status


def _end_when_done(observer: Observer, child: Child, ended: threading.Event) -> None:
    observer.done.wait()
    if not ended.is_set():
        terminate(child, _GRACE_SECONDS, ended.is_set)


def _baked(observer: Observer, start: Start) -> int:
    if observer.end is not End.READY:
        return NOT_READY
    outcome = start.publish.outcome if start.publish else PublishOutcome.FAILED
    return 0 if outcome in (PublishOutcome.PUBLISHED, PublishOutcome.UNCHANGED) else NOT_PUBLISHED


def _document(
    prepared: Prepared, options: RunOptions, command: Sequence[str], environ: Mapping[str, str], wall: float
) -> Start:
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
    del environ
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
        _say(f"restored {len(result.parts)} parts, {result.bytes} bytes in {result.seconds:.2f} s from {result.source}")
    elif result.reason not in ("no_store", "no_restore", "already_present"):
        _say(f"nothing restored: {result.reason}")


def _say(message: str) -> None:
    try:
        sys.stderr.write(f"glowplug: {message}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        # Nobody listens any more; the engine matters, not our words.
        return

