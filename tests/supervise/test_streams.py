"""Streams pass through unchanged, as fast as their reader takes them, and are what they would be without glowplug."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.supervise.machine import GLOWPLUG, PATIENCE, Machine

RUN = [GLOWPLUG, "run", "--"]


def python(code: str) -> list[str]:
    return [*RUN, sys.executable, "-c", code]


def through(bare: Machine, code: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(python(code), env=bare.env(), input=data, capture_output=True, timeout=PATIENCE)


def test_any_bytes_pass_on_both_streams_and_nothing_is_added(bare: Machine) -> None:
    code = "import os; b = bytes(range(256)) * 50; os.write(1, b + b'no newline'); os.write(2, b[::-1])"
    done = through(bare, code)
    every = bytes(range(256)) * 50
    assert done.stdout == every + b"no newline"
    own, _, theirs = done.stderr.partition(b"\n")
    assert own.startswith(b"glowplug: started as it is: engine_unknown")
    assert theirs == every[::-1]


def test_stdin_passes(bare: Machine) -> None:
    data = os.urandom(300_000)
    done = through(bare, "import sys, hashlib; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())", data)
    assert done.stdout.decode().strip() == hashlib.sha256(data).hexdigest()


def test_a_hundred_megabytes_without_a_newline_pass(bare: Machine) -> None:
    code = "import os\nfor n in range(100): os.write(1, bytes([65 + n % 26]) * 1_000_000)"
    process = subprocess.Popen(python(code), env=bare.env(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    digest, count = hashlib.sha256(), 0
    assert process.stdout is not None
    while piece := process.stdout.read(1 << 20):
        digest.update(piece)
        count += len(piece)
    process.stdout.close()
    assert process.wait(PATIENCE) == 0
    whole = hashlib.sha256()
    for number in range(100):
        whole.update(bytes([65 + number % 26]) * 1_000_000)
    assert (count, digest.hexdigest()) == (100_000_000, whole.hexdigest())


def test_two_streams_into_one_file_keep_their_order(bare: Machine) -> None:
    code = "import os\nfor n in range(3000): os.write(1 + n % 2, b'%d\\n' % n)"
    done = subprocess.run(
        python(code), env=bare.env(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE
    )
    numbers = [int(line) for line in done.stdout.split() if line.isdigit()]
    assert numbers == list(range(3000))


@pytest.mark.slow
def test_a_slow_reader_gets_all_of_it(bare: Machine) -> None:
    """The engine has long ended when its last bytes are read, a little at a time: for longer than we wait for an orphan."""
    code = "import os; os.write(1, b'x' * 131_072)"
    command = python(code)
    process = subprocess.Popen(
        command, env=bare.env(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pipesize=4096
    )
    assert process.stdout is not None
    count = 0
    while piece := os.read(process.stdout.fileno(), 4096):
        count += len(piece)
        time.sleep(0.35)
    process.stdout.close()
    assert (process.wait(PATIENCE), count) == (0, 131_072)


def test_a_reader_that_goes_away_is_the_engines_to_notice(bare: Machine) -> None:
    code = "import os, signal\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\nwhile True: os.write(1, b'y' * 1000)"
    process = subprocess.Popen(python(code), env=bare.env(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(PATIENCE) == 128 + signal.SIGPIPE


def test_a_full_disk_costs_output_and_not_the_engine(bare: Machine) -> None:
    code = "import os, sys\nfor _ in range(50): os.write(1, b'z' * 1000)\nsys.exit(5)"
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(python(code), env=bare.env(), stdout=full, stderr=subprocess.DEVNULL, timeout=PATIENCE)
    assert done.returncode == 5


def test_closed_streams_harm_nobody(bare: Machine) -> None:
    out = bare.base / "out"
    script = f'exec <&- >&- 2>&-; "$0" run --report {bare.report} -- sh -c "echo here > {out}; echo lost; exit 6"'
    done = subprocess.run(["bash", "-c", script, GLOWPLUG], env=bare.env(), timeout=PATIENCE)
    assert (done.returncode, out.read_text()) == (6, "here\n")


def test_a_daemon_that_holds_stdout_is_not_waited_for(bare: Machine) -> None:
    code = (
        "import subprocess, sys\n"
        "print(subprocess.Popen(['sleep', '600'], start_new_session=True).pid, 'last words', flush=True)\n"
        "sys.exit(4)"
    )
    process = subprocess.Popen(python(code), env=bare.env(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    status = process.wait(PATIENCE)
    daemon, _, words = process.stdout.read1().partition(b" ")
    process.stdout.close()
    os.kill(int(daemon), signal.SIGKILL)
    assert (status, words) == (4, b"last words\n")


@pytest.mark.slow
def test_a_daemon_that_never_stops_talking_is_not_waited_for(bare: Machine) -> None:
    talk = "while :; do echo $PPID; sleep 0.01; done & sleep 0.2; exit 4"
    process = subprocess.Popen(
        [*RUN, "bash", "-c", talk], env=bare.env(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    end = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < end:
        process.stdout.read()
        time.sleep(0.05)
    process.stdout.close()
    assert process.returncode == 4


class Terminal:
    """A command as the foreground job of a terminal of its own."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], command, env)  # noqa: S606
        self.seen = b""

    def read_until(self, text: bytes, seconds: float = PATIENCE) -> None:
        end = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.fd, 65536)
                except OSError:
                    break
        assert text in self.seen, self.seen

    def size(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def end(self, seconds: float = PATIENCE) -> int:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self.fd], [], [], 0.02)[0]:
                with contextlib.suppress(OSError):
                    self.seen += os.read(self.fd, 65536)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        raise AssertionError(self.seen)


def test_a_terminal_stays_a_terminal_of_its_size(bare: Machine) -> None:
    # Python notices a signal that comes just before a long call after it, so nothing here waits in one.
    code = (
        "import os, select, sys, signal\n"
        "signal.signal(signal.SIGWINCH, lambda *_: os.write(1, b'now %d x %d' % os.get_terminal_size(1)))\n"
        "print([os.isatty(n) for n in range(3)], os.get_terminal_size(1), flush=True)\n"
        "while not select.select([0], [], [], 0.05)[0]: pass\n"
        "print('heard', input(), flush=True)\n"
        "sys.exit(9)"
    )
    terminal = Terminal(python(code), bare.env())
    terminal.read_until(b"[True, True, True]")
    terminal.size(50, 133)
    terminal.read_until(b"now 133 x 50")
    os.write(terminal.fd, b"words\n")
    assert terminal.end() == 9
    assert b"heard words\r\n" in terminal.seen
    assert b"\r\r\n" not in terminal.seen


@pytest.mark.parametrize("key", [b"\x03", b"\x1c"], ids=["Ctrl-C", "Ctrl-backslash"])
def test_a_key_reaches_the_engine_once(bare: Machine, key: bytes) -> None:
    code = (
        "import signal, sys, time\n"
        "got = []\n"
        "for n in (signal.SIGINT, signal.SIGQUIT): signal.signal(n, lambda n, _: got.append(n))\n"
        "print('begun', flush=True)\n"
        "while not got: time.sleep(0.02)\n"
        "time.sleep(0.5)\n"
        "print('got', len(got), flush=True)\n"
        "sys.exit(3)"
    )
    terminal = Terminal(python(code), bare.env())
    terminal.read_until(b"begun")
    os.write(terminal.fd, key)
    assert terminal.end() == 3
    assert b"got 1\r\n" in terminal.seen


def test_a_process_may_signal_a_foreground_start(bare: Machine) -> None:
    """What the terminal sends is the engine's already, what `kill` sends is not."""
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGINT, lambda *_: sys.exit(33))\n"
        "print('begun', flush=True)\n"
        "while True: time.sleep(0.05)"
    )
    terminal = Terminal(python(code), bare.env())
    terminal.read_until(b"begun")
    os.kill(terminal.pid, signal.SIGINT)
    assert terminal.end() == 33
