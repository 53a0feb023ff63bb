"""The CPythons of this machine that glowplug's launcher can run on: the running one, those on PATH, those beside it.

What a version manager puts on PATH may be a stand-in, with nothing behind it; so each is asked what it is.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_MINORS = range(9, 20)
_ASK = (
    "import importlib.util, sys\n"
    "print(sys.executable, sys.implementation.cache_tag + '-' + importlib.util.MAGIC_NUMBER[:2].hex(), sep='\\n')"
)


@functools.cache
def find() -> Mapping[str, str]:
    """Name of a bytecode (`cpython-312-cb0d`) → an interpreter that makes it, sorted by version."""
    found: dict[str, str] = {}
    for minor in _MINORS:
        name = f"python3.{minor}"
        beside = sorted(Path(sys.base_prefix).resolve().parent.glob(f"*3.{minor}.*/bin/{name}"))
        own = sys.executable if sys.version_info[:2] == (3, minor) else None
        for path in filter(None, (own, shutil.which(name), *map(str, beside))):
            described = describe(path)
            if described is not None:
                found.setdefault(*described)
                break
    return found


def describe(path: str) -> tuple[str, str] | None:
    """The name of the bytecode that an interpreter makes, and its own path; None where it does not run."""
    try:
        done = subprocess.run([path, "-ISB", "-c", _ASK], capture_output=True, text=True, check=False)
    except OSError:
        return None
    executable, _, name = done.stdout.strip().partition("\n")
    return (name, executable) if done.returncode == 0 and name.startswith("cpython-") else None
