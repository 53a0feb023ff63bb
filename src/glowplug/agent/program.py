"""The bytes of `glowplug.pyz`, which pods start from the node store: always those of the very glowplug that this agent is.

The image and the wheel carry the archive, made by `dev.pyz` when they were built. A checkout has none, and makes it with its own
`dev.pyz`: there is one builder, and none of it is in what is installed.
"""

from __future__ import annotations

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
_SECONDS: Final = 120


def program() -> bytes:
    """The archive. Raises InternalError where it is neither carried nor can be made, OSError."""
    for path in CARRIED:
        if path.is_file():
            return path.read_bytes()
    if not (_CHECKOUT / "dev" / "pyz.py").is_file():
        raise InternalError(f"this glowplug was installed without {layout.PROGRAM}")
    with tempfile.TemporaryDirectory(prefix="glowplug-") as folder:
        target = Path(folder) / layout.PROGRAM
        command = [sys.executable, "-m", "dev.pyz", str(target)]
        made = subprocess.run(
            command,
            cwd=_CHECKOUT,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if made.returncode:
            raise InternalError(f"{layout.PROGRAM} cannot be made: {made.stderr.strip()[-500:]}")
        return target.read_bytes()
