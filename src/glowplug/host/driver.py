"""NVIDIA's devices and kernel driver as the kernel has them: what can be read without a GPU of one's own, in any container."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Optional

PROC: Final = Path("/proc/driver/nvidia/version")
SYS: Final = Path("/sys")
_VERSION: Final = re.compile(r"\b(\d{3}\.\d+(?:\.\d+)?)\b")
_VENDOR: Final = "0x10de"
_DISPLAY: Final = "0x03"


def version(proc: Path = PROC, sys: Path = SYS) -> str:
    """Version of the driver that is loaded, `580.126.20`; "" without one. Raises nothing."""
    for path in (sys / "module" / "nvidia" / "version", proc):
        found = _VERSION.search(_text(path))
        if found:
            return found.group(1)
    return ""


def devices(sys: Path = SYS) -> Optional[int]:
    """How many GPUs of NVIDIA are on the PCI bus, None where the bus cannot be seen. Raises nothing."""
    try:
        found = list((sys / "bus" / "pci" / "devices").iterdir())
    except OSError:
        return None
    return sum(_text(one / "vendor").strip() == _VENDOR and _text(one / "class").startswith(_DISPLAY) for one in found)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
