"""The preparation as a process of its own, which nobody has to wait for: a disk may keep it in a system call that nothing ends.

On a thread it would keep the engine from starting as long as that: exec waits for all threads of its process, and a write to an
NVMe or a mount that hangs ends neither by a signal nor by a deadline. So the launcher itself touches no disk from here on; it waits
for what comes through a pipe, and at the end of its patience it kills the process and goes on without. What was killed while a
disk held it goes when the disk lets go, before it does anything more.

It sends what the engine's environment is, which is all that the launcher needs, and what the watcher is to know, which the
launcher passes on as it is.
"""

from __future__ import annotations

import _thread
import contextlib
import marshal
import os
import pickle
import select
import signal
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, Final, Optional, Union

from glowplug.launch import orphan
from glowplug.launch.telling import say, tell_restore

if TYPE_CHECKING:
    from glowplug.launch.prepare import Prepared

_NUMBER: Final = struct.Struct("!Q")
"""First the process's own; then the length of each of two frames, before it."""
_PIECE: Final = 1 << 20
_GONE_SECONDS: Final = 0.5
"""How long the end of a process is waited for that has sent all it had, or was killed."""


@dataclass(frozen=True)
class Ready:
    """The engine's environment, and the `Prepared` for the watcher, pickled; b"" where that cannot be."""

    environ: dict[str, str]
    prepared: bytes


@dataclass(frozen=True)
class Failed:
    """No preparation, and why: as a reason of documents, and in words."""

    reason: str
    why: str


def pickled(prepared: Prepared) -> bytes:
    """For the watcher; b"" and a line where it cannot be told."""
    try:
        return pickle.dumps(prepared, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - it depends on each value in it
        say(f"the start is not watched: {type(error).__name__}: {error}")
        return b""


class Preparation:
    """`work` in that process (an `orphan.Work`), and the launcher's side of it. It ends no later than this process, or its exec."""

    name = "preparing the start"

    def __init__(self, work: Callable[[], Prepared]) -> None:
        self._work = work
        self._result, self._result_end = orphan.pipe()
        self._alive_end, self._alive = orphan.pipe()
        self._pid = 0
        self._process = -1

    def run(self) -> None:
        """In that process."""
        # With the launcher's end of it open here too, the launcher's end would never be seen.
        orphan.let_go((self._result_end, self._alive_end))
        _prepare(self._result_end, self._alive_end, self._work)

    def forked(self) -> None:
        """The ends that are the other process's are its alone."""
        os.close(self._result_end)
        os.close(self._alive_end)

    def outcome(self, end: float) -> Union[Ready, Failed]:
        """What it sends until `end`, in monotonic seconds; it is killed where it takes longer."""
        data = bytearray()
        while True:
            if not select.select([self._result], [], [], max(0.0, end - time.monotonic()))[0]:
                self._kill()
                return Failed("deadline", "")
            piece = os.read(self._result, _PIECE)
            data += piece
            if not self._pid and len(data) >= _NUMBER.size:
                self._know(_NUMBER.unpack_from(data)[0])
            if not piece:
                return _understood(bytes(data[_NUMBER.size :]))

    def close(self) -> None:
        """Let go of it. Where this process gets all orphans it has become a child: the engine shall not find it."""
        os.close(self._alive)
        os.close(self._result)
        with contextlib.suppress(OSError):
            if self._pid and os.waitpid(self._pid, os.WNOHANG) == (0, 0) and self._process >= 0:
                select.select([self._process], [], [], _GONE_SECONDS)
                os.waitpid(self._pid, os.WNOHANG)
        if self._process >= 0:
            os.close(self._process)

    def _know(self, pid: int) -> None:
        self._pid = pid
        with contextlib.suppress(OSError, AttributeError):
            self._process = os.pidfd_open(pid)

    def _kill(self) -> None:
        with contextlib.suppress(OSError):
            if self._process >= 0:
                signal.pidfd_send_signal(self._process, signal.SIGKILL)
            elif self._pid:
                os.kill(self._pid, signal.SIGKILL)


def _prepare(result: int, alive: int, work: Callable[[], Prepared]) -> None:
    _send(result, _NUMBER.pack(os.getpid()))
    with contextlib.suppress(RuntimeError):
        _thread.start_new_thread(_end_with_the_launcher, (alive,))
    try:
        prepared = work()
        if not prepared.unknown:
            tell_restore(prepared.restore)
        known: Union[dict[str, str], str] = dict(prepared.environ)
        body = pickled(prepared)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the launcher hears of it
        known, body = f"{type(error).__name__}: {error}", b""
    said = marshal.dumps(known)
    _send(result, _NUMBER.pack(len(said)) + said + _NUMBER.pack(len(body)) + body)


def _end_with_the_launcher(alive: int) -> None:
    with contextlib.suppress(OSError):
        os.read(alive, 1)
    os._exit(1)


def _send(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _understood(data: bytes) -> Union[Ready, Failed]:
    known, rest = _framed(data)
    body, _ = _framed(rest or b"")
    if known is None or body is None:
        return Failed("internal", "its process was ended")
    said = marshal.loads(known)  # noqa: S302 - of the process that we forked, over our own pipe
    return Failed("internal", said) if isinstance(said, str) else Ready(said, body)


def _framed(data: bytes) -> tuple[Optional[bytes], Optional[bytes]]:
    """The first frame and what follows it; None for what has not come whole."""
    if len(data) < _NUMBER.size:
        return None, None
    end = _NUMBER.size + _NUMBER.unpack_from(data)[0]
    return (data[_NUMBER.size : end], data[end:]) if len(data) >= end else (None, None)
