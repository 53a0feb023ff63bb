"""The process beside the engine: waits for ready, gives the verdict, hands over what is new. It ends with the engine.

It is nobody's child (`launch.orphan`), and the first that the kernel ends when memory is short.

What it alone needs it imports itself, while the start is prepared: from an archive of sources that is most of the time.
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
from glowplug.launch import orphan
from glowplug.launch.telling import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from glowplug.launch.observer import Owner
    from glowplug.launch.options import RunOptions
    from glowplug.launch.prepare import Prepared
    from glowplug.launch.record import Record

_LENGTH: Final = struct.Struct("!Q")
_LAST_SECONDS: Final = 3.0
"""How long after the engine's end a verdict or publish under way may still take."""
_LOOK_SECONDS: Final = 0.5
_NICENESS: Final = 10
_FIRST_TO_GO: Final = "1000"


@dataclass(frozen=True)
class Begun:
    """What the launcher knows from the beginning. `began`, `wall`: when that was, in monotonic and epoch seconds."""

    options: RunOptions
    command: Sequence[str]
    environ: Mapping[str, str]
    owner: Callable[[Prepared, Callable[[str], None]], Owner]
    began: float
    wall: float


class Watching:
    """A watcher of this process, whatever it becomes: an `orphan.Work` that waits to be told what it watches; and our side."""

    name = "the watcher"

    def __init__(self, begun: Begun) -> None:
        self._begun = begun
        self._engine = Engine(os.getpid())
        self._down_end, self._down = orphan.pipe()
        self._up, self._up_end = orphan.pipe()

    def run(self) -> None:
        """In its process. It keeps none of our ends: else it would not see that this became the engine without a word."""
        _watch(_Ends(self._down_end, self._up_end), self._engine, self._begun)

    def forked(self) -> None:
        """The ends that are the other process's are its alone."""
        os.close(self._down_end)
        os.close(self._up_end)
        self._engine.close()

    def hand_over(self, prepared: bytes, seconds: float) -> bool:
        """Send it, pickled, and wait until the watcher watches; False where it does not within this time. b"" ends the watcher."""
        end = time.monotonic() + seconds
        try:
            if not prepared:
                return False
            return _send(self._down, _LENGTH.pack(len(prepared)) + prepared, end) and bool(_receive(self._up, end))
        except OSError as error:
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


@dataclass(frozen=True)
class _Ends:
    """The watcher's ends of the pipes."""

    read: int
    write: int

    def prepared(self) -> Optional[Prepared]:
        """What the launcher sends; None where it became the engine without a word."""
        head = self._exactly(_LENGTH.size)
        body = self._exactly(_LENGTH.unpack(head)[0]) if head else b""
        from glowplug.launch.prepare import Prepared

        found: Any = pickle.loads(body) if body else None  # noqa: S301 - of the process that forked us, over our own pipe
        return found if isinstance(found, Prepared) else None

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


def _watch(ends: _Ends, engine: Engine, begun: Begun) -> None:
    _settle_down({ends.read, ends.write, *engine.descriptors})
    from glowplug.launch.observer import Observer

    prepared = ends.prepared()
    if prepared is None:
        return
    owner = begun.owner(prepared, say)
    if prepared.adapter is None and begun.options.ready_url is None:
        # Of such a start nothing can be seen: the document says why, and that is all.
        ends.watching()
        _finish(_record(begun, prepared, owner), prepared.unknown, prepared.unknown)
        return
    record = _record(begun, prepared, owner)
    awake, waker = os.pipe()
    observer = Observer(prepared, begun.options, record, None, owner, say, lambda: _wake(waker))
    observer.begin(begun.began)
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
    _finish(record, "the engine ended before the verdict", "not_ready")
    prepared.discard()


def _record(begun: Begun, prepared: Prepared, owner: Owner) -> Record:
    from glowplug.launch import document
    from glowplug.launch.record import Record

    options, command = begun.options, begun.command
    start = document.begun(prepared, options, command, wall=begun.wall, source=owner.source)
    return Record(start, options.report, say, document.secrets_of(prepared, command, begun.environ), owner.note)


def _finish(record: Record, why: str, publish: str) -> None:
    from glowplug.core.documents.start import PublishOutcome
    from glowplug.launch.document import note_unfinished

    note_unfinished(record, why, publish, PublishOutcome.SKIPPED)
    record.close()


def _wake(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        os.write(descriptor, b"1")


def _settle_down(kept: set[int]) -> None:
    """Let go of everything that is the engine's, and be the first to end. It lives long: what it gives up is looked for again."""
    gc.enable()
    orphan.let_go(kept)
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
            self._descriptor = orphan.above_standard(os.pidfd_open(pid))

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
