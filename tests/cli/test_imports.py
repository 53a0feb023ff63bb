"""What a command pays for before it does its work: the modules it imports, not seconds, which differ by machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Program

HEAVY = frozenset(
    (
        *("asyncio", "backports", "boto3", "botocore", "cryptography", "http", "jinja2", "obstore", "pydantic"),
        *("requests", "rich", "ssl", "unittest", "urllib3", "yaml"),
    )
)


def _imported(*arguments: str, script: str = "") -> set[str]:
    """Modules of a process that was called like this; `script` runs before the command."""
    program = (
        f"{script}\nimport atexit, sys\n"
        "from glowplug.cli.main import main\n"
        f"status = main({list(arguments)!r})\n"
        "print('\\n'.join(['', 'IMPORTED', *sys.modules]), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stderr.partition("\nIMPORTED\n")[2].split())


def _roots(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["cache", "--help"], ["run", "--help"]])
def test_help(arguments: list[str]) -> None:
    modules = _imported(*arguments)
    assert not _roots(modules) & HEAVY
    own = {name for name in modules if name.startswith("glowplug.")}
    assert not {name for name in own if name.split(".")[1] not in ("cli", "core")}
    assert "json" not in modules


@pytest.mark.parametrize("command", [["plan"], ["check"], ["check", "network"]])
def test_help_of_what_plans_and_checks(command: list[str]) -> None:
    modules = _imported(*command, "--help")
    assert not _roots(modules) & HEAVY
    assert not {name for name in modules if name.startswith("glowplug.") and name.split(".")[1] not in ("cli", "core")}


def test_help_imports_no_command() -> None:
    own = {name for name in _imported("--help") if name.startswith("glowplug.cli.")}
    assert own == {f"glowplug.cli.{name}" for name in ("main", "errors", "examples", "streams")}


def test_run_before_the_engine_starts(program: Program, tmp_path: Path) -> None:
    """With a store that is a directory, nothing third-party but click and what unpacks (`http` is for the health URL)."""
    script = (
        "import subprocess, sys, os\n"
        "def first(event, arguments):\n"
        "    if event in ('subprocess.Popen', 'os.posix_spawn', 'os.exec', 'os.fork'):\n"
        "        print('\\n'.join(['', 'IMPORTED', *sys.modules]), file=sys.stderr, flush=True)\n"
        "        os._exit(0)\n"
        "sys.addaudithook(first)\n"
    )
    modules = _imported(
        "run",
        "--engine",
        "torch",
        "--store",
        str(tmp_path / "store"),
        "--cache-root",
        str(tmp_path / "root"),
        "--",
        str(program.python),
        str(program.script),
        script=script,
    )
    assert "glowplug.supervise.prepare" in modules
    assert not _roots(modules) & (HEAVY - {"backports", "http", "ssl"})
    assert not {name for name in modules if name.startswith("glowplug.report")}


def test_ls(tmp_path: Path) -> None:
    modules = _imported("cache", "ls", "--store", str(tmp_path))
    assert "glowplug.cache.listing" in modules
    assert not _roots(modules) & HEAVY
    assert not {name for name in modules if name.split(".")[:2] in (["glowplug", "supervise"], ["glowplug", "engines"])}
