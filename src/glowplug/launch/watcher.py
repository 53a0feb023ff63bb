"""The process beside the engine: waits for ready, gives the verdict, hands over what is new. It ends with the engine.

It is nobody's child that the engine could wait for: it was forked twice, so its parent is gone (and where the engine is process
1, which gets all orphans, it is one of those). It has a session of its own, so that a terminal's and a group's signals pass it by,
holds none of the engine's descriptors but stderr for its lines, and is the first that the kernel ends when memory is short.

What it alone needs it imports itself, while the launcher prepares: from an archive of sources that is most of the time.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import select
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Final, Optional

from glowplug.host.process import born
from glowplug.launch.telling import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from glowplug.launch.observer import Owner
    from glowplug.launch.options import RunOptions
    from glowplug.launch.prepare import Prepared

_LENGTH: Final = struct.Struct("!Q")
_LAST_SECONDS: Final = 3.0
"""How long after the engine's end a verdict or publish under way may still take."""
_LOOK_SECONDS: Final = 0.5
_NICENESS: Final = 10
_FIRST_TO_GO: Final = "1000"


@dataclass(frozen=True)
class Begun:
    """What the launcher knows when it becomes the engine. `began`, `wall`: when it began, in monotonic and epoch seconds."""

    prepared: Prepared
    began: float
    wall: float


class Watching:
    """The launcher's end of the pipes to the watcher."""

    def __init__(self, down: int, up: int) -> None:
        self._down = down
        self._up = up

    def hand_over(self, begun: Begun, seconds: float) -> bool:
        """Send it, and wait until the watcher watches; False where it does not within this time."""
        end = time.monotonic() + seconds
        try:
            body = pickle.dumps(begun, pickle.HIGHEST_PROTOCOL)
            return _send(self._down, _LENGTH.pack(len(body)) + body, end) and bool(_receive(self._up, end))
        except (OSError, pickle.PicklingError, TypeError, AttributeError) as error:
            say(f"the start is not watched: {type(error).__name__}: {error}")
            return False
        finally:
            os.close(self._down)
            os.close(self._up)


def _send(descriptor: int, data: bytes, end: float) -> bool:
    os.set_blocking(descriptor, False)
    view = memoryview(data)
    while view:
        if not select.select([], [descriptor], [], max(0.0, end - time.monotonic()))[1]:
            return False
        with contextlib.suppress(BlockingIOError):
            view = view[os.write(descriptor, view) :]
    return True


def _receive(descriptor: int, end: float) -> bytes:
    ready = select.select([descriptor], [], [], max(0.0, end - time.monotonic()))[0]
    return os.read(descriptor, 1) if ready else b""


def fork(
    options: RunOptions,
    command: Sequence[str],
    environ: Mapping[str, str],
    owner: Callable[[Prepared, Callable[[str], None]], Owner],
) -> Optional[Watching]:
    """A watcher that waits to be told what it watches: this process, whatever it becomes. None where there can be none."""
    engine = Engine(os.getpid())
    opened: list[int] = []
    try:
        opened += os.pipe()
        opened += os.pipe()
        child = os.fork()
    except OSError as error:
        for descriptor in opened:
            os.close(descriptor)
        engine.close()
        say(f"the start is not watched: {error.strerror}")
        return None
    down_read, down_write, up_read, up_write = opened
    if child == 0:
        _be_nobodys_child()
        os.close(down_write)  # else nobody would see that the launcher became the engine without a word
        os.close(up_read)
        _guarded(lambda: _watch(_Ends(down_read, up_write), engine, options, command, environ, owner))
    os.close(down_read)
    os.close(up_write)
    engine.close()
    _reap(child)
    return Watching(down_write, up_read)


def _reap(child: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)


def _be_nobodys_child() -> None:
    try:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
    except BaseException:  # noqa: BLE001 - a second process must never run the launcher's own code
        os._exit(1)


def _guarded(work: Callable[[], None]) -> None:
    """Run it and end this process: it must not come back into the launcher's code, whatever happens."""
    try:
        work()
    except BaseException as error:  # noqa: BLE001
        with contextlib.suppress(BaseException):
            say(f"the watcher failed: {type(error).__name__}: {error}")
    finally:
        os._exit(0)


@dataclass(frozen=True)
class _Ends:
    """The watcher's ends of the pipes."""

    read: int
    write: int

    def begun(self) -> Optional[Begun]:
        """What the launcher sends; None where it became the engine without a word."""
        head = self._exactly(_LENGTH.size)
        body = self._exactly(_LENGTH.unpack(head)[0]) if head else b""
        found: Any = pickle.loads(body) if body else None  # noqa: S301 - of the process that forked us, over our own pipe
        return found if isinstance(found, Begun) else None

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = os.read(self.read, min(size - len(data), 1 << 20))
            if not piece:
                return b""
            data += piece
        return bytes(data)

    def watching(self) -> None:
        """Let the launcher go on, and stand behind the engine that it becomes: until now it has waited for us."""
        with contextlib.suppress(OSError):
            os.nice(_NICENESS)
        with contextlib.suppress(OSError):
            os.write(self.write, b"1")
        os.close(self.write)
        os.close(self.read)


def _watch(
    ends: _Ends,
    engine: Engine,
    options: RunOptions,
    command: Sequence[str],
    environ: Mapping[str, str],
    owner_of: Callable[[Prepared, Callable[[str], None]], Owner],
) -> None:
    _settle_down({ends.read, ends.write, *engine.descriptors})
    from glowplug.core.documents.start import PublishOutcome
    from glowplug.launch.document import begun, note_unfinished, secrets_of
    from glowplug.launch.observer import Observer
    from glowplug.launch.record import Record

    told = ends.begun()
    if told is None:
        return
    prepared = told.prepared
    if prepared.adapter is None and options.ready_url is None:
        ends.watching()
        _note_unknown(options, command, environ, told, owner_of(prepared, say))
        return
    owner = owner_of(prepared, say)
    start = begun(prepared, options, command, wall=told.wall, source=owner.source)
    record = Record(start, options.report, say, secrets_of(prepared, command, environ), owner.note)
    awake, waker = os.pipe()
    observer = Observer(prepared, options, record, None, owner, say, lambda: _wake(waker))
    observer.begin(told.began)
    observer.started(engine.pid)
    ends.watching()
    record.write()
    if not engine.ended(awake):
        # The verdict is there. What the engine uses is its own until its end, a private cache root too.
        record.close()
        if not prepared.private or not engine.ended():
            return
    observer.engine_ended(None, asked=True)
    observer.done.wait(_LAST_SECONDS)
    note_unfinished(record, "the engine ended before the verdict", "not_ready", PublishOutcome.SKIPPED)
    record.close()
    prepared.discard()


def _note_unknown(
    options: RunOptions, command: Sequence[str], environ: Mapping[str, str], told: Begun, owner: Owner
) -> None:
    """A start of which nothing can be seen: the document says why, and that is all."""
    from glowplug.core.documents.start import PublishOutcome
    from glowplug.launch.document import begun, note_unfinished, secrets_of
    from glowplug.launch.record import Record

    start = begun(told.prepared, options, command, wall=told.wall, source=owner.source)
    record = Record(start, options.report, say, secrets_of(told.prepared, command, environ), owner.note)
    note_unfinished(record, told.prepared.unknown, told.prepared.unknown, PublishOutcome.SKIPPED)
    record.close()


def _wake(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        os.write(descriptor, b"1")


def _settle_down(kept: set[int]) -> None:
    """Let go of everything that is the engine's, and be the first to end. It lives long: what it gives up is looked for again."""
    gc.enable()
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1):
        os.dup2(null, standard)
    with contextlib.suppress(OSError, ValueError):
        for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names are all that is needed
            if int(name) > 2 and int(name) not in kept:
                with contextlib.suppress(OSError):
                    os.close(int(name))
    with contextlib.suppress(OSError):
        os.chdir("/")
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO, "ascii")


class Engine:
    """A process that is not our child, whose end is seen: by a descriptor where the kernel has them, else by its start time."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = -1
        self._born = born(pid)
        with contextlib.suppress(OSError, AttributeError):
            self._descriptor = os.pidfd_open(pid)

    @property
    def descriptors(self) -> frozenset[int]:
        """What must stay open for it."""
        return frozenset(() if self._descriptor < 0 else (self._descriptor,))

    def ended(self, *awake: int) -> bool:
        """Wait for its end, or until one of `awake` can be read; whether it has ended."""
        while True:
            seconds = None if self._descriptor >= 0 else _LOOK_SECONDS
            ready = select.select([*awake, *self.descriptors], [], [], seconds)[0]
            if self._descriptor in ready or (self._descriptor < 0 and born(self.pid) != self._born):
                return True
            if ready:
                return False

    def close(self) -> None:
        """Let go of it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
