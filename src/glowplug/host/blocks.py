"""On which disks a path really lies: mountinfo → block device → what it is made of → the model of each disk, from /sys.

A hostPath of a directory that nobody mounted lands on the root volume without a word: only the device says it. EC2 gives its
disks away by their model, `Amazon EC2 NVMe Instance Storage` or `Amazon Elastic Block Store`; several instance stores are one
RAID0 array, whose members stand in `slaves`. What containers see of /sys/block is the node's.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Optional

from glowplug.host import mounts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from glowplug.host.mounts import Mount

SYS: Final = Path("/sys")
INSTANCE_STORE: Final = "Amazon EC2 NVMe Instance Storage"
# NVMe in name only: what is behind these is another machine's (EBS, persistent disks of Google and Microsoft).
_REMOTE: Final = ("amazon elastic block store", "nvme_card-pd", "msft nvme accelerator")
_ANONYMOUS: Final = "0:"
_DEPTH: Final = 8
_LONGEST: Final = 256


@dataclass(frozen=True)
class Disk:
    """One disk. `model` is as the kernel has it, "" where it says none; `local`: an NVMe of this very machine."""

    name: str
    model: str
    local: bool


@dataclass(frozen=True)
class Backing:
    """What a path lies on. `device` is the block device of its mount (`md127`, `nvme1n1p1`), `level` its RAID level, both "" for
    none; `disks` are what it is made of. `why` says why the disks are not known, "" where they are.
    """

    mount: Optional[Mount] = None
    device: str = ""
    level: str = ""
    disks: tuple[Disk, ...] = ()
    why: str = ""

    @property
    def nvme(self) -> bool:
        """Whether all of it is NVMe of this machine: a mirror with one leg elsewhere is as slow as that."""
        return bool(self.disks) and all(disk.local for disk in self.disks)


def of(path: str, *, sys: Path = SYS, mountinfo: Optional[str] = None) -> Backing:
    """What `path` lies on; one that does not exist counts as its nearest existing parent. Raises nothing.

    `mountinfo` replaces this process's own.
    """
    real = os.path.realpath(path)
    mount = mounts.of(real) if mountinfo is None else mounts.holding(real, mounts.parse(mountinfo))
    if mount is None:
        return Backing(why="it cannot be seen which file system it lies on")
    if mount.memory:
        return Backing(mount, why=f"it lies in memory ({mount.kind})")
    if mount.network:
        return Backing(mount, why=f"it lies on another machine ({mount.kind})")
    if mount.kind == "overlay":
        return Backing(mount, why="it lies in the container's own layer: nothing of the node is mounted there")
    try:
        device = _device(mount, sys)
        if device is None:
            return Backing(mount, why=f"no block device is known for {mount.kind} on {mount.source}")
        members = _disks(device, sys, 0)
    except OSError as error:
        return Backing(mount, why=f"{sys} cannot be read: {error.strerror}")
    if not members:
        return Backing(mount, device.name, why=f"it is not known what {device.name} is made of")
    level = _text(device / "md" / "level")
    return Backing(mount, device.name, level, tuple(sorted(set(members), key=lambda disk: disk.name)))


def instance_stores(*, sys: Path = SYS) -> tuple[Disk, ...]:
    """The instance store disks that this machine has, mounted or not. Raises nothing."""
    try:
        found = [_disk(device) for device in sorted((sys / "block").iterdir())]
    except OSError:
        return ()
    return tuple(disk for disk in found if disk.model == INSTANCE_STORE)


def _device(mount: Mount, sys: Path) -> Optional[Path]:
    """The directory of a mount's block device. Raises OSError."""
    if not mount.device.startswith(_ANONYMOUS):
        return (sys / "dev" / "block" / mount.device).resolve(strict=True)
    # btrfs and the like number their mounts themselves; the source still names a device.
    name = mount.source.rpartition("/")[2]
    place = sys / "class" / "block" / name
    return place.resolve(strict=True) if mount.source.startswith("/dev/") and place.exists() else None


def _disks(device: Path, sys: Path, depth: int) -> Sequence[Disk]:
    """The disks at the bottom, none where a layer (a file behind a loop device, say) is not followed. Raises OSError."""
    slaves = device / "slaves"
    below = sorted(slaves.iterdir()) if slaves.is_dir() else []
    if below:
        found: list[Disk] = []
        for one in below if depth < _DEPTH else ():
            disks = _disks(one.resolve(strict=True), sys, depth + 1)
            if not disks:
                return ()
            found += disks
        return found
    whole = device.parent if (device / "partition").exists() else device
    virtual = "virtual" in whole.parts and not (whole / "device").exists()
    return () if virtual or (whole / "loop").exists() else (_disk(whole),)


def _disk(whole: Path) -> Disk:
    model = _text(whole / "device" / "model")
    transport = _text(whole / "device" / "transport")
    local = (
        whole.name.startswith("nvme")
        and bool(model)
        and not model.lower().startswith(_REMOTE)
        and transport in ("", "pcie", "apple-nvme")
    )
    return Disk(whole.name, model, local)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()[:_LONGEST]
    except OSError:
        return ""
