"""The layers of docs/architecture.md hold, and import-linter would notice if they did not."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.repo import tree

_LINTER = Path(sys.executable).with_name("lint-imports")


def _lint(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(_LINTER), "--no-cache", "--no-logo"],
        cwd=root,
        env={"PYTHONPATH": str(root / "src"), "PATH": "/usr/bin:/bin", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_contracts_hold() -> None:
    done = _lint(tree.ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_package_is_in_a_layer() -> None:
    contracts = tomllib.loads((tree.ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = {name.strip(" ()") for line in contracts[0]["layers"] for name in line.split("|")}
    packages = {path.parent.name for path in (tree.ROOT / "src" / "glowplug").glob("*/__init__.py")}
    assert packages - layers == set()


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("core/units.py", "import glowplug.store.contract", "imports go down only"),
        ("core/units.py", "import yaml", "the kernel uses the standard library only"),
        ("engines/adapter.py", "import click", "the kernel uses the standard library only"),
    ],
)
def test_a_breach_is_found(tmp_path: Path, module: str, line: str, contract: str) -> None:
    shutil.copytree(tree.ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(tree.ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / "src" / "glowplug" / module).open("a") as file:
        file.write(f"\n{line}\n")
    done = _lint(tmp_path)
    assert done.returncode != 0
    assert f"{contract} BROKEN" in done.stdout
