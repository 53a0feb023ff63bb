"""The engine is started as if glowplug were not there: process, signals, streams, status, environment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.launch.pod import STAY, Pod, engines_own
from tests.silence import Silent
from tests.supervise.machine import AS_AT_LOGIN, PATIENCE, PROGRAM

PROBE = Path(__file__).with_name("probe.py")


def outcome(pod: Pod, words: Sequence[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(words, env=pod.env(), capture_output=True, timeout=PATIENCE, **options)


@pytest.mark.parametrize(
    "prefix",
    [
        (),
        ("env", "LC_ALL=C"),
        ("env", "-u", "LANG", "-u", "LC_ALL", "-u", "LC_CTYPE"),
        ("env", "--ignore-signal=HUP,USR1"),
        ("env", "--block-signal=USR2"),
        ("nice", "-n", "3"),
        ("setsid", "-w"),
        ("bash", "-c", 'umask 027; cd /; exec "$@"', "-"),
        ("bash", "-c", 'exec 7</dev/null; exec "$@"', "-"),
        ("bash", "-c", 'exec <&-; exec "$@"', "-"),
    ],
    ids=" ".join,
)
def test_what_a_program_sees_is_the_same(bare: Pod, prefix: Sequence[str]) -> None:
    def seen(words: Sequence[str]) -> dict[str, Any]:
        done = outcome(bare, [*AS_AT_LOGIN, *prefix, *words], input=b"some input")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    words = [sys.executable, str(PROBE), "a", "b c", ""]
    without, with_it = seen(words), seen(bare.launched(words))
    added = {name: with_it["environ"].pop(name) for name in list(with_it["environ"]) if name not in without["environ"]}
    assert with_it == without
    assert all(value.startswith(str(bare.root)) or value == "0" for value in added.values()), added


@pytest.mark.parametrize(
    "words",
    [
        ["sh", "-c", "exit 0"],
        ["sh", "-c", "exit 7"],
        ["sh", "-c", "kill -9 $$"],
        ["sh", "-c", "kill -SEGV $$"],
        ["sh", "-c", "kill -PIPE $$; echo survived"],
        ["sh", "-c", "echo out; echo err >&2; echo out; exit 3"],
        ["sh", "-c", "printf 'no end of line'"],
    ],
    ids=lambda words: words[-1],
)
def test_status_and_output_are_the_same(bare: Pod, words: Sequence[str]) -> None:
    without, with_it = outcome(bare, words), outcome(bare, bare.launched(words))
    assert (with_it.returncode, with_it.stdout) == (without.returncode, without.stdout)
    assert engines_own(with_it.stderr.decode()) == without.stderr.decode()


@pytest.mark.parametrize(
    ("word", "status"), [("no-such-command", 127), ("/etc/passwd", 126), ("/no/such/command", 127), ("/etc", 126)]
)
def test_what_cannot_be_executed_has_the_status_of_a_shell(bare: Pod, word: str, status: int) -> None:
    shell = outcome(bare, ["sh", "-c", 'exec "$@"', "-", word])
    done = outcome(bare, bare.launched([word]))
    assert done.returncode == status == shell.returncode
    assert word in done.stderr.decode()


def test_stdout_and_stderr_keep_their_order(bare: Pod) -> None:
    script = "for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo err $i >&2; done"
    words = ["sh", "-c", script]
    both = [
        subprocess.run(line, env=bare.env(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE).stdout
        for line in (words, bare.launched(words))
    ]
    assert engines_own(both[1].decode()) == both[0].decode()


def test_it_is_the_same_process(bare: Pod) -> None:
    started = bare.start(argv=bare.launched(["sh", "-c", "echo I am $$"]))
    started.wait_for(f"I am {started.process.pid}")
    started.end()


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1], ids=lambda one: one.name
)
def test_a_signal_before_the_engine_ends_the_start_as_it_ends_an_engine_that_does_not_listen_yet(
    silent: Pod, silence: Silent, number: signal.Signals
) -> None:
    started = silent.start("--stay", STAY, options=["--restore-timeout", "600s"])
    assert silence.asked.wait(PATIENCE)
    started.signal(number)
    assert started.process.wait(PATIENCE) == -number
    assert "begun" not in started.output()
    silent.wait_until_alone()


def test_a_signal_to_a_running_engine_is_its_own(bare: Pod) -> None:
    path = bare.base / "signals"
    started = bare.start("--signals", str(path), "--stay", STAY)
    started.wait_for("ready")
    for count, number in enumerate([signal.SIGUSR1, signal.SIGHUP, signal.SIGTERM], start=1):
        os.killpg(started.process.pid, number)
        end = time.monotonic() + PATIENCE
        while (not path.exists() or len(path.read_text().split()) < count) and time.monotonic() < end:
            time.sleep(0.02)
    assert started.end().status == 0
    assert path.read_text().split() == ["SIGUSR1", "SIGHUP", "SIGTERM"]


def test_a_reader_of_stdout_sees_its_end_when_the_engine_closes_it(bare: Pod) -> None:
    """The watcher holds neither the engine's input nor its output open."""
    words = bare.launched(["sh", "-c", "echo last; exec sleep 60 >&-"], ["--ready-url", "http://127.0.0.1:1/"])
    with subprocess.Popen(words, env=bare.env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read() == b"last\n"
        (watcher,) = (pid for pid in bare.others() if pid != process.pid)
        given = Path(f"/proc/{process.pid}/fd/0").readlink()
        assert given not in [item.readlink() for item in Path(f"/proc/{watcher}/fd").iterdir()]
        process.kill()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--no-such-option"], "no such option: --no-such-option"),
        (["--cache-root", "relative"], "absolute path"),
        (["--restore-timeout", "soon"], "not a duration"),
        (["--ready-url"], "--ready-url needs a value"),
        (["extra"], "unexpected 'extra'"),
        (["--engine", "no-such-engine"], "no engine 'no-such-engine'"),
        (["--store", "no-such-scheme://x"], "as it is"),
        (["--domain", ""], ""),
    ],
    ids=lambda item: " ".join(item) if isinstance(item, list) else "",
)
def test_wrong_words_cost_the_cache_and_never_the_start(pod: Pod, options: list[str], says: str) -> None:
    done = pod.run(argv=pod.launched(["sh", "-c", "echo started; exit 3"], options))
    assert (done.status, done.out) == (3, "started\n"), done
    assert says in done.err
    assert all(line.startswith("glowplug: ") for line in done.err.splitlines()), done.err


@pytest.mark.parametrize(
    ("name", "value"),
    [("GLOWPLUG_READY_TIMEOUT", "never"), ("GLOWPLUG_NO_PUBLISH", "perhaps"), ("GLOWPLUG_CACHE_ROOT", "here")],
)
def test_wrong_variables_cost_the_cache_and_never_the_start(bare: Pod, name: str, value: str) -> None:
    words = [*bare.launcher, "run", "--exec", "--", "sh", "-c", "echo started"]
    done = bare.run(argv=words, env={name: value})
    assert (done.status, done.out) == (0, "started\n")
    assert name in done.err


def test_without_a_command_there_is_nothing_to_become(bare: Pod) -> None:
    for words in (["--exec", "--"], ["--exec"]):
        done = bare.run(argv=[*bare.launcher, "run", *words])
        assert done.status == 125
        assert "no command" in done.err


def test_switched_off_nothing_is_imported(bare: Pod) -> None:
    code = (
        "import sys, os\n"
        "before = set(sys.modules)\n"
        "def at(event, arguments):\n"
        "    if event == 'os.exec':\n"
        "        print(sorted(name for name in set(sys.modules) - before if 'glowplug' in name), flush=True)\n"
        "sys.addaudithook(at)\n"
        "from glowplug.launch.main import main\n"
        "main(['run', '--exec', '--no-such', '--', 'sh', '-c', 'echo started'], {**os.environ, 'GLOWPLUG_DISABLE': '1'})\n"
    )
    source = str(PROGRAM.parents[2] / "src")
    done = bare.run(argv=[sys.executable, "-c", code], env={"PYTHONPATH": source})
    names, *_, started = done.out.splitlines()  # once for each directory of PATH
    assert names == "['glowplug', 'glowplug.launch', 'glowplug.launch.execute', 'glowplug.launch.main']"
    assert started == "started"
    assert not done.err
