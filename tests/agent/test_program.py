"""The archive that pods start is that of the agent's own sources, however the agent was installed."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import glowplug
from glowplug.agent import program as module
from glowplug.agent.program import program
from glowplug.core.errors import InternalError

ROOT = Path(__file__).resolve().parents[2]


def test_a_checkout_makes_its_own(tmp_path: Path) -> None:
    (tmp_path / "p.pyz").write_bytes(program())
    with zipfile.ZipFile(tmp_path / "p.pyz") as archive:
        assert archive.read("glowplug/__init__.py") == Path(glowplug.__file__).read_bytes()


@pytest.mark.slow
def test_a_wheel_carries_it(tmp_path: Path) -> None:
    """Made as an installer makes it of the source distribution: bytecode for each Python here takes seconds."""
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)]
    subprocess.run([*build, "-t", "sdist"], cwd=ROOT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    subprocess.run(["tar", "-xf", str(archive)], cwd=tmp_path, check=True)
    (source,) = (item for item in tmp_path.iterdir() if item.is_dir())
    subprocess.run([*build, "-t", "wheel"], cwd=source, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(installed)
    script = "import sys; from glowplug.agent.program import program; sys.stdout.buffer.write(program())"
    environ = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environ, check=True, capture_output=True)
    assert done.stdout == (installed / "glowplug" / "glowplug.pyz").read_bytes()
    (tmp_path / "p.pyz").write_bytes(done.stdout)
    probe = [sys.executable, "-I", str(tmp_path / "p.pyz"), "run", "--exec", "--", "/bin/echo", "engine"]
    assert subprocess.run(probe, capture_output=True, text=True, check=True).stdout == "engine\n"


def test_one_that_is_neither_carried_nor_can_be_made_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "CARRIED", (tmp_path / "no.pyz",))
    monkeypatch.setattr(module, "_CHECKOUT", tmp_path)
    with pytest.raises(InternalError, match=r"without glowplug\.pyz"):
        program()
