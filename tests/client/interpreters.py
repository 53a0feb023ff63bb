"""The Pythons of this machine, by version: what an engine's image may have is not what runs these tests."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@functools.cache
def find(version: str) -> str | None:
    """A Python of that version (`3.9`) that runs: on PATH, or beside the version that runs this, where version managers keep them.

    What a version manager puts on PATH may be a stand-in, with nothing behind it or with an environment of its own.
    """
    beside = sorted(Path(sys.base_prefix).resolve().parent.glob(f"*{version}.*/bin/python{version}"))
    for found in filter(None, (shutil.which(f"python{version}"), *map(str, beside))):
        asked = [found, "-c", "import sys; print(sys.executable)"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.strip()
    return None


def python(version: str) -> str:
    """The same; skips the test where there is none."""
    found = find(version)
    if found is None:
        pytest.skip(f"no Python {version} on this machine")
    return found
