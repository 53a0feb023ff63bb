"""What becomes of the artifacts: published after a miss, restored on another machine, unchanged after a hit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from glowplug.observe.ready import QUIET_SECONDS
from tests.supervise.machine import GLOWPLUG, PROGRAM, Machine


def manifests(machine: Machine) -> list[Path]:
    return sorted((machine.base / "store" / "v1").glob("*/keys/**/*.json"))


def store_bytes(machine: Machine) -> dict[str, bytes]:
    """All objects; without the locks of a store in a directory and the daily mark of use."""
    top = machine.base / "store"
    found = {str(path.relative_to(top)): path for path in sorted(top.rglob("*")) if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if "/uses/" not in name and "locks" not in name}


def test_a_miss_is_published_and_another_machine_hits(machine: Machine) -> None:
    cold = machine.run()
    assert (cold.status, cold.verdict, cold.publish) == (0, "miss", ("published", "")), cold
    assert cold.restore == ("none", "no_keys")
    made = machine.artifacts()
    machine.move()
    warm = machine.run()
    assert "hit g1" in warm.out
    assert (warm.restore, warm.verdict, warm.publish) == (("restored", ""), "hit", ("unchanged", "")), warm
    assert machine.artifacts() == made


@pytest.mark.slow
def test_five_hits_publish_nothing(machine: Machine) -> None:
    machine.run()
    before = store_bytes(machine)
    for number in range(5):
        done = machine.run()
        assert (done.verdict, done.publish) == ("hit", ("unchanged", "")), number
        assert done.restore == ("skipped", "already_present")
    assert store_bytes(machine) == before


def test_without_its_support_an_entry_is_partial(machine: Machine) -> None:
    machine.run()
    shutil.rmtree(machine.root / "inductor" / "ab")
    done = machine.run(options=["--no-restore"])
    assert "hit g1" in done.out
    assert done.verdict == "partial"
    assert "without its support" in done.document["verdict"]["reason"]


@pytest.mark.slow
def test_a_program_that_compiles_more_is_partial_and_publishes_that_too(machine: Machine) -> None:
    machine.run()
    done = machine.run("--graphs", "g1,g2")
    assert (done.verdict, done.publish[0]) == ("partial", "published")
    machine.move()
    both = machine.run("--graphs", "g1,g2")
    assert (both.out.count("hit"), both.verdict) == (2, "hit")


@pytest.mark.slow
def test_another_workload_misses_and_is_told_by_what(machine: Machine) -> None:
    assert machine.run().publish[0] == "published"
    other = machine.base / "other.py"
    shutil.copy(PROGRAM, other)
    command = machine.command([])
    prefix, program = command[: command.index("--") + 1], command[command.index("--") + 1 :]
    elsewhere = str(machine.base / "another-root")
    for changed, env, argv in (
        ("tp", {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}, command),
        ("model", {}, [*prefix, sys.executable, str(other)]),
        ("cache_root", {}, [elsewhere if word == str(machine.root) else word for word in command]),
        ("env.TORCHINDUCTOR_MAX_AUTOTUNE", {"TORCHINDUCTOR_MAX_AUTOTUNE": "1"}, command),
        ("tp,model", {"WORLD_SIZE": "2"}, [*prefix, sys.executable, str(other)]),
    ):
        shutil.rmtree(machine.root, ignore_errors=True)
        done = machine.run(argv=[*argv[: argv.index("--")], "--no-publish", *argv[argv.index("--") :]], env=env)
        assert "miss g1" in done.out, changed
        assert done.restore[0] == "none"
        kind, _, fields = done.restore[1].partition(":")
        assert kind == "key"
        assert {item.split(".")[0] for item in fields.split(",")} == {item.split(".")[0] for item in changed.split(",")}
    assert program[0] == sys.executable


def test_another_domain_is_not_even_listed(machine: Machine) -> None:
    machine.run()
    machine.move()
    done = machine.run(options=["--domain", "other"])
    assert (done.restore, done.verdict) == (("none", "no_keys"), "miss")
    assert {path.relative_to(machine.base / "store" / "v1").parts[0] for path in manifests(machine)} == {
        "default",
        "other",
    }


@pytest.mark.slow
def test_an_argument_that_compiles_nothing_else_is_no_other_key(machine: Machine) -> None:
    machine.run("--compile-seconds", "0.01")
    machine.move()
    assert machine.run("--compile-seconds", "0.02", env={"SOME_HOST_NAME": "x", "RANK": "0"}).verdict == "hit"


@pytest.mark.slow
def test_run_fingerprint_and_bake_name_one_key(machine: Machine) -> None:
    one = machine.run().document["key_digest"]
    baked = machine.run(options=["--exit-when-ready"]).document["key_digest"]
    options = ["--engine", "torch", "--cache-root", str(machine.root), "-o", "json"]
    shown = subprocess.run(
        [GLOWPLUG, "fingerprint", *options, "--", sys.executable, str(PROGRAM)],
        env=machine.env(),
        capture_output=True,
        text=True,
    )
    assert one == baked
    assert f'"key_digest": "{one}"' in shown.stdout


@pytest.mark.slow
def test_what_is_compiled_after_quiet_belongs_to_the_start_too(machine: Machine) -> None:
    done = machine.run("--later", "g2", "--pause", "7.5", timeout=120)
    assert (done.verdict, done.publish[0]) == ("miss", "published")
    machine.move()
    assert machine.run("--graphs", "g1,g2").verdict == "hit"


@pytest.mark.slow
def test_ready_is_quiet_where_nothing_says_so(machine: Machine) -> None:
    started = machine.start("--stay", "60", "--compile-seconds", "1")
    found = started.wait_for_document(lambda document: document.get("publish") is not None)
    elapsed = time.monotonic() - started.began
    assert found["verdict"]["compile"] == "miss"
    assert found["exit_status"] is None
    assert 0.9 < found["ready_seconds"] < elapsed - QUIET_SECONDS, "the last change, not the quiet after it"
    started.process.terminate()
    assert started.end().publish[0] == "published"


@pytest.mark.slow
def test_published_while_the_engine_is_told_to_end(machine: Machine, free_port: int) -> None:
    url = f"http://127.0.0.1:{free_port}/"
    started = machine.start("--stay", "60", "--port", str(free_port), options=["--ready-url", url])
    started.wait_for("answered")
    time.sleep(1)
    started.process.terminate()
    done = started.end()
    assert (done.status, done.verdict, done.publish[0]) == (143, "miss", "published")


def test_an_unfinished_entry_is_not_published(machine: Machine) -> None:
    done = machine.run("--unfinished")
    assert done.publish[0] == "skipped"
    assert done.publish[1].startswith("incomplete")
    assert not manifests(machine)


@pytest.mark.slow
def test_leftovers_of_an_interrupted_start_are_removed(machine: Machine) -> None:
    machine.run("--unfinished", options=["--no-publish"])
    left = machine.root / "inductor" / "fxgraph" / "g1" / ".77.88.tmp"
    assert machine.run().publish[0] == "skipped", "another engine may be writing it just now"
    os.utime(left, (time.time() - 3600, time.time() - 3600))
    assert machine.run().publish[0] == "published"
    assert not left.exists()


def test_a_secret_goes_nowhere(machine: Machine) -> None:
    secret = "hunter2-and-some-more"
    done = machine.run("--mark", secret, env={"SOME_API_KEY": secret})
    assert done.status == 0
    assert done.publish[0] == "failed"
    assert "SOME_API_KEY" in done.publish[1]
    everything = machine.report.read_bytes() + done.err.encode() + b"".join(store_bytes(machine).values())
    assert secret.encode() not in everything
    assert not manifests(machine)


@pytest.mark.slow
def test_a_secret_of_the_command_line_is_in_no_document(machine: Machine) -> None:
    command = machine.command([])
    at = command.index("--") + 1
    for line in (
        [*command[at:], "--mark", "x", "--graphs", "g1"],
        ["sh", "-c", f"export HF_TOKEN=shell-secret-1; exec {sys.executable} {PROGRAM} --mark shell-secret-1"],
        ["env", "HF_TOKEN=shell-secret-1", *command[at:], "--mark", "shell-secret-1"],
        ["sh", "-c", f"exec {sys.executable} {PROGRAM} --graphs g1 --api-key shell-secret-1"],
    ):
        done = machine.run(argv=[*command[:at], *line])
        assert "shell-secret-1" not in machine.report.read_text()
        assert all("shell-secret-1" not in text for text in done.err.splitlines() if text.startswith("glowplug:"))


@pytest.mark.slow
def test_no_publish_and_no_restore(machine: Machine) -> None:
    assert machine.run(options=["--no-publish"]).publish == ("unchanged", "no_publish")
    assert not manifests(machine)
    machine.run()
    machine.move()
    done = machine.run(options=["--no-restore"])
    assert (done.restore, done.verdict) == (("skipped", "no_restore"), "miss")


@pytest.mark.slow
def test_every_option_is_also_a_variable(machine: Machine) -> None:
    env = {
        "GLOWPLUG_ENGINE": "torch",
        "GLOWPLUG_STORE": machine.store,
        "GLOWPLUG_CACHE_ROOT": str(machine.root),
        "GLOWPLUG_REPORT": str(machine.report),
        "GLOWPLUG_NO_PUBLISH": "1",
    }
    done = machine.run(argv=[GLOWPLUG, "run", "--", sys.executable, str(PROGRAM)], env=env)
    assert (done.verdict, done.publish) == ("miss", ("unchanged", "no_publish"))


@pytest.mark.slow
def test_a_switched_off_store_offers_and_takes_nothing(machine: Machine) -> None:
    machine.run()
    control = machine.base / "store" / "v1" / "control.json"
    control.write_text('{"restore": false, "publish": false}')
    machine.move()
    done = machine.run("--graphs", "g1,g2")
    assert (done.restore, done.publish) == (("skipped", "restore_off"), ("skipped", "publish_off"))


@pytest.mark.slow
def test_compilation_turned_off_is_said(machine: Machine) -> None:
    done = machine.run("--graphs", "", env={"TORCH_COMPILE_DISABLE": "1"})
    assert (done.status, done.verdict) == (0, "disabled")
    assert done.restore == ("skipped", "compile_disabled")
    assert done.publish == ("skipped", "compile_disabled")


@pytest.mark.slow
def test_a_program_that_leaves_nothing_is_unknown(machine: Machine) -> None:
    done = machine.run("--graphs", "")
    assert (done.verdict, done.publish) == ("unknown", ("skipped", "verdict_unknown"))


def test_an_index_that_is_written_without_being_read_is_no_hit(machine: Machine) -> None:
    """The same bytes, opened to be written: a compiler that never looked."""
    machine.run()
    index = machine.root / "inductor" / "fxgraph" / "g1" / "entry"
    blind = f"import pathlib; p = pathlib.Path({str(index)!r}); b = {index.read_bytes()!r}; p.write_bytes(b)"
    command = machine.command([])
    script = machine.base / "blind.py"
    script.write_text(blind)
    done = machine.run(argv=[*command[: command.index("--") + 1], sys.executable, str(script)])
    assert done.verdict == "unknown", done.document["verdict"]
