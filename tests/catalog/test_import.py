"""The catalogue is part of the kernel: it runs on the engine's interpreter, out of a zip archive, and costs nothing unasked."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import glowplug

PACKAGE = Path(glowplug.__file__).parent
MODULES = sorted(path.stem for path in (PACKAGE / "catalog").glob("*.py") if path.stem != "__init__")
IMPORTS = f"from glowplug.catalog import {', '.join(MODULES)}"


def _oldest() -> str:
    """A Python 3.9 that runs: on PATH, or beside the version that runs this, where version managers keep them.

    What a version manager puts on PATH may be a stand-in with nothing behind it.
    """
    beside = sorted(Path(sys.base_prefix).resolve().parent.glob("*3.9*/bin/python3.9"))
    for found in filter(None, (shutil.which("python3.9"), *map(str, beside))):
        if subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
            return found
    pytest.skip("no python3.9")


def _run(interpreter: str, path: Path, program: str) -> str:
    program = f"import sys; sys.path.insert(0, {str(path)!r})\n{program}"
    done = subprocess.run(
        [interpreter, "-I", "-B", "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_it_reads_no_table() -> None:
    program = (
        "opened = []\n"
        "sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == 'open' else None)\n"
        f"{IMPORTS}\n"
        "print([name for name in opened if name.endswith('.csv')])\n"
        "gpus.gpu('h100')\n"
        "print(sum(name.endswith('gpus.csv') for name in opened))\n"
    )
    assert _run(sys.executable, PACKAGE.parent, program).split("\n")[:2] == ["[]", "1"]


@pytest.mark.parametrize("interpreter", ["this", "3.9"])
def test_it_works_from_an_archive(interpreter: str, tmp_path: Path) -> None:
    archive = tmp_path / "glowplug.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in [PACKAGE / "__init__.py", *(PACKAGE / "core").rglob("*.py"), *(PACKAGE / "catalog").rglob("*.*")]:
            if "__pycache__" not in path.parts:
                packed.write(path, path.relative_to(PACKAGE.parent))
    program = (
        f"{IMPORTS}\n"
        "print(instances.instance('p5.48xlarge').gpu.name, releases.newest('vllm').version != '',"
        " streamer.nearest('AWS_REGON'), limits.fact('guide.chunk_bytes').value, bool(prices.prices()))\n"
    )
    python = sys.executable if interpreter == "this" else _oldest()
    assert _run(python, archive, program).split() == ["h100-80gb", "True", "AWS_REGION", "4294967296.0", "True"]


@pytest.mark.parametrize("name", MODULES)
def test_its_grammar_is_that_of_python_3_9(name: str) -> None:
    ast.parse((PACKAGE / "catalog" / f"{name}.py").read_text("utf-8"), feature_version=(3, 9))
