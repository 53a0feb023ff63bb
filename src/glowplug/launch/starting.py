"""The order of things before exec: fork both other processes, hand over, and no later than the deadline the engine's environment.

Preparation and watcher are forked while this process has one thread and has loaded no library that does not survive a fork
(obstore's runtime does not). The watcher gets what was prepared through a pipe, and says when it watches: an engine that opened
its cache before that would leave no proof of it. From the first fork on this process touches no disk: one that hangs holds the
others alone (`launch.preparing`).
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Final

from glowplug.core.clock import Deadline
from glowplug.launch import orphan
from glowplug.launch.prepare import STALE_SECONDS, plain
from glowplug.launch.preparing import Preparation, Ready, pickled
from glowplug.launch.telling import say
from glowplug.launch.watcher import Begun, Watching

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
    deadline, stale_seconds = Deadline.after(options.restore_timeout), _stale_seconds()
    preparation = Preparation(
        lambda: means.prepare(command, environ, deadline=deadline, say=say, stale_seconds=stale_seconds)
    )
    watching = Watching(Begun(options, command, environ, means.owner, began, wall))
    orphan.fork(preparation, watching)  # in this order: what is waited for longest is first
    found = _outcome(options, command, environ, preparation, deadline)
    watching.hand_over(found.prepared, _HAND_OVER_SECONDS)
    preparation.close()
    return found.environ


def _outcome(
    options: RunOptions,
    command: Sequence[str],
    environ: Mapping[str, str],
    preparation: Preparation,
    deadline: Deadline,
) -> Ready:
    """What was prepared in time, or the command as it is."""
    found = preparation.outcome(deadline.at + _OVERTIME_SECONDS)
    if isinstance(found, Ready):
        return found
    failure = f"failed: {found.why}" if found.why else f"took longer than {options.restore_timeout:.0f} s"
    say(f"preparing the start {failure}; the command is started as it is")
    return Ready(dict(environ), pickled(plain(command, environ, options.engine, found.reason)))


def _stale_seconds() -> float:
    """As process 1 of a container we know that whatever wrote here before is dead."""
    return 0.0 if os.getpid() == 1 else STALE_SECONDS
