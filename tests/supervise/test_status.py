"""The exit status is the engine's, or what a shell would say; glowplug's own usage errors are 125."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import sys
from pathlib import Path

import pytest

from tests.supervise.machine import GLOWPLUG, Machine


def plain(*command: str, options: tuple[str, ...] = ()) -> list[str]:
    return [GLOWPLUG, "run", *options, "--", *command]


@pytest.mark.parametrize("status", [0, 1, 125])
def test_the_status_is_the_engines(bare: Machine, status: int) -> None:
    assert bare.run(argv=plain("sh", "-c", f"exit {status}")).status == status


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE])
def test_a_signal_n_is_128_and_n(bare: Machine, number: signal.Signals) -> None:
    assert bare.run(argv=plain("sh", "-c", f"kill -{int(number)} $$")).status == 128 + number


def test_a_command_that_is_not_there_is_127_and_one_that_cannot_be_run_126(bare: Machine) -> None:
    script = bare.base / "script"
    script.write_text("#!/bin/sh\n")
    no_format = bare.base / "no-format"
    no_format.write_bytes(b"\x7fnothing that runs")
    no_format.chmod(0o755)
    lost = bare.base / "lost"
    lost.write_text("#!/no/such/interpreter\n")
    lost.chmod(0o755)
    for command, status in (
        ("no-such-command", 127),
        (str(bare.base / "missing"), 127),
        (str(lost), 127),
        (str(script), 126),
        (str(bare.base), 126),
        (str(no_format), 126),
        (f"{script}/below", 126),
    ):
        options = ("--report", str(bare.report), "--engine", "torch", "--cache-root", str(bare.root))
        done = bare.run(argv=plain(command, options=options))
        assert done.status == status, (command, done)
        assert command in done.err
        assert done.document["exit_status"] == status
        assert done.document["verdict"] | {"evidence": []} == {
            "compile": "unknown",
            "compile_seconds": None,
            "reason": "the engine could not be started",
            "evidence": [],
        }


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--"],
        ["--no-such-option", "--", "true"],
        ["--restore-timeout", "soon", "--", "true"],
        ["--store", "htp://lab/x", "--", "true"],
        ["--store", "s3:/lab", "--", "true"],
        ["--engine", "cobol", "--", "true"],
    ],
)
def test_a_usage_error_is_125_in_one_line_and_a_hint(bare: Machine, arguments: list[str]) -> None:
    done = bare.run(argv=[GLOWPLUG, "run", *arguments])
    assert done.status == 125
    assert done.err.startswith("error[")
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("name", "value"), [("AWS_ENDPOINT_URL", "no-address"), ("AWS_CA_BUNDLE", "/no/such/file"), ("AWS_REGION", "???")]
)
def test_a_variable_of_the_machine_that_spoils_the_store_is_no_usage_error(
    bare: Machine, name: str, value: str
) -> None:
    """A wrong option is its writer's to see; a wrong environment must not keep an engine from starting."""
    bare.store = "s3://bucket/cache"
    given = {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        name: value,
    }
    done = bare.run(env=given, options=["--restore-timeout", "1s", "--no-publish"])
    assert done.status == 0
    assert done.restore[0] in ("failed", "none")
    assert done.restore[1]


@pytest.mark.parametrize("option", ["--verify-key", "--sign-key"])
def test_a_key_that_is_none_costs_the_restore_or_the_publish_and_not_the_start(bare: Machine, option: str) -> None:
    key = bare.base / "key"
    key.write_text("no key")
    done = bare.run(options=[option, str(key)])
    assert done.status == 0
    assert "miss g1" in done.out, done


def test_a_bake_whose_key_cannot_sign_does_not_begin(bare: Machine) -> None:
    key = bare.base / "key"
    key.write_text("no key")
    done = bare.run(options=["--sign-key", str(key), "--exit-when-ready"])
    assert (done.status, done.out) == (125, "")
    assert done.err.startswith("error[bad-input]")


@pytest.mark.parametrize("more", [(), ("--no-restore",)])
def test_a_bake_into_a_store_that_is_not_there_does_not_begin(bare: Machine, more: tuple[str, ...]) -> None:
    bare.store = (bare.base / "none" / "store").as_uri()
    done = bare.run(options=["--exit-when-ready", *more])
    assert (done.status, done.out) == (5, "")
    assert "glowplug: not published: no_bucket (The bucket does not exist" in done.err
    assert "the engine is not started" in done.err
    assert (done.publish, done.document["exit_status"]) == (("skipped", "no_bucket"), None)
    assert done.document["verdict"]["reason"] == "the engine was not started: nothing can be published"


@pytest.mark.parametrize("options", [(), ("--exit-when-ready", "--no-publish")])
def test_who_does_not_bake_starts_whatever_the_store_is(bare: Machine, options: tuple[str, ...]) -> None:
    bare.store = (bare.base / "none" / "store").as_uri()
    done = bare.run(options=options)
    assert (done.status, "miss g1" in done.out) == (0, True), done


def test_a_bake_always_says_what_became_of_it(machine: Machine) -> None:
    """Also where the restore has given the same reason, and where nothing was new: nobody asks a bake for anything else."""
    assert "glowplug: published " in machine.run(options=["--exit-when-ready"]).err
    assert "glowplug: published nothing: nothing is new" in machine.run(options=["--exit-when-ready"]).err
    machine.store = ""
    done = machine.run(options=["--exit-when-ready"])
    assert (done.status, "glowplug: not published: no_store" in done.err) == (5, True), done


def test_disabled_it_is_the_command_and_nothing_else(bare: Machine) -> None:
    code = "import os, sys; print(os.getpid(), os.environ.get('TORCHINDUCTOR_CACHE_DIR')); sys.exit(4)"
    started = bare.start(
        argv=[GLOWPLUG, "run", "--cache-root", str(bare.root), "--engine", "torch", "--", sys.executable, "-c", code],
        env={"GLOWPLUG_DISABLE": "1"},
    )
    done = started.end()
    assert (done.status, done.out.split()) == (4, [str(started.process.pid), "None"])
    assert not bare.root.exists()
    for command, status in (("no-such-command", 127), (str(bare.base), 126)):
        assert bare.run(argv=plain(command), env={"GLOWPLUG_DISABLE": "1"}).status == status


def _known_signals(out: str) -> list[str]:
    """Without 32 and 33, glibc's own, which its posix_spawn ignores and its threads handle anew."""
    words = (line.split() for line in out.splitlines())
    return [f"{name} {int(rest, 16) & ~0x180000000:x}" if "Sig" in name else f"{name} {rest}" for name, rest in words]


@pytest.mark.parametrize("disabled", [False, True])
def test_the_engine_starts_with_the_signals_and_descriptors_that_it_would_have_had(
    bare: Machine, disabled: bool
) -> None:
    """Python ignores SIGPIPE for itself; a child that inherits that never notices that its reader is gone."""
    look = ["sh", "-c", "grep -E 'Sig(Blk|Ign)' /proc/self/status; cat <&7"]
    handed = bare.base / "handed"
    handed.write_text("descriptor 7\n")
    shell = ["bash", "-c", 'trap "" HUP USR2; exec 7<"$0"; exec "$@"', str(handed)]
    env = {"GLOWPLUG_DISABLE": "1"} if disabled else {}
    direct = bare.run(argv=[*shell, *look])
    through = bare.run(argv=[*shell, *plain(*look)], env=env)
    assert direct.out.splitlines()[-1] == "descriptor 7"
    assert _known_signals(through.out) == _known_signals(direct.out)


@pytest.mark.parametrize(
    ("arguments", "options", "status"),
    [
        (["--stay", "60", "--port", "PORT"], [], 0),
        (["--stay", "60", "--port", "PORT"], ["--no-publish"], 0),
        (["--stay", "60", "--port", "PORT"], ["--store", "NOWHERE"], 5),
        (["--fail"], [], 1),
        (["--stay", "60"], ["--ready-url", "http://127.0.0.1:1/", "--ready-timeout", "1s"], 1),
    ],
)
@pytest.mark.slow
def test_exit_when_ready(
    machine: Machine, arguments: list[str], options: list[str], status: int, free_port: int
) -> None:
    arguments = [str(free_port) if word == "PORT" else word for word in arguments]
    if "PORT" not in arguments and "--ready-url" not in options and "--fail" not in arguments:
        options = ["--ready-url", f"http://127.0.0.1:{free_port}/", *options]
    nowhere = machine.base / "file"
    nowhere.write_text("")
    options = [(nowhere / "store").as_uri() if word == "NOWHERE" else word for word in options]
    done = machine.run(*arguments, options=["--exit-when-ready", *options])
    assert done.status == status, done
    again = {"published": 0, "unchanged": 0}.get(done.publish[0])
    assert again == (0 if status == 0 else None)


@pytest.mark.slow
def test_exit_when_ready_of_a_program_that_ends_by_itself(machine: Machine) -> None:
    assert machine.run(options=["--exit-when-ready"]).status == 0
    assert machine.run(options=["--exit-when-ready"]).publish == ("unchanged", "")


def test_a_report_is_whole_at_every_moment(machine: Machine) -> None:
    """`wait_for_document` parses whatever lies there, again and again."""
    started = machine.start("--stay", "1", "--graphs", "a,b,c")
    started.wait_for_document(lambda found: found.get("exit_status") == 0)
    assert started.end().publish[0] == "published"
    assert not list(machine.base.glob(".glowplug-tmp-*"))


@pytest.mark.slow
def test_a_report_that_cannot_be_written_harms_nothing(machine: Machine) -> None:
    done = machine.run("--exit", "3", options=["--report", str(machine.base / "no" / "such" / "folder.json")])
    assert done.status == 3
    assert done.err.count("cannot be written") == 1


def test_a_report_into_a_device_or_pipe_leaves_it_what_it_is(machine: Machine) -> None:
    """Renaming a file over /dev/null would take it from the whole machine."""
    pipe = machine.base / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert machine.run(options=["--report", str(pipe)]).status == 0
        assert stat.S_ISFIFO(pipe.stat().st_mode)
        assert b'"exit_status": 0' in os.read(reader, 1 << 20)
    finally:
        os.close(reader)
    assert machine.run(options=["--report", str(pipe)]).status == 0, "nobody reads it: said, not waited for"
    link = machine.base / "link"
    link.symlink_to(machine.base / "elsewhere.json")
    assert machine.run(options=["--report", str(link)]).status == 0
    assert link.is_symlink()
    assert (machine.base / "elsewhere.json").exists()


def test_a_fault_of_our_own_before_the_engine_is_a_plain_start(machine: Machine, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "sitecustomize.py").write_text(
        "import sys\n"
        "if 'glowplug' in sys.argv[0]:\n"
        "    from glowplug.host import writable\n"
        "    def choose(*a, **k): raise RuntimeError('broken on purpose')\n"
        "    writable.choose = choose\n"
    )
    if shutil.which("glowplug") is None and not Path(GLOWPLUG).exists():
        pytest.skip("glowplug is not installed")
    done = machine.run("--exit", "6", env={"PYTHONPATH": f"{broken}:{machine.env()['PYTHONPATH']}"})
    assert (done.status, done.restore) == (6, ("failed", "internal")), done
    assert "broken on purpose" in done.err
    assert "Traceback" not in done.err


def test_a_parent_that_ignores_its_children_does_not_cost_the_status(bare: Machine) -> None:
    """An ignored SIGCHLD is inherited, and then the kernel throws the status away."""
    done = bare.run(argv=["bash", "-c", 'trap "" CHLD; exec "$@"', "-", *plain("sh", "-c", "exit 5")])
    assert done.status == 5


@pytest.mark.slow
def test_preparation_that_hangs_is_left_and_the_command_started_as_it_is(machine: Machine) -> None:
    """In a file system that does not answer, say; here in a pipe that nobody writes to."""
    state = machine.base / "state" / "glowplug"
    state.mkdir()
    os.mkfifo(state / "quarantine.json")
    started = machine.start("--exit", "5", options=["--restore-timeout", "1s"])
    started.wait_for("begun")
    done = started.end()
    assert (done.status, done.restore, done.verdict) == (5, ("failed", "deadline"), "unknown"), done
    assert done.publish[0] == "skipped"


def test_the_users_environment_stays(bare: Machine) -> None:
    """As it was given: in the C locale Python adds to what it hands on itself."""
    code = (
        "import os, json\n"
        "given = open('/proc/self/environ', 'rb').read().split(b'\\0')\n"
        "print(json.dumps(dict(os.fsdecode(item).partition('=')[::2] for item in given if item)))"
    )
    command = bare.command([])
    own = {
        "TRITON_CACHE_DIR": "/elsewhere",
        "EMPTY": "",
        "ODD": "a=b\nc",
        "BYTES": b"\xff".decode(errors="surrogateescape"),
    }
    done = bare.run(argv=[*command[: command.index("--") + 1], sys.executable, "-I", "-c", code], env=own)
    seen = json.loads(done.out)
    given = bare.env(own)
    assert {name: seen[name] for name in given} == given
    added = set(seen) - set(given)
    assert added == {"TORCHINDUCTOR_CACHE_DIR", "CUDA_CACHE_PATH", "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS"}
    assert "TRITON_CACHE_DIR=/elsewhere leads out of the cache root" in done.err
