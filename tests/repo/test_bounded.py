"""dev/bounded.py: an honest status, and nothing that was started is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.repo import tree

_BOUNDED = [sys.executable, str(tree.ROOT / "dev" / "bounded.py")]


def _run(seconds: float, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*_BOUNDED, str(seconds), *command], capture_output=True, text=True, timeout=50, check=False)


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize(("command", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_status_is_the_commands(command: str, status: int) -> None:
    assert _run(30, "sh", "-c", command).returncode == status


def test_limit_ends_it() -> None:
    before = time.monotonic()
    done = _run(0.5, "sleep", "60")
    assert done.returncode == 124
    assert time.monotonic() - before < 20


@pytest.mark.parametrize("stubborn", ["", 'trap "" TERM; '], ids=["obeys SIGTERM", "ignores SIGTERM"])
@pytest.mark.slow
def test_a_daemon_is_not_left_behind(tmp_path: Path, stubborn: str) -> None:
    pid_file = tmp_path / "pid"
    script = f"setsid sh -c '{stubborn}echo $$ > {pid_file}; while :; do sleep 1; done' >/dev/null 2>&1 & "
    script += f"until [ -s {pid_file} ]; do sleep 0.05; done"
    assert _run(30, "sh", "-c", script).returncode == 0
    assert _gone(int(pid_file.read_text()))


def test_an_orphan_that_ends_is_reaped_while_the_command_runs(tmp_path: Path) -> None:
    """As a zombie it would keep its PID namespace from ending, and so whoever waits for that."""
    pid_file = tmp_path / "pid"
    script = f"(sh -c 'echo $$ > {pid_file}' &); for _ in $(seq 200); do sleep 0.05; "
    script += f"[ -s {pid_file} ] && ! [ -e /proc/$(cat {pid_file}) ] && exit 3; done"
    assert _run(40, "sh", "-c", script).returncode == 3


def test_a_signal_ends_it_too(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    command = ["sh", "-c", f"echo $$ > {pid_file}; exec sleep 60"]
    with subprocess.Popen([*_BOUNDED, "60", *command]) as process:
        deadline = time.monotonic() + 20
        while not (pid_file.exists() and pid_file.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGTERM
    assert _gone(int(pid_file.read_text()))
