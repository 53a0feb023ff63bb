"""The order of things before exec: fork the watcher, prepare, hand over, and no later than the deadline the engine's environment.

The watcher is forked first, while this process has one thread and has loaded no library that does not survive a fork (obstore's
runtime does not). It gets what was prepared through a pipe, and says when it watches: an engine that opened its cache before
that would leave no proof of it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Callable, Final, Optional

from glowplug.core.clock import Deadline
from glowplug.launch import watcher
from glowplug.launch.prepare import STALE_SECONDS, Prepared, plain
from glowplug.launch.telling import say, tell_restore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from glowplug.launch.means import Means
    from glowplug.launch.options import RunOptions

_OVERTIME_SECONDS: Final = 1.0
"""How long after --restore-timeout what should have ended by then is waited for."""
_HAND_OVER_SECONDS: Final = 5.0
"""Walking a large tree takes the watcher some of it. An engine started without waiting may leave less evidence, no more."""


def begin(options: RunOptions, command: Sequence[str], environ: Mapping[str, str], means: Means) -> dict[str, str]:
    """Everything before exec; returns the engine's environment, at the deadline at the latest."""
    began, wall = time.monotonic(), time.time()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Until it listens, a signal ends an engine; an exception here would start it instead.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    deadline = Deadline.after(options.restore_timeout)
    watching = watcher.fork(options, command, environ, means.owner)
    job = _Job(lambda: means.prepare(command, environ, deadline=deadline, say=say, stale_seconds=_stale_seconds()))
    prepared = job.outcome(deadline.remaining() + _OVERTIME_SECONDS)
    if prepared is None:
        prepared = plain(command, environ, options.engine, "internal" if job.done.is_set() else "deadline")
        _tell_failure(job, options.restore_timeout)
    elif not prepared.unknown:
        tell_restore(prepared.restore)
    if watching is not None:
        watching.hand_over(watcher.Begun(prepared, began, wall), _HAND_OVER_SECONDS)
    return dict(prepared.environ)


def _stale_seconds() -> float:
    """As process 1 of a container we know that whatever wrote here before is dead."""
    return 0.0 if os.getpid() == 1 else STALE_SECONDS


def _tell_failure(job: _Job, seconds: float) -> None:
    if job.error is not None:
        say(f"preparing the start failed: {type(job.error).__name__}: {job.error}; the command is started as it is")
    else:
        say(f"preparing the start took longer than {seconds:.0f} s; the command is started as it is")


class _Job:
    """The preparation on a thread of its own, which exec ends if it has not ended by itself."""

    def __init__(self, work: Callable[[], Prepared]) -> None:
        self._work = work
        self._result: Optional[Prepared] = None
        self.error: Optional[BaseException] = None
        self.done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="prepare", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the engine starts
            self.error = error
        self.done.set()

    def outcome(self, seconds: float) -> Optional[Prepared]:
        """What was prepared within this time."""
        self.done.wait(seconds)
        return self._result
