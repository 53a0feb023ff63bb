"""How these tests call the command line: in this process, with an environment of their own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from glowplug.cli.main import main
from tests.cache.conftest import patient
from tests.cli import trees
from tests.store.conftest import s3_place, s3_server

__all__ = ["patient", "s3_place", "s3_server"]


@dataclass(frozen=True)
class Answer:
    """What a call printed and how it ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Answer]


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable of the caller's, no state of the machine's."""
    for name in [name for name in os.environ if name.startswith(("GLOWPLUG_", "AWS_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """`glowplug …`; no call may show a traceback, whatever it is given."""

    def run(*arguments: str | Path) -> Answer:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        assert "error[internal]" not in err
        return Answer(status, out, err)

    return run


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A directory that every call takes for its store."""
    monkeypatch.setenv("GLOWPLUG_STORE", f"file://{tmp_path}/store")
    return tmp_path / "store"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """A file F with the flat form of trees.FLAT and changes; a value None leaves a field out."""

    def made(name: str = "f.json", **changes: Any) -> Path:
        value = {**trees.FLAT, **changes}
        path = tmp_path / name
        path.write_text(json.dumps({field: item for field, item in value.items() if item is not None}))
        return path

    return made


@pytest.fixture
def published(call: Call, store: Path, write: Callable[..., Path], tmp_path: Path) -> str:
    """The digest of a key with a real vLLM's two entries (AOT and piecewise), published from `tmp_path/node`."""
    trees.vllm(tmp_path / "node")
    answer = call("cache", "publish", "--cache-root", tmp_path / "node", "--fingerprint", write())
    assert answer.status == 0, answer
    keys = call("cache", "ls", "-o", "json").json["keys"]
    assert len(keys) == 1
    return str(keys[0]["key_digest"])


@dataclass(frozen=True)
class Program:
    """A script in a virtual environment that names torch and vLLM as installed."""

    python: Path
    script: Path
    vllm: Path


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """A real interpreter whose environment says what is installed, and a script that ends at once."""
    venv = tmp_path / "venv"
    minor = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = venv / "lib" / minor / "site-packages"
    packages.mkdir(parents=True)
    (venv / "bin").mkdir()
    for name in ("torch-2.13.0", "vllm-0.32.0", "triton-3.6.0"):
        (packages / f"{name}.dist-info").mkdir()
    (venv / "bin/python").symlink_to(Path(sys.executable).resolve())
    (venv / "pyvenv.cfg").write_text(
        f"home = {Path(sys.executable).resolve().parent}\nversion = {sys.version.split()[0]}\n"
    )
    script = tmp_path / "serve.py"
    script.write_text("raise SystemExit(0)\n")
    vllm = venv / "bin/vllm"
    vllm.write_text(f"#!{venv}/bin/python\nraise SystemExit(0)\n")
    vllm.chmod(0o755)
    return Program(venv / "bin/python", script, vllm)
