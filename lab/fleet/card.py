"""A card that is not there: a library that answers as NVIDIA's management library does on a machine with one.

By it glowplug takes a container without a GPU for one with that card; it is the only part of the product that asks that library for
the card's name. Nothing can compute on it: torch finds no driver, and compiles for the CPU as everywhere here.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

_SOURCE = """
#include <string.h>
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned place, void **handle) { *handle = (void *)1; return place ? 2 : 0; }
int nvmlDeviceGetName(void *handle, char *text, unsigned size) { strncpy(text, NAME, size); return 0; }
int nvmlDeviceGetUUID(void *handle, char *text, unsigned size) { strncpy(text, "GPU-0", size); return 0; }
int nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor) { *major = 8; *minor = 9; return 0; }
"""


def library(folder: Path, name: str) -> Path:
    """The library for a card of that name, in that folder. Raises CalledProcessError."""
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / "libnvidia-ml.so.1"
    argv = ["cc", "-shared", "-fPIC", "-w", f'-DNAME="{name}"', "-x", "c", "-o", str(made), "-"]
    subprocess.run(argv, input=_SOURCE, text=True, check=True, capture_output=True)
    return made
