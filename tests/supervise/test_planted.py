"""What others have put in our way: links, pipes, locks that nobody gives back. None of it costs the start or leads astray."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from pathlib import Path

import pytest

from glowplug.supervise.state import state_directory
from tests.parts import requires
from tests.supervise.machine import Machine


def test_a_link_in_place_of_our_directory_in_the_cache_root_is_not_followed(machine: Machine) -> None:
    elsewhere = machine.base / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "history.json").write_text("not ours")
    machine.root.mkdir()
    (machine.root / ".glowplug").symlink_to(elsewhere)
    done = machine.run()
    assert done.status == 0, done
    assert sorted(path.name for path in elsewhere.iterdir()) == ["history.json"]
    assert (elsewhere / "history.json").read_text() == "not ours"


def test_a_pipe_in_place_of_the_history_holds_nobody_up(machine: Machine) -> None:
    (machine.root / ".glowplug").mkdir(parents=True)
    os.mkfifo(machine.root / ".glowplug" / "history.json")
    done = machine.run(timeout=60)
    assert (done.status, done.verdict) == (0, "miss"), done
    assert done.publish[0] == "published", done


def test_a_lock_that_is_never_given_back_holds_nobody_up(machine: Machine) -> None:
    state = machine.base / "state" / "glowplug"
    state.mkdir(parents=True)
    with (state / "quarantine.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        done = machine.run(timeout=60)
    assert (done.status, done.verdict) == (0, "miss"), done


def test_a_report_keeps_the_mode_of_the_file_that_it_replaces(machine: Machine) -> None:
    kept = machine.base / "kept.json"
    kept.write_text("old")
    kept.chmod(0o600)
    machine.run(options=["--report", str(kept)])
    assert json.loads(kept.read_text())["source"] == "run"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


@requires("root")
def test_somebody_elses_link_at_the_reports_path_is_not_followed(machine: Machine) -> None:
    public = machine.base / "public"
    public.mkdir()
    public.chmod(0o1777)
    victim = machine.base / "victim"
    victim.write_text("precious")
    link = public / "report.json"
    link.symlink_to(victim)
    os.chown(link, 65534, 65534, follow_symlinks=False)
    done = machine.run(options=["--report", str(link)])
    assert done.status == 0
    assert victim.read_text() == "precious"
    assert "belongs to somebody else" in done.err


def test_without_threads_the_command_is_started_all_the_same(bare: Machine) -> None:
    """`ulimit -u`, a full pids cgroup: what glowplug cannot do then, the kernel can, since it takes no new process."""
    broken = bare.base / "broken"
    broken.mkdir()
    (broken / "sitecustomize.py").write_text(
        "import sys, threading\n"
        "if 'glowplug' in sys.argv[0]:\n"
        '    def start(self): raise RuntimeError("can\'t start new thread")\n'
        "    threading.Thread.start = start\n"
    )
    done = bare.run("--exit", "6", env={"PYTHONPATH": f"{broken}:{bare.env()['PYTHONPATH']}"})
    assert done.status == 6, done
    assert "can't start new thread" in done.err


def test_without_a_home_the_state_is_in_the_users_own_directory_or_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    from glowplug.host import writable

    monkeypatch.setattr(writable, "claim", lambda _path: "")
    assert state_directory({}) == Path(f"/var/tmp/glowplug-{os.getuid()}/state")
    monkeypatch.setattr(writable, "claim", lambda _path: "belongs to another user")
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        state_directory({}).mkdir(parents=True)
