"""An entry that kills the engine is left out on this machine, on evidence: it failed with it, and went well without."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.parts import requires
from tests.supervise.machine import PATIENCE, Done, Machine

POISON = "poison"
BEAR_NOT = ("--fail-on", POISON)
"""What makes the program, as this machine's driver or processor would, fail on artifacts with this mark."""


def rows(machine: Machine) -> dict[str, str]:
    path = machine.base / "state" / "glowplug" / "quarantine.json"
    if not path.exists():
        return {}
    return {digest: row["standing"] for digest, row in json.loads(path.read_text())["parts"].items()}


@pytest.fixture
def poisoned(machine: Machine) -> Machine:
    """A machine whose store holds an entry that the program cannot bear there."""
    assert machine.run("--mark", POISON).publish[0] == "published"
    machine.move()
    return machine


def failed(machine: Machine, *arguments: str) -> Done:
    done = machine.run(*BEAR_NOT, *arguments)
    assert (done.status, done.restore[0]) == (9, "restored"), done
    assert done.verdict == "unknown"
    assert done.publish == ("skipped", "not_ready")
    return done


def test_it_is_left_out_from_then_on_and_offered_again_when_replaced(poisoned: Machine) -> None:
    failed(poisoned)
    assert set(rows(poisoned).values()) == {"suspect"}
    cold = poisoned.run(*BEAR_NOT)
    assert (cold.status, cold.restore, cold.verdict) == (0, ("none", "quarantined"), "miss"), cold
    assert set(rows(poisoned).values()) == {"quarantined"}
    for _ in range(2):
        assert poisoned.run(*BEAR_NOT).restore == ("none", "quarantined")
    for manifest in (poisoned.base / "store").glob("v1/default/keys/**/*.json"):
        manifest.unlink()
    assert poisoned.run(*BEAR_NOT).publish[0] == "published", "what was made without it"
    shutil.rmtree(poisoned.root)
    again = poisoned.run(*BEAR_NOT)
    assert (again.status, again.restore, again.verdict) == (0, ("restored", ""), "hit")


@pytest.mark.slow
def test_a_start_that_fails_without_it_too_clears_it(poisoned: Machine) -> None:
    failed(poisoned)
    assert poisoned.run("--fail").restore == ("none", "quarantined")
    assert rows(poisoned) == {}
    shutil.rmtree(poisoned.root)
    assert poisoned.run().restore[0] == "restored"


@pytest.mark.slow
def test_a_container_that_restarts_in_its_pod_goes_without_it(poisoned: Machine) -> None:
    """The tree stays, and with it what was restored: it is taken out again."""
    failed(poisoned)
    assert poisoned.run(*BEAR_NOT).status == 0
    assert all(POISON.encode() not in data for data in poisoned.artifacts().values())


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGHUP])
def test_an_engine_that_was_ended_from_outside_is_no_evidence(machine: Machine, number: signal.Signals) -> None:
    """A person, kubelet, or the kernel for want of memory."""
    machine.run()
    machine.move()
    done = machine.run("--die-by", str(int(number)))
    assert (done.status, done.restore[0], rows(machine)) == (128 + number, "restored", {})


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGILL, signal.SIGABRT])
def test_an_engine_that_crashed_is(machine: Machine, number: signal.Signals) -> None:
    machine.run()
    machine.move()
    assert machine.run("--die-by", str(int(number))).status == 128 + number
    assert set(rows(machine).values()) == {"suspect"}


def test_a_start_that_we_were_told_to_end_is_none(poisoned: Machine) -> None:
    started = poisoned.start(
        "--compile-seconds", "30", "--graphs", "g1,g2", "--signals", str(poisoned.base / "signals")
    )
    started.wait_for("hit g1")
    started.signal(signal.SIGTERM)
    done = started.end()
    assert done.document["restore"]["outcome"] == "restored"
    assert rows(poisoned) == {}


def test_a_command_that_ends_well_before_it_is_ready_is_none(poisoned: Machine) -> None:
    """`vllm serve --help`, say."""
    done = poisoned.run(options=["--ready-url", "http://127.0.0.1:1/"])
    assert (done.status, done.verdict, rows(poisoned)) == (0, "unknown", {})


@pytest.mark.slow
def test_what_has_carried_a_start_is_not_suspected(machine: Machine) -> None:
    machine.run()
    machine.move()
    assert machine.run().verdict == "hit"
    assert machine.run("--fail").status == 9
    assert rows(machine) == {}


@pytest.mark.slow
def test_a_suspect_that_was_in_the_tree_all_the_same_proves_nothing(poisoned: Machine) -> None:
    """Without the store nothing is taken out, so a start that goes well then speaks for the suspect."""
    failed(poisoned)
    done = poisoned.run(options=["--no-restore"])
    assert (done.status, "hit g1" in done.out) == (0, True)
    assert rows(poisoned) == {}


@pytest.mark.slow
@pytest.mark.parametrize("state", ["junk", "a newer one", "a directory", "a link", "empty"])
def test_a_damaged_state_is_no_evidence(poisoned: Machine, state: str) -> None:
    path = poisoned.base / "state" / "glowplug" / "quarantine.json"
    path.parent.mkdir(parents=True)
    if state == "a directory":
        path.mkdir()
    elif state == "a link":
        path.symlink_to("/nonexistent/else")
    else:
        path.write_bytes({"junk": b"\xff{", "a newer one": b'{"schema": "glowplug.quarantine/9"}', "empty": b""}[state])
    failed(poisoned)


@pytest.mark.slow
@requires("root")
@pytest.mark.parametrize("kind", ["read-only", "a file"])
def test_a_state_that_cannot_be_kept_harms_nothing(poisoned: Machine, kind: str) -> None:
    state = poisoned.base / "state"
    if kind == "a file":
        state.rmdir()
        state.write_text("")
        prefix: list[str] = []
    else:
        prefix = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o ro none {state} && exec "$@"', "-"]
    assert poisoned.run(*BEAR_NOT, prefix=prefix).status == 9
    assert poisoned.run(prefix=prefix).verdict == "hit"


@pytest.mark.slow
def test_starts_at_once_agree_on_one_state(poisoned: Machine) -> None:
    """Machines with one state directory and roots of their own, all failing together."""
    reports = [poisoned.base / f"{number}.json" for number in range(4)]
    processes = [
        subprocess.Popen(
            poisoned.command([*BEAR_NOT], ["--cache-root", str(poisoned.root), "--report", str(report)]),
            env=poisoned.env(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for report in reports
    ]
    statuses = [process.wait(PATIENCE) for process in processes]
    assert set(statuses) <= {0, 9}
    assert set(rows(poisoned).values()) <= {"suspect", "quarantined"}
    assert poisoned.run(*BEAR_NOT).status == 0
    assert all(Path(report).exists() for report in reports)
