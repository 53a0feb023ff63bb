"""How long a container's shell waited for the client before it became the launcher, which is as much less patient."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from glowplug.nodestore import layout

SAYS = (
    "import os, sys; from pathlib import Path; from glowplug.launch.node import _waited;"
    "print(_waited(Path(sys.argv[1]), os.getpid()))"
)
COMES = ': > "$1/$2"'


@pytest.mark.parametrize(
    ("script", "at_least", "at_most"),
    [
        (f"sleep 1.5; {COMES}", 1.4, 60.0),
        (f"{COMES}; sleep 1.5", 0.0, 1.0),
        ("sleep 1.5", 0.0, 0.0),
    ],
    ids=["for the program", "for its own setup", "in vain"],
)
def test_what_counts_is_the_wait_for_the_program(tmp_path: Path, script: str, at_least: float, at_most: float) -> None:
    """Three shells that sleep: the time of a process's birth is the kernel's."""
    command = [sys.executable, "-c", SAYS, str(tmp_path)]
    done = subprocess.run(
        ["sh", "-c", f'{script}; shift 2; exec "$@"', "sh", str(tmp_path), layout.PROGRAM, *command],
        env={**os.environ, "PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert at_least <= float(done.stdout) <= at_most
