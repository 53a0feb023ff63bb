"""Writes the locks, pinned with hashes: `requirements/dev.txt`, every package of `.venv` for every supported Python and platform,
and `requirements/image.txt`, those of them that glowplug's image has.

The locks name no index: which one is asked is the business of the machine. `uv` comes from the lock itself.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_COMPILE = ("-m", "uv", "pip", "compile", "pyproject.toml", "--python-version", "3.11", "--generate-hashes")
_PLAIN = ("--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links", "--no-sources", "--quiet")
_LOCKS: dict[str, Sequence[str]] = {
    "requirements/dev.txt": ("--all-extras", "--group", "dev", "--upgrade", "--universal"),
    # The image is Linux only, so its lock needs no markers: who reads it need not evaluate any.
    "requirements/image.txt": (
        *("--extra", "agent", "--extra", "sign", "--python-platform", "linux"),
        *("--constraint", "requirements/dev.txt"),
    ),
}


def main() -> int:
    """Write them in their order, since the second is a part of the first; uv's status where it fails."""
    for name, options in _LOCKS.items():
        command = [sys.executable, *_COMPILE, *options, *_PLAIN, "--output-file", name]
        status = subprocess.run(command, cwd=ROOT, check=False).returncode
        if status:
            return status
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
