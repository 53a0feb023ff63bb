"""The bytes of `glowplug.pyz`, which pods start from the node store: always those of the very glowplug that this agent is.

The image and the wheel carry the archive, made by `dev.pyz` when they were built. A checkout makes it with its own
`dev.pyz`, in seconds, when something has changed: there is one builder, and none of it is in what is installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import glowplug
from glowplug.core.errors import InternalError
from glowplug.nodestore import layout

_PACKAGE: Final = Path(glowplug.__file__).resolve().parent
CARRIED: Final = (_PACKAGE / layout.PROGRAM, _PACKAGE.parent / layout.PROGRAM)
"""Where the wheel has it, and where the image has it."""
_CHECKOUT: Final = _PACKAGE.parent.parent
_BUILT: Final = _CHECKOUT / "build" / layout.PROGRAM
_SECONDS: Final = 300


def program() -> bytes:
    """The archive. Raises InternalError where it is neither carried nor can be made, OSError."""
    for path in CARRIED:
        if path.is_file():
            return path.read_bytes()
    if not (_CHECKOUT / "dev" / "pyz.py").is_file():
        raise InternalError(f"this glowplug was installed without {layout.PROGRAM}")
    if _is_current(_BUILT):
        return _BUILT.read_bytes()
    if os.access(_CHECKOUT, os.W_OK):
        return _made(_BUILT)
    with tempfile.TemporaryDirectory(prefix="glowplug-") as folder:
        return _made(Path(folder) / layout.PROGRAM)


def _is_current(built: Path) -> bool:
    """Whether an archive is newer than all that it may have been made of."""
    try:
        made = built.stat().st_mtime
    except OSError:
        return False
    folders = (_PACKAGE, _CHECKOUT / "dev")
    return all(
        path.stat().st_mtime < made for folder in folders for path in folder.rglob("*.*") if path.suffix != ".pyc"
    )


def _made(target: Path) -> bytes:
    command = [sys.executable, "-m", "dev.pyz", str(target)]
    made = subprocess.run(
        command, cwd=_CHECKOUT, capture_output=True, text=True, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL
    )
    if made.returncode:
        raise InternalError(f"{layout.PROGRAM} cannot be made: {made.stderr.strip()[-500:]}")
    return target.read_bytes()
