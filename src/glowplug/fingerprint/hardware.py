"""The processor that code is compiled for: NVML's name of the GPU as this process sees it, else the CPU's instruction
sets.

`NVIDIA_VISIBLE_DEVICES` is not looked at: it is an order to the container runtime, which has long been carried out,
and device plug-ins set it to `void` while they pass GPUs in. `CUDA_VISIBLE_DEVICES` is read as the CUDA driver reads
it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Optional

from glowplug.core.documents.fingerprint import Fact
from glowplug.host import cpu, nvml
from glowplug.host.nvml import Gpu

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROC: Final = Path("/proc/driver/nvidia/gpus")
"""One directory for each card that the kernel driver has found."""
_AMD: Final = Path("/dev/kfd")


@dataclass(frozen=True)
class Hardware:
    """`gpu` is None where it cannot be known, with `why`. `accelerated`: whether it is a GPU at all. `capability`
    like `9.0`, or "".
    """

    gpu: Optional[Fact]
    machine: Fact
    capability: str = ""
    accelerated: bool = False
    why: str = ""


def look(environ: Mapping[str, str], *, cpu_build: bool = False) -> Hardware:
    """This machine as an engine with this environment sees it. `cpu_build`: the engine uses no GPU whatever is
    there.
    """
    machine = Fact(os.uname().machine, "observed:uname")
    processor = Fact(cpu.here(), "observed:/proc/cpuinfo")
    if cpu_build:
        return Hardware(processor, machine)
    found, source = _gpus()
    if not found:
        if _AMD.exists() and not environ.get("CUDA_VISIBLE_DEVICES"):
            return Hardware(None, machine, why="the GPU is not NVIDIA's and its name cannot be read")
        return Hardware(processor, machine)
    seen = visible(found, environ)
    if seen is None:
        return Hardware(
            None, machine, accelerated=True, why="CUDA_VISIBLE_DEVICES cannot be matched with GPUs of several kinds"
        )
    if not seen:
        return Hardware(processor, machine)
    names = sorted({gpu.name for gpu in seen})
    if len(names) > 1 or not names[0]:
        return Hardware(None, machine, accelerated=True, why=f"GPUs of several kinds: {', '.join(names)}")
    return Hardware(Fact(names[0], source), machine, seen[0].capability, accelerated=True)


def _gpus() -> tuple[Sequence[Gpu], str]:
    found = nvml.gpus()
    if found is not None:
        return found, "observed:nvml"
    return from_proc(PROC), f"observed:{PROC}"


def from_proc(directory: Path) -> Sequence[Gpu]:
    """What the kernel driver says, for containers without NVML."""
    found: list[Gpu] = []
    try:
        texts = [(item / "information").read_text("utf-8", "replace") for item in sorted(directory.iterdir())]
    except OSError:
        return ()
    for text in texts:
        pairs = dict(line.partition(":")[::2] for line in text.splitlines())
        found.append(Gpu(pairs.get("Model", "").strip(), pairs.get("GPU UUID", "").strip()))
    return found


def visible(gpus: Sequence[Gpu], environ: Mapping[str, str]) -> Optional[Sequence[Gpu]]:
    """The GPUs that CUDA offers under CUDA_VISIBLE_DEVICES, None where the variable cannot be matched with NVML's
    order.

    CUDA stops at the first entry that names no device. Its numbers follow NVML's order only with
    CUDA_DEVICE_ORDER=PCI_BUS_ID; where all GPUs are of one kind that makes no difference.
    """
    wanted = environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return gpus
    numbered = len({gpu.name for gpu in gpus}) == 1 or environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    seen: list[Gpu] = []
    for word in (item.strip() for item in wanted.split(",")):
        if word.isascii() and word.isdigit() and len(word) < 5:
            if not numbered:
                return None
            if int(word) >= len(gpus):
                break
            seen.append(gpus[int(word)])
            continue
        matching = [gpu for gpu in gpus if word and gpu.uuid and gpu.uuid.startswith(word)]
        if len(matching) != 1:
            break
        seen.append(matching[0])
    return seen
