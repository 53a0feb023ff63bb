"""The files of the repository as the tests of this folder see them."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


@cache
def files() -> tuple[str, ...]:
    """Every file that is or would be committed, relative to the root. An unpacked sdist has no git: then all are."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        names = [name for name in done.stdout.split("\0") if name]
    else:
        names = [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*")]
    return tuple(sorted(name for name in names if (ROOT / name).is_file() and not (ROOT / name).is_symlink()))


def text_of(name: str) -> str:
    """The text of a file, "" for one that is not text."""
    data = (ROOT / name).read_bytes()
    return "" if b"\0" in data else data.decode(errors="replace")


def python_files(*folders: str) -> list[str]:
    """The Python files below these folders."""
    return [name for name in files() if name.endswith(".py") and name.split("/")[0] in folders]
