"""Direct mode: a store reached from the pod itself. What became of a start, and what its watcher leaves behind."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.clocks import SLACK
from tests.launch.pod import STAY, Pod
from tests.silence import Silent
from tests.supervise.machine import GLOWPLUG, PATIENCE, PROGRAM, Machine


def test_a_miss_is_published_and_the_next_pod_hits(pod: Pod, free_port: int) -> None:
    cold = pod.serve(free_port)
    assert (cold.verdict, cold.publish) == ("miss", ("published", "")), cold
    assert cold.document["source"] == "exec"
    made = pod.artifacts()
    pod.move()
    warm = pod.serve(free_port)
    assert (warm.restore, warm.verdict, warm.publish) == (("restored", ""), "hit", ("unchanged", "")), warm
    assert pod.artifacts() == made
    assert [line for line in warm.out.splitlines() if line.startswith("glowplug: hit: ready after ")], warm.out


def test_what_run_publishes_is_what_exec_restores(pod: Pod, free_port: int, tmp_path: Path) -> None:
    """One key, whoever sees the start."""
    machine = Machine(tmp_path, store=pod.store)
    arguments = ["--port", str(free_port), "--stay", "0"]
    published = machine.run(*arguments)
    assert published.publish == ("published", "")
    machine.move()
    warm = pod.run(*arguments)
    assert warm.restore == ("restored", "")
    assert warm.document["key_digest"] == published.document["key_digest"]
    assert warm.document["fingerprint"] == published.document["fingerprint"]


def test_a_serving_pod_publishes_nothing_where_it_is_told_so(pod: Pod, free_port: int) -> None:
    done = pod.serve(free_port, options=["--no-publish"])
    assert (done.verdict, done.publish) == ("miss", ("unchanged", "no_publish"))
    assert not list((pod.base / "store").rglob("*.json"))


def test_quiet_is_ready_where_no_address_says_so(pod: Pod) -> None:
    started = pod.start("--stay", STAY)
    document = started.wait_for_document(lambda found: found["publish"] is not None)
    assert (document["verdict"]["compile"], document["publish"]["outcome"]) == ("miss", "published")
    started.signal(signal.SIGTERM)
    started.end()


def test_a_container_that_is_started_again_keeps_its_tree(pod: Pod, free_port: int) -> None:
    pod.serve(free_port)
    pod.move()
    pod.serve(free_port)
    (pod.root / ".glowplug" / "work-0123456789abcdef").mkdir()
    left = pod.root / "inductor" / "fxgraph" / "g1" / ".77.88.tmp"
    left.write_bytes(b"half")
    os.utime(left, (time.time() - 3600, time.time() - 3600))
    again = pod.serve(free_port)
    assert (again.restore, again.verdict) == (("skipped", "already_present"), "hit"), again
    assert not left.exists()
    assert not list((pod.root / ".glowplug").glob("work-*"))


def test_an_engine_that_ends_before_it_is_ready_leaves_no_watcher(pod: Pod) -> None:
    done = pod.run("--fail")
    pod.wait_until_alone()
    document = json.loads(pod.report.read_text())
    assert done.status == 9
    assert document["verdict"] == {
        "compile": "unknown",
        "compile_seconds": None,
        "reason": "the engine ended before it was ready",
        "evidence": [],
    }
    assert document["publish"]["reason"] == "not_ready"
    assert document["exit_status"] is None, "only its parent knows"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda one: one.name)
def test_nothing_outlives_the_engine(pod: Pod, number: signal.Signals) -> None:
    started = pod.start("--stay", STAY, options=["--ready-url", "http://127.0.0.1:1/"])
    started.wait_for("ready")
    assert len(pod.others()) == 2
    started.signal(number)
    started.process.wait(PATIENCE)
    pod.wait_until_alone()


def test_an_engine_without_a_watcher_goes_on(pod: Pod) -> None:
    """Whatever ends the watcher (it is the first that goes when memory is short), the engine notices nothing."""
    started = pod.start("--stay", "3", "--exit", "5", options=["--ready-url", "http://127.0.0.1:1/"])
    started.wait_for("ready")
    (watcher,) = (pid for pid in pod.others() if pid != started.process.pid)
    assert Path(f"/proc/{watcher}/oom_score_adj").read_text().strip() == "1000"
    os.kill(watcher, signal.SIGKILL)
    assert started.end().status == 5


def test_a_store_that_never_answers_costs_its_deadline_and_no_more(silent: Pod, silence: Silent) -> None:
    before = time.monotonic()
    done = silent.run("--exit", "4", options=["--restore-timeout", "2s"])
    assert time.monotonic() - before < 2 + SLACK
    assert silence.asked.is_set()
    assert (done.status, done.out.splitlines()[0]) == (4, "begun")
    assert "deadline" in done.err


@pytest.mark.parametrize(
    ("where", "code"),
    [
        ("os.fork", "def fork(): raise OSError(11, 'no more processes')\nos.fork = fork"),
        ("os.pipe", "def pipe(): raise OSError(24, 'too many open files')\nos.pipe = pipe"),
        ("os.setsid", "def setsid(): raise RuntimeError('no')\nos.setsid = setsid"),
        ("os.pidfd_open", "if hasattr(os, 'pidfd_open'): del os.pidfd_open"),
        ("thread", "import threading\ndef start(self): raise RuntimeError('no thread')\nthreading.Thread.start = start"),
        ("pickle", "import pickle\ndef dumps(*_): raise pickle.PicklingError('no')\npickle.dumps = dumps"),
        ("recognise", "import glowplug.engines.registry as it\ndef wrong(*_, **__): raise MemoryError\nit.recognise = wrong"),
        ("scan", "import glowplug.tree.index as it\ndef scan(*_, **__): raise RecursionError\nit.scan = scan"),
        ("exit", "import glowplug.launch.prepare as it\ndef prepare(*_, **__): raise SystemExit(3)\nit.prepare = prepare"),
        ("import", "import sys\nsys.modules['glowplug.launch.starting'] = None"),
        ("obstore", "import sys\nsys.modules['obstore'] = None"),
        ("killed", "import signal\nimport glowplug.engines.command as it\nit.see_through = lambda *_: os.kill(os.getpid(), 9)"),
        ("segfault", "import ctypes\nimport glowplug.engines.command as it\nit.see_through = lambda *_: ctypes.string_at(0)"),
        ("stopped", "import glowplug.engines.command as it\nit.see_through = lambda *_: os.kill(os.getpid(), 19)"),
        ("hang", "import time\nimport glowplug.engines.command as it\ndef long(*_): time.sleep(3600)\nit.see_through = long"),
    ],
    ids=lambda item: item if len(item) < 20 else "",
)  # fmt: skip
def test_whatever_breaks_in_the_launcher_the_engine_starts(pod: Pod, where: str, code: str) -> None:
    broken = pod.base / "broken"
    broken.mkdir()
    (broken / "sitecustomize.py").write_text(f"import os, sys\nif 'glowplug' in sys.argv[0]:\n    exec({code!r})\n")
    env = {"PYTHONPATH": f"{broken}:{pod.env()['PYTHONPATH']}"}
    done = pod.run("--exit", "6", options=["--restore-timeout", "2s"], env=env)
    assert done.status == 6, (where, done)
    assert done.out.splitlines()[0] == "begun"
    assert "Traceback" not in done.err
    pod.wait_until_alone()


@pytest.mark.parametrize(
    ("end", "reason"), [("os.kill(os.getpid(), 9)", "internal"), ("os.kill(os.getpid(), 19)", "deadline")]
)
def test_a_preparation_that_is_ended_or_stopped_is_told(pod: Pod, end: str, reason: str) -> None:
    """It is a process of its own: killed where memory is short, say."""
    broken = pod.base / "broken"
    broken.mkdir()
    code = f"import glowplug.engines.command as it\nit.see_through = lambda *_: {end}"
    (broken / "sitecustomize.py").write_text(f"import os, sys\nif 'glowplug' in sys.argv[0]:\n    exec({code!r})\n")
    env = {"PYTHONPATH": f"{broken}:{pod.env()['PYTHONPATH']}"}
    started = pod.start("--stay", STAY, options=["--restore-timeout", "1s"], env=env)
    document = started.wait_for_document(lambda found: found["publish"] is not None)
    assert (document["restore"]["outcome"], document["restore"]["reason"]) == ("failed", reason)
    assert document["verdict"]["reason"] == document["publish"]["reason"] == reason
    assert "preparing the start " in started.output()
    assert len(pod.others()) <= 2, "the engine, and the watcher while it ends"
    started.signal(signal.SIGTERM)
    started.end()


def test_with_standard_streams_closed_a_start_is_watched_too(pod: Pod, free_port: int) -> None:
    """Pipes get the lowest numbers that are free."""
    program = [sys.executable, str(PROGRAM), "--port", str(free_port), "--stay", STAY]
    words = pod.launched(program, ["--ready-url", f"http://127.0.0.1:{free_port}/"])
    started = pod.start(argv=["bash", "-c", 'exec <&- >&-; exec "$@"', "-", *words])
    document = started.wait_for_document(lambda found: found["publish"] is not None)
    assert (document["verdict"]["compile"], document["publish"]["outcome"]) == ("miss", "published")
    started.signal(signal.SIGTERM)
    started.end()


def test_a_root_that_cannot_be_written_is_replaced_until_the_engine_ends(pod: Pod, free_port: int) -> None:
    pod.root.write_text("in the way")
    started = pod.start(
        "--port", str(free_port), "--stay", STAY, options=["--ready-url", f"http://127.0.0.1:{free_port}/"]
    )
    document = started.wait_for_document(lambda found: found["publish"] is not None)
    assert document["restore"]["reason"] == "cache_root_unwritable"
    assert document["publish"] == {
        "outcome": "skipped", "reason": "cache_root_unwritable", "parts": [], "bytes": 0, "seconds": 0.0,
    }  # fmt: skip
    time.sleep(1)
    (private,) = (pod.base / "tmp").iterdir()
    assert list((private / "inductor" / "fxgraph").iterdir()), "it is in use"
    started.signal(signal.SIGTERM)
    started.end()
    pod.wait_until_alone()
    assert not list((pod.base / "tmp").iterdir())


def test_what_is_no_engine_is_left_alone(bare: Pod) -> None:
    words = [GLOWPLUG, "run", "--exec", "--report", str(bare.report), "--", "sh", "-c", "echo other; sleep 2"]
    started = bare.start(argv=words)
    started.wait_for("other")
    document = started.wait_for_document(lambda found: found["publish"] is not None)
    assert document["verdict"]["reason"] == document["publish"]["reason"] == document["restore"]["reason"]
    assert started.end().status == 0


def test_secrets_are_in_no_document(pod: Pod, free_port: int) -> None:
    secret = "hunter2-and-some-more"
    started = pod.start(
        "--port", str(free_port), "--stay", STAY, "--mark", secret,
        options=["--ready-url", f"http://127.0.0.1:{free_port}/"], env={"SOME_API_KEY": secret},
    )  # fmt: skip
    document = started.wait_for_document(lambda found: found["publish"] is not None)
    assert document["publish"]["outcome"] == "failed"
    assert secret not in pod.report.read_text()
    started.signal(signal.SIGTERM)
    assert secret not in "".join(line for line in started.end().out.splitlines() if line.startswith("glowplug:"))
