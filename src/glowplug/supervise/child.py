"""One child process: started, signalled, reaped. Its exit status is ours.

- Signals that we get are the child's. In a terminal's foreground group the terminal itself delivers Ctrl-C and Ctrl-\\ to both,
  so those are not forwarded a second time (engines take a second SIGINT as "at once").
- Elsewhere the child gets a process group of its own, so that a signal to our group reaches it once, through us.
- As pid 1 every orphan is reaped.
- Status: the child's own; 128+N after signal N; 127 command not found; 126 not executable.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType

    from glowplug.supervise.streams import Ends

NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126
_FORWARDED: Final = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
    signal.SIGWINCH,
)
_ENDING: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})


class CannotStartError(Exception):
    """The command is not there or not executable; `status` is what a shell would return."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Child:
    """Made and waited for on the main thread, since only there signal handlers run."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = list(argv)
        self._process: subprocess.Popen[bytes] | None = None
        self._interactive = False
        self._wake_read = -1
        self._wake_write = -1
        self._old_handlers: dict[int, object] = {}
        self._pending: list[int] = []
        self.ending_signal: int | None = None
        """The first signal that we got and that asks the engine to end."""

    @property
    def pid(self) -> int:
        """Process id of the child."""
        if self._process is None:
            raise RuntimeError("the child has not been started")
        return self._process.pid

    def listen(self) -> None:
        """Take over the signals; those that come before the child runs are delivered to it once it does."""
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in (*_FORWARDED, signal.SIGCHLD):
            self._old_handlers[number] = signal.signal(number, self._on_signal)

    def start(self, environ: Mapping[str, str], ends: Ends) -> None:
        """Start the command in an environment. Raises CannotStartError."""
        self._interactive = _in_foreground()
        try:
            self._process = subprocess.Popen(
                self._argv,
                env=dict(environ),
                stdout=ends.stdout,
                stderr=ends.stderr,
                process_group=None if self._interactive else 0,
            )
        except FileNotFoundError:
            raise CannotStartError(f"{self._argv[0]}: command not found", NOT_FOUND) from None
        except (PermissionError, OSError) as error:
            raise CannotStartError(f"{self._argv[0]}: {error.strerror}", NOT_EXECUTABLE) from None
        pending, self._pending = self._pending, []
        for number in pending:
            self._forward(number)

    def wait(self) -> int:
        """Wait for the child to end, on the main thread. Returns the exit status as a shell states it."""
        while True:
            status = self.poll()
            if status is not None:
                return status
            # The timeout is a safety net for a SIGCHLD that was lost between poll and select.
            readable, _, _ = select.select([self._wake_read], [], [], 1.0)
            if readable:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)

    def poll(self) -> int | None:
        """The exit status, None while the child runs. Reaps orphans as pid 1."""
        process = self._process
        if process is None:
            return None
        if os.getpid() == 1:
            _reap_others(process.pid)
        code = process.poll()
        if code is None:
            return None
        return 128 - code if code < 0 else code

    def send(self, number: int) -> None:
        """Send the child a signal of our own accord; nothing happens when it has ended."""
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)

    def release(self) -> None:
        """Give the signals back."""
        signal.set_wakeup_fd(-1)
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._old_handlers.clear()
        for descriptor in (self._wake_read, self._wake_write):
            if descriptor >= 0:
                os.close(descriptor)
        self._wake_read = self._wake_write = -1

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGCHLD:
            return
        if number in _ENDING and self.ending_signal is None:
            self.ending_signal = number
        if self._process is None:
            self._pending.append(number)
        else:
            self._forward(number)

    def _forward(self, number: int) -> None:
        if self._interactive and number in (signal.SIGINT, signal.SIGQUIT):
            return
        self.send(number)


def _in_foreground() -> bool:
    """Whether a terminal delivers its Ctrl-C to our process group."""
    try:
        descriptor = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _reap_others(own: int) -> None:
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None or found.si_pid == own:
            return
        with contextlib.suppress(ChildProcessError):
            os.waitpid(found.si_pid, os.WNOHANG)


def terminate(child: Child, grace_seconds: float, exited: Callable[[], bool]) -> None:
    """End the child from another thread: SIGTERM, and SIGKILL after the grace."""
    child.send(signal.SIGTERM)
    end = time.monotonic() + grace_seconds
    while not exited() and time.monotonic() < end:
        time.sleep(0.05)
    if not exited():
        child.send(signal.SIGKILL)


if TYPE_CHECKING:
    from collections.abc import Callable
