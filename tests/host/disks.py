"""A /sys of a machine's disks, and the mountinfo that goes with it, as the node images of EKS have them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

STORE: Final = "Amazon EC2 NVMe Instance Storage"
EBS: Final = "Amazon Elastic Block Store"


class Machine:
    """Disks, and what is made of them. Numbers are given in the order in which devices come."""

    def __init__(self, root: Path) -> None:
        self.sys = root / "sys"
        self.lines = ["21 1 0:21 / / rw - overlay overlay rw"]
        for name in ("block", "dev/block", "class/block"):
            (self.sys / name).mkdir(parents=True)
        self._minor = 0

    def disk(self, name: str, model: str = "", *, transport: str = "", partitions: int = 0) -> None:
        """A disk by its name and model; the kernel fills a model up with blanks."""
        whole = self.sys / "devices" / "pci0000:00" / name
        (whole / "device").mkdir(parents=True)
        if model:
            (whole / "device" / "model").write_text(f"{model:<40}\n")
        if transport:
            (whole / "device" / "transport").write_text(f"{transport}\n")
        self._known(name, whole)
        for number in range(1, partitions + 1):
            part = whole / f"{name}p{number}"
            part.mkdir()
            (part / "partition").write_text(f"{number}\n")
            self._known(part.name, part)

    def made_of(self, name: str, *members: str, level: str = "") -> None:
        """An array (with its RAID level), a logical volume, or without members a loop device."""
        device = self.sys / "devices" / "virtual" / "block" / name
        (device / "slaves").mkdir(parents=True)
        for member in members:
            (device / "slaves" / member).symlink_to((self.sys / "class" / "block" / member).resolve())
        if level:
            (device / "md").mkdir()
            (device / "md" / "level").write_text(f"{level}\n")
        if not members:
            (device / "loop").mkdir()
        self._known(name, device)

    def mounted(self, point: str, name: str, kind: str = "xfs", *, number: str = "", options: str = "rw") -> None:
        """A device at a mount point; `number` where the file system counts its mounts itself (btrfs)."""
        number = number or (self.sys / "class" / "block" / name / "dev").read_text().strip()
        self.lines.append(f"{len(self.lines) + 30} 21 {number} / {point} {options} - {kind} /dev/{name} {options}")

    @property
    def mountinfo(self) -> str:
        """The text of /proc/self/mountinfo."""
        return "\n".join(self.lines) + "\n"

    def _known(self, name: str, device: Path) -> None:
        number, self._minor = f"259:{self._minor}", self._minor + 1
        (device / "dev").write_text(f"{number}\n")
        (self.sys / "dev" / "block" / number).symlink_to(device)
        (self.sys / "class" / "block" / name).symlink_to(device)
        if not (device / "partition").exists():
            (self.sys / "block" / name).symlink_to(device)


def al2023(machine: Machine, stores: int = 2) -> None:
    """setup-local-disks: all instance stores in one RAID0 array at /mnt/k8s-disks/0; without any nothing is mounted."""
    machine.disk("nvme0n1", EBS, partitions=1)
    machine.mounted("/", "nvme0n1p1")
    names = [f"nvme{n}n1" for n in range(1, stores + 1)]
    for name in names:
        machine.disk(name, STORE)
    if names:
        machine.made_of("md127", *names, level="raid0")
        machine.mounted("/mnt/k8s-disks/0", "md127")


def bottlerocket(machine: Machine, stores: int = 1) -> None:
    """Bottlerocket and Auto Mode: one disk as it is, several as an array, at /mnt/.ephemeral; the data volume is EBS."""
    machine.disk("nvme0n1", EBS, partitions=2)
    machine.disk("nvme1n1", EBS, partitions=1)
    machine.mounted("/", "nvme0n1p2", "ext4", options="ro")
    machine.mounted("/local", "nvme1n1p1")
    machine.mounted("/mnt", "nvme1n1p1")
    names = [f"nvme{n}n1" for n in range(2, stores + 2)]
    for name in names:
        machine.disk(name, STORE)
    if len(names) > 1:
        machine.made_of("md127", *names, level="raid0")
    if names:
        machine.mounted("/mnt/.ephemeral", "md127" if len(names) > 1 else names[0])
