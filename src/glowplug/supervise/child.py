"""One child process: started, signalled, reaped. Its exit status is ours.

- Signals that we get are the child's, each once. They are blocked in every thread and taken one by one, never by handlers: so no
  call into a library can hold one up, and it is known who sent it. A signalfd says that there is one, and sigtimedwait takes it
  without waiting: Python's, when it is interrupted (we are stopped and continued: a debugger, `docker pause`, a frozen cgroup) and
  its time is over by then, returns memory that nobody has filled as the signal that came.
- In a terminal's foreground group the terminal itself delivers Ctrl-C, Ctrl-\\ and a hang-up to both of us, so what the kernel
  sent is not forwarded a second time there (engines take a second SIGINT as "at once"); what a process sent to us is.
- Elsewhere the child gets a process group of its own, so that a signal to our group reaches it once, through us.
- The child starts with the signal mask and the ignored signals that we were started with (`nohup`, a shell's `&`), and with every
  descriptor that it would have without us.
- As pid 1 every orphan is reaped.
- Status: the child's own; 128+N after signal N; 127 command not found; 126 not executable.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from glowplug.supervise.streams import Ends

NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126
_ENDING: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
_OWN: Final = frozenset(
    {
        # cannot be caught
        signal.SIGKILL,
        signal.SIGSTOP,
        # our own faults, and limits on our own writing and computing
        signal.SIGSEGV,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGILL,
        signal.SIGSYS,
        signal.SIGTRAP,
        signal.SIGABRT,
        signal.SIGPIPE,
        signal.SIGXFSZ,
        signal.SIGXCPU,
        # job control: stopping us and the child is the shell's and the kernel's business
        signal.SIGTSTP,
        signal.SIGTTIN,
        signal.SIGTTOU,
    }
)
_FORWARDED: Final = frozenset(signal.valid_signals()) - _OWN - {signal.SIGCHLD}
_WATCHED: Final = _FORWARDED | {signal.SIGCHLD}
_RESET: Final = (signal.SIGPIPE, signal.SIGXFSZ)
"""Python ignores these for itself; a child must not inherit that."""
_BY_KERNEL: Final = 0x80
"""si_code SI_KERNEL: a key on the terminal or its hang-up, not a process."""
_LOOK_SECONDS: Final = 1.0
"""The longest wait without looking at the child: a safety net, SIGCHLD is what wakes us."""
_BLIND_SECONDS: Final = 0.05
"""How often signals are asked for where the kernel gives no signalfd."""
_CLOEXEC: Final = 0x80000


class CannotStartError(Exception):
    """The command is not there or not executable; `status` is what a shell would return."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Child:
    """Made, started and waited for on the main thread, before any other thread runs; `send` and `wake` from any thread."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = list(argv)
        self._lock = threading.Lock()
        self._pid: int | None = None
        self._status: int | None = None
        self._interactive = False
        self._mask: set[int] = set()
        self._ignored: frozenset[int] = frozenset()
        self._arrivals = -1
        self._pending: list[int] = []
        self._main = threading.get_ident()
        self.on_resize: Callable[[], None] = lambda: None
        """Called when our terminal has another size, before the child is told."""
        self.ending_signal: int | None = None
        """The first signal that we got and that asks the engine to end."""
        self.endings = 0
        """How many such signals we got: who asks a second time does not want to wait."""

    @property
    def started(self) -> bool:
        """Whether there is a child, running or ended."""
        return self._pid is not None

    @property
    def pid(self) -> int:
        """Process id of the child."""
        if self._pid is None:
            raise RuntimeError("the child has not been started")
        return self._pid

    def listen(self) -> None:
        """Take over the signals; those that come before the child runs are delivered to it once it does."""
        self._ignored = frozenset(number for number in _FORWARDED if signal.getsignal(number) is signal.SIG_IGN)
        # An ignored SIGCHLD, inherited from a careless parent, would lose the child's status.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._mask = {int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)}
        self._arrivals = _signalfd(_WATCHED)

    def start(self, environ: Mapping[str, str], ends: Ends) -> None:
        """Start the command in an environment. Raises CannotStartError."""
        self._interactive = _in_foreground()
        group = {} if self._interactive else {"setpgroup": 0}
        try:
            self._pid = os.posix_spawnp(
                self._argv[0],
                self._argv,
                dict(environ),
                file_actions=[(os.POSIX_SPAWN_DUP2, ends.stdout, 1), (os.POSIX_SPAWN_DUP2, ends.stderr, 2)],
                setsigmask=self._mask,
                setsigdef=_RESET,
                **group,  # type: ignore[arg-type] # absent means: our own group
            )
        except FileNotFoundError:
            raise CannotStartError(f"{self._argv[0]}: command not found", NOT_FOUND) from None
        except OSError as error:
            raise CannotStartError(f"{self._argv[0]}: {error.strerror}", NOT_EXECUTABLE) from None
        except ValueError as error:  # an environment that execve cannot take
            raise CannotStartError(f"{self._argv[0]}: {error}", NOT_EXECUTABLE) from None
        pending, self._pending = self._pending, []
        for number in pending:
            self.send(number)

    def attend(self, until: Callable[[], bool], seconds: float = float("inf")) -> bool:
        """Pass signals on until a condition holds, which is looked at after each `wake`; False where time ran out."""
        end = time.monotonic() + seconds
        while not until():
            left = end - time.monotonic()
            if left <= 0:
                return False
            got = self._next(min(left, _LOOK_SECONDS))
            if got is not None:
                self._got(got)
        return True

    def wait(self) -> int:
        """Wait for the child to end. Returns the exit status as a shell states it."""
        self.attend(lambda: self.poll() is not None)
        status = self.poll()
        assert status is not None  # noqa: S101 - attend has just seen it
        return status

    def wake(self) -> None:
        """Let `attend` look at its condition now."""
        signal.pthread_kill(self._main, signal.SIGCHLD)

    def poll(self) -> int | None:
        """The exit status, None while the child runs. Reaps orphans as pid 1."""
        if self._pid is None:
            return None
        if os.getpid() == 1:
            _reap_others(self._pid)
        with self._lock:
            if self._status is None:
                pid, status = os.waitpid(self._pid, os.WNOHANG)
                if pid:
                    code = os.waitstatus_to_exitcode(status)
                    self._status = 128 - code if code < 0 else code
            return self._status

    def send(self, number: int) -> None:
        """Send the child a signal of our own accord; nothing happens when it has ended."""
        # The lock: between the child's end and our knowing it, its number may become another process's.
        with self._lock:
            if self._pid is not None and self._status is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._pid, number)

    def release(self) -> None:
        """Give the signals back. Those that came too late for the child are dropped: its status is ours, whatever comes."""
        while signal.sigtimedwait(_WATCHED, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        if self._arrivals >= 0:
            os.close(self._arrivals)
            self._arrivals = -1

    def _next(self, seconds: float) -> signal.struct_siginfo | None:
        """The next signal, None where none comes in time."""
        if self._arrivals < 0:
            time.sleep(min(seconds, _BLIND_SECONDS))
        else:
            arrival = select.poll()
            arrival.register(self._arrivals, select.POLLIN)
            arrival.poll(seconds * 1000)
        return signal.sigtimedwait(_WATCHED, 0)

    def _got(self, got: signal.struct_siginfo) -> None:
        number = got.si_signo
        if number == signal.SIGCHLD:
            return
        if number == signal.SIGWINCH:
            self.on_resize()
        if number in _ENDING and number not in self._ignored:
            self.ending_signal = self.ending_signal or number
            self.endings += 1
        if self._pid is None:
            self._pending.append(number)
        elif not self._has_it_already(got):
            self.send(number)

    def _has_it_already(self, got: signal.struct_siginfo) -> bool:
        """Whether the child, in our group in a terminal's foreground, got this itself: from the kernel, or by its own doing."""
        if not self._interactive or got.si_signo == signal.SIGWINCH:
            return False
        return got.si_code == _BY_KERNEL or got.si_pid == self._pid


def _signalfd(numbers: Iterable[int]) -> int:
    """A descriptor that can be read while one of these signals waits for us; -1 where there is none."""
    bits = 8 * ctypes.sizeof(ctypes.c_ulong)
    words = (ctypes.c_ulong * (1024 // bits))()  # as large as glibc's sigset_t
    for number in numbers:
        words[(number - 1) // bits] |= 1 << (number - 1) % bits
    try:
        return int(ctypes.CDLL(None).signalfd(-1, words, _CLOEXEC))
    except (OSError, AttributeError):
        return -1


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
