"""The engine's output, passed through byte by byte and read line by line on its way.

The engine should see what it would see without glowplug: a terminal where there is one (a pseudo terminal then), else a pipe;
stdout and stderr as one stream where they are one file, so that their order stays. A reader that goes away is passed on too:
our end is closed and the engine gets its SIGPIPE.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import termios
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST_LINE: Final = 64 * 1024
"""Longer lines are cut for the log reader, never for the output."""


@dataclass(frozen=True)
class Ends:
    """What the child is given as stdout and stderr; close them once it runs."""

    stdout: int
    stderr: int

    def close(self) -> None:
        """Close our copies of the child's ends."""
        for descriptor in {self.stdout, self.stderr}:
            os.close(descriptor)


class Passthrough:
    """Pumps between the child's ends and ours, one thread a stream."""

    def __init__(self, on_line: Callable[[str, float], None], stdout: int = 1, stderr: int = 2) -> None:
        self._on_line = on_line
        self._targets = (stdout, stderr)
        self._threads: list[threading.Thread] = []
        self._started = time.monotonic()
        self._lock = threading.Lock()

    def open(self) -> Ends:
        """Make the child's ends and start pumping."""
        self._started = time.monotonic()
        out, err = self._targets
        first = self._stream(out)
        second = first if _same_file(out, err) else self._stream(err)
        return Ends(first, second)

    def drain(self, seconds: float) -> None:
        """Wait until everything the child wrote has been passed on, `seconds` at most."""
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _stream(self, target: int) -> int:
        ours, theirs = _terminal_pair(target) if os.isatty(target) else os.pipe()
        thread = threading.Thread(target=self._pump, args=(ours, target), name=f"stream-{target}", daemon=True)
        self._threads.append(thread)
        thread.start()
        return theirs

    def _pump(self, source: int, target: int) -> None:
        pending = b""
        try:
            while True:
                try:
                    data = os.read(source, 1 << 16)
                except OSError:
                    # EIO: the last holder of a pseudo terminal's other side has gone.
                    break
                if not data:
                    break
                _write_all(target, data)
                pending = self._feed(pending + data)
        except OSError:
            # Our own reader has gone: closing `source` below tells the engine.
            return
        finally:
            os.close(source)
            if pending:
                self._line(pending)

    def _feed(self, data: bytes) -> bytes:
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._line(line)
        return rest[-_LONGEST_LINE:]

    def _line(self, line: bytes) -> None:
        at = time.monotonic() - self._started
        with self._lock:
            self._on_line(line[:_LONGEST_LINE].decode("utf-8", "replace").rstrip("\r"), at)


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
    with contextlib.suppress(OSError, termios.error):
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, fcntl.ioctl(target, termios.TIOCGWINSZ, b"\0" * 8))
        attributes = termios.tcgetattr(theirs)
        attributes[1] &= ~termios.OPOST  # the outer terminal turns \n into \r\n; once is enough
        termios.tcsetattr(theirs, termios.TCSANOW, attributes)
    return ours, theirs
