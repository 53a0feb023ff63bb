"""The engine's output, passed through byte by byte and read line by line on its way.

The engine should see what it would see without glowplug: a terminal where there is one (a pseudo terminal then, of the same
size), else a pipe; stdout and stderr as one stream where they are one file, so that their order stays. A reader that goes away
is passed on too: our end is closed and the engine gets its SIGPIPE. A full disk is not: the bytes are lost, as the engine's
own would be, and the engine lives on.

Nothing of the engine's output is lost at its end, however slow its reader is. But a process that the engine left behind with
its stdout is not waited for.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import os
import select
import sys
import termios
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST_LINE: Final = 64 * 1024
"""Longer lines are cut for the log reader, never for the output."""
_PIECE: Final = 1 << 16
_IN_A_PIPE: Final = 1 << 20
"""The most that a pipe can hold (/proc/sys/fs/pipe-max-size); a pseudo terminal holds less."""
_LOOK_SECONDS: Final = 0.01
_SLOW_SECONDS: Final = 0.2
"""A write that takes longer waits for a reader."""
_NOT_TAKEN: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


@dataclass(frozen=True)
class Ends:
    """What the child is given as stdout and stderr; close them once it runs."""

    stdout: int
    stderr: int

    def close(self) -> None:
        """Close our copies of the child's ends."""
        for descriptor in {self.stdout, self.stderr}:
            os.close(descriptor)


def ensure_standard_streams() -> None:
    """Open /dev/null in place of a closed stdin, stdout or stderr, before anything else gets its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
    # What Python found closed at its start it has no stream for.
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


class Passthrough:
    """Pumps between the child's ends and ours, one thread a stream."""

    def __init__(self, on_line: Callable[[str, float], None], stdout: int = 1, stderr: int = 2) -> None:
        self._on_line: Callable[[str, float], None] | None = on_line
        self._targets = (stdout, stderr)
        self._pumps: list[_Pump] = []
        self._started = time.monotonic()
        self._lock = threading.Lock()

    def open(self) -> Ends:
        """Make the child's ends and start pumping."""
        self._started = time.monotonic()
        out, err = self._targets
        first = self._stream(out)
        second = first if _same_file(out, err) else self._stream(err)
        return Ends(first, second)

    def drain(
        self, seconds: float, hurry: Callable[[], bool] = lambda: False, pause: Callable[[float], object] = time.sleep
    ) -> None:
        """Wait until everything the child wrote has been passed on.

        That takes as long as its reader takes; `seconds` at most where `hurry` says so, or since a reader last kept us waiting:
        between two writes to a slow one there is a moment in which it does not. `pause` is called between two looks.
        """
        last_wait = began = time.monotonic()
        passed = {pump: pump.passed for pump in self._pumps}
        while any(not pump.is_drained(since) for pump, since in passed.items()):
            now = time.monotonic()
            if any(pump.is_kept_waiting() for pump in self._pumps):
                last_wait = now
            if now - last_wait >= seconds or (now - began >= seconds and hurry()):
                return
            pause(_LOOK_SECONDS)

    def resize(self) -> None:
        """Give the child's terminals the size of ours."""
        for pump in self._pumps:
            pump.resize()

    def _stream(self, target: int) -> int:
        ours, theirs = _terminal_pair(target) if os.isatty(target) else os.pipe()
        pump = _Pump(ours, target, self._line)
        self._pumps.append(pump)
        pump.start()
        return theirs

    def _line(self, line: bytes) -> None:
        at = time.monotonic() - self._started
        with self._lock:
            if self._on_line is None:
                return
            try:
                self._on_line(line[:_LONGEST_LINE].decode("utf-8", "replace").rstrip("\r"), at)
            except Exception:  # noqa: BLE001 - a reader that stumbles over a line must not close the engine's output
                self._on_line = None


class _Pump:
    """One stream, on a thread of its own. `passed`: bytes that have reached the target."""

    def __init__(self, source: int, target: int, on_line: Callable[[bytes], None]) -> None:
        self._source = source
        self._target = target
        self._on_line = on_line
        self._thread = threading.Thread(target=self._run, name=f"stream-{target}", daemon=True)
        self._idle = False
        self._writing_since: float | None = None
        self._closing = threading.Lock()
        self.passed = 0

    def start(self) -> None:
        self._thread.start()

    def is_drained(self, passed_before: int) -> bool:
        """Whether all has been passed on that was written before a moment when `passed` was `passed_before`."""
        if not self._thread.is_alive() or self.passed - passed_before > _IN_A_PIPE + _PIECE:
            return True
        # The order matters: what was read after the first look is seen by the second.
        return self._waiting_bytes() == 0 and self._idle

    def is_kept_waiting(self) -> bool:
        """Whether the target's reader is slower than we are."""
        since = self._writing_since
        return since is not None and time.monotonic() - since > _SLOW_SECONDS

    def resize(self) -> None:
        with self._closing:
            if self._source >= 0:
                _copy_size(self._target, self._source)

    def _waiting_bytes(self) -> int:
        count = array.array("i", [0])
        with self._closing:
            if self._source < 0:
                return 0
            try:
                fcntl.ioctl(self._source, termios.FIONREAD, count)
            except OSError:
                return 0
        return count[0]

    def _run(self) -> None:
        pending = b""
        ready = select.poll()
        ready.register(self._source, select.POLLIN)
        try:
            while True:
                self._idle = True
                ready.poll()
                self._idle = False
                try:
                    data = os.read(self._source, _PIECE)
                except OSError:
                    # EIO: the last holder of a pseudo terminal's other side has gone.
                    break
                if not data:
                    break
                self._pass(data)
                pending = self._feed(pending + data)
        except OSError:
            # Our own reader has gone: closing our end below tells the engine.
            return
        finally:
            with self._closing:
                os.close(self._source)
                self._source = -1
            if pending:
                self._on_line(pending)

    def _pass(self, data: bytes) -> None:
        self._writing_since = time.monotonic()
        try:
            _write_all(self._target, data)
        except OSError as error:
            if error.errno not in _NOT_TAKEN:
                raise
        finally:
            self._writing_since = None
        self.passed += len(data)

    def _feed(self, data: bytes) -> bytes:
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._on_line(line)
        return rest[-_LONGEST_LINE:]


def _write_all(target: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(target, view) :]
        except BlockingIOError:
            # Somebody made our output non-blocking (a shared terminal, Node.js); wait as a blocking one would.
            time.sleep(0.01)


def _same_file(first: int, second: int) -> bool:
    try:
        return os.path.samestat(os.fstat(first), os.fstat(second))
    except OSError:
        return False


def _terminal_pair(target: int) -> tuple[int, int]:
    ours, theirs = os.openpty()
    _copy_size(target, theirs)
    with contextlib.suppress(OSError, termios.error):
        attributes = termios.tcgetattr(theirs)
        attributes[1] &= ~termios.OPOST  # the outer terminal turns \n into \r\n; once is enough
        termios.tcsetattr(theirs, termios.TCSANOW, attributes)
    return ours, theirs


def _copy_size(terminal: int, other: int) -> None:
    with contextlib.suppress(OSError):
        fcntl.ioctl(other, termios.TIOCSWINSZ, fcntl.ioctl(terminal, termios.TIOCGWINSZ, b"\0" * 8))
