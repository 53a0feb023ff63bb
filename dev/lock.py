"""Writes `requirements/dev.txt`: every package of `.venv` for every supported Python and platform, pinned with hashes.

The lock names no index: which one is asked is the business of the machine. `uv` comes from the lock itself.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_COMMAND = (
    *("-m", "uv", "pip", "compile", "pyproject.toml", "--all-extras", "--group", "dev", "--upgrade"),
    *("--universal", "--python-version", "3.11", "--generate-hashes", "--no-header", "--no-annotate"),
    *(
        "--no-emit-index-url",
        "--no-emit-find-links",
        "--no-sources",
        "--quiet",
        "--output-file",
        "requirements/dev.txt",
    ),
)

if __name__ == "__main__":
    raise SystemExit(subprocess.run([sys.executable, *_COMMAND], cwd=ROOT, check=False).returncode)
