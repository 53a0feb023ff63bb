"""Pods bring their own Python, and nothing of ours but the standard library."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.client import interpreters

_EVERYTHING = Path(__file__).with_name("everything.py")
_SOURCE = Path(__file__).parents[2] / "src"


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.11", "3.12", "3.13", "3.14"])
def test_the_node_store_works_on(version: str, tmp_path: Path) -> None:
    python = interpreters.python(version)
    done = subprocess.run(
        [python, "-I", "-S", "-B", "-W", "error", _EVERYTHING, _SOURCE, tmp_path], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["restored already_present key:torch", "vllm/model", "1 True 1"]
