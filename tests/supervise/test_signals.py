"""Signals reach the engine, each once; pid 1 reaps; what is asked to end ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from glowplug.supervise.run import _JOIN_ENDING_SECONDS
from lab.faults import Hang, Proxy
from tests.clocks import SLACK
from tests.parts import requires
from tests.silence import FORBIDDEN, Silent
from tests.supervise.machine import GLOWPLUG, PATIENCE, Machine, Started

NUMBERS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT]


def caught(machine: Machine) -> list[str]:
    path = machine.base / "signals"
    return path.read_text().split() if path.exists() else []


@pytest.mark.parametrize("to_group", [False, True], ids=["to us", "to our group"])
def test_each_signal_reaches_the_engine_once(bare: Machine, to_group: bool) -> None:
    started = bare.start("--signals", str(bare.base / "signals"), "--stay", "60")
    started.wait_for("ready")
    sent = [signal.SIGUSR1, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR2, signal.SIGTERM]
    for count, number in enumerate(sent, start=1):
        if to_group:
            os.killpg(started.process.pid, number)
        else:
            started.signal(number)
        end = time.monotonic() + PATIENCE
        while len(caught(bare)) < count and time.monotonic() < end:
            time.sleep(0.02)
    assert started.end().status == 0
    assert caught(bare) == [number.name for number in sent]


@pytest.mark.slow
def test_a_pause_is_no_signal(bare: Machine) -> None:
    """`docker pause`, a debugger, a frozen cgroup: what was slept through is nothing that anybody sent."""
    started = bare.start("--signals", str(bare.base / "signals"), "--stay", "600")
    started.wait_for("ready")
    for _ in range(3):
        time.sleep(0.3)  # in the middle of a wait
        started.signal(signal.SIGSTOP)
        time.sleep(1.3)  # longer than any wait of ours
        started.signal(signal.SIGCONT)
    time.sleep(0.3)
    assert started.process.poll() is None, started.output()
    started.signal(signal.SIGTERM)
    assert started.end().status == 0
    assert caught(bare) == ["SIGTERM"]


def test_the_status_after_a_forwarded_signal(bare: Machine) -> None:
    started = bare.start("--stay", "60")
    started.wait_for("ready")
    started.signal(signal.SIGTERM)
    assert started.end().status == 128 + signal.SIGTERM


@pytest.mark.slow
def test_without_a_signalfd_signals_reach_the_engine_too(bare: Machine) -> None:
    changed = bare.base / "changed"
    changed.mkdir()
    (changed / "sitecustomize.py").write_text(
        "import sys\n"
        "if 'glowplug' in sys.argv[0]:\n"
        "    from glowplug.supervise import child\n"
        "    child._signalfd = lambda _: -1\n"
    )
    env = {"PYTHONPATH": f"{changed}:{bare.env()['PYTHONPATH']}"}
    started = bare.start("--signals", str(bare.base / "signals"), "--stay", "600", env=env)
    started.wait_for("ready")
    started.signal(signal.SIGTERM)
    assert started.end().status == 0
    assert caught(bare) == ["SIGTERM"]


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, *(pytest.param(number, marks=pytest.mark.slow) for number in (signal.SIGINT, signal.SIGHUP))],
)
def test_asked_to_end_during_the_restore_it_ends_and_starts_nothing(
    silent: Machine, silence: Silent, number: signal.Signals
) -> None:
    """The engine would have got it before it could have listened, and died of it. The restore would take ten minutes more."""
    started = silent.start("--signals", str(silent.base / "signals"), options=["--restore-timeout", "600s"])
    assert silence.asked.wait(PATIENCE)
    started.signal(number)
    done = started.end()
    assert done.status == 128 + number
    assert "begun" not in done.out
    assert done.document["exit_status"] == 128 + number
    assert number.name in done.document["verdict"]["reason"]


@pytest.mark.slow
def test_another_signal_during_the_restore_reaches_the_engine(silent: Machine, silence: Silent) -> None:
    """SIGUSR1 ends a program that does not listen, and it cannot yet; SIGWINCH would be lost on it."""
    started = silent.start("--signals", str(silent.base / "signals"), options=["--restore-timeout", "600s"])
    assert silence.asked.wait(PATIENCE)
    started.signal(signal.SIGUSR1)
    silence.say(FORBIDDEN)
    assert started.end().status == 128 + signal.SIGUSR1


@pytest.mark.slow
def test_what_nohup_ignores_ends_nothing(bare: Machine) -> None:
    started = bare.start(argv=["bash", "-c", 'trap "" HUP; exec "$@"', "-", *bare.command(["--stay", "1.5"])])
    started.wait_for("ready")
    started.signal(signal.SIGHUP)
    assert started.end().status == 0


@pytest.mark.slow
def test_a_stubborn_engine_is_not_ended_by_us(bare: Machine) -> None:
    started = bare.start("--stubborn", "--stay", "2", "--exit", "7")
    started.wait_for("ready")
    started.signal(signal.SIGTERM)
    assert started.end().status == 7


@requires("root")
@pytest.mark.parametrize("signalled", [pytest.param(False, marks=pytest.mark.slow), True])
def test_as_pid_1_it_reaps_orphans_and_passes_signals(bare: Machine, signalled: bool) -> None:
    code = (
        "import os, subprocess, sys, time, signal\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(43))\n"
        "assert os.getppid() == 1\n"
        "orphans = [int(subprocess.run(['sh', '-c', 'sleep 0.2 >&2 & echo $!'], stdout=-1).stdout) for _ in range(5)]\n"
        "end = time.monotonic() + 40\n"
        "while (left := [one for one in orphans if os.path.exists(f'/proc/{one}')]) and time.monotonic() < end:\n"
        "    time.sleep(0.05)\n"
        "print('left', left, flush=True)\n"
        f"for _ in range({1200 if signalled else 0}): time.sleep(0.05)\n"
        "sys.exit(42)"
    )
    inside = [
        "unshare",
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child",
        GLOWPLUG,
        "run",
        "--",
        sys.executable,
        "-c",
        code,
    ]
    started = bare.start(argv=inside)
    started.wait_for("left []")
    if signalled:
        own = Path(f"/proc/{started.process.pid}/task/{started.process.pid}/children").read_text().split()
        os.kill(int(own[0]), signal.SIGTERM)
    assert started.end().status == (43 if signalled else 42)


@requires("s3")
@pytest.mark.slow
@pytest.mark.parametrize("moment", [pytest.param("ready", marks=pytest.mark.soak), "published"])
def test_a_store_that_hangs_delays_the_end_by_a_bounded_time(
    remote: Machine, proxy: Proxy, moment: str, free_port: int
) -> None:
    """A pod has 30 seconds from SIGTERM to SIGKILL, and some of them are the engine's own."""
    started = remote.start(
        "--stay", "300", "--port", str(free_port), options=["--ready-url", f"http://127.0.0.1:{free_port}/"]
    )
    started.wait_for("ready")
    met = proxy.add(Hang(), times=None)
    # Either quiet is over and the publish hangs, or it has been seen to be ready and quiet is waited for.
    if moment == "published":
        assert met.wait(PATIENCE)
    else:
        started.wait_for("answered")
        time.sleep(1)
    before = time.monotonic()
    started.signal(signal.SIGTERM)
    done = started.end(60)
    assert time.monotonic() - before < _JOIN_ENDING_SECONDS + SLACK
    assert done.status == 128 + signal.SIGTERM
    assert done.publish[0] == "failed", done.document
    assert done.publish[1]
    assert done.verdict in ("miss", "unknown")


def ask_until_it_ends(started: Started) -> None:
    """SIGTERM, and again: two at once would be one."""
    for _ in range(60):
        started.signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            started.process.wait(0.5)
            return


@requires("s3")
@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "asked"), [(["--exit", "0"], True), (["--later", "g2", "--exit", "3"], False)])
def test_after_the_engines_end_a_hanging_publish_is_left(
    remote: Machine, proxy: Proxy, arguments: list[str], asked: bool
) -> None:
    """Who failed is to be restarted soon; who ended well may take longer, but not when somebody asks."""
    met = proxy.add(Hang(), method="PUT", times=None)
    started = remote.start(*arguments, "--stay", "6" if not asked else "0")
    started.wait_for("compile cache miss")
    assert met.wait(PATIENCE)
    before = time.monotonic()
    if asked:
        ask_until_it_ends(started)
        assert time.monotonic() - before < SLACK < _JOIN_ENDING_SECONDS
    done = started.end(60)
    assert time.monotonic() - before < 6 + _JOIN_ENDING_SECONDS + SLACK
    assert done.status == (0 if asked else 3)
    assert done.publish[0] == "failed"


@pytest.mark.slow
def test_two_starts_from_one_shell_are_two(bare: Machine) -> None:
    """Signals to one of two starts in one session do not touch the other."""
    script = f"""
    {" ".join(bare.command(["--stay", "60"]))} & one=$!
    {" ".join(bare.command(["--stay", "3"], ["--report", str(bare.base / "other.json")]))} & other=$!
    sleep 1.5; kill $one; wait $one; echo one $?; wait $other; echo other $?
    """
    done = subprocess.run(["sh", "-c", script], env=bare.env(), capture_output=True, timeout=60)
    assert b"one 143" in done.stdout
    assert b"other 0" in done.stdout
