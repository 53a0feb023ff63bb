"""What a directory really lies on: on the layouts of EKS' node images, and on what is neither."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from glowplug.host import blocks
from glowplug.host.blocks import Backing, Disk
from tests.host.disks import EBS, STORE, Machine, al2023, bottlerocket


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def backing(machine: Machine, path: str) -> Backing:
    return blocks.of(path, sys=machine.sys, mountinfo=machine.mountinfo)


@pytest.mark.parametrize("stores", [1, 2, 8])
def test_al2023_with_instance_store(machine: Machine, stores: int) -> None:
    al2023(machine, stores)
    found = backing(machine, "/mnt/k8s-disks/0/glowplug")
    assert found.nvme
    assert (found.device, found.level) == ("md127", "raid0")
    assert found.disks == tuple(Disk(f"nvme{n}n1", STORE, local=True) for n in range(1, stores + 1))


def test_al2023_without_instance_store_lands_on_the_root_volume(machine: Machine) -> None:
    al2023(machine, 0)
    found = backing(machine, "/mnt/k8s-disks/0/glowplug")
    assert not found.nvme
    assert (found.device, found.disks) == ("nvme0n1p1", (Disk("nvme0n1", EBS, local=False),))


@pytest.mark.parametrize(("stores", "device"), [(1, "nvme2n1"), (4, "md127")])
def test_bottlerocket_with_instance_store(machine: Machine, stores: int, device: str) -> None:
    bottlerocket(machine, stores)
    found = backing(machine, "/mnt/.ephemeral/glowplug")
    assert found.nvme
    assert found.device == device
    assert not backing(machine, "/mnt/k8s-disks/0/glowplug").nvme


def test_bottlerocket_without_instance_store_lands_on_the_data_volume(machine: Machine) -> None:
    bottlerocket(machine, 0)
    assert [disk.model for disk in backing(machine, "/mnt/.ephemeral/glowplug").disks] == [EBS]


def test_an_array_with_one_leg_on_the_network_is_not_nvme(machine: Machine) -> None:
    machine.disk("nvme0n1", EBS)
    machine.disk("nvme1n1", STORE)
    machine.made_of("md0", "nvme0n1", "nvme1n1", level="raid1")
    machine.mounted("/data", "md0")
    assert not backing(machine, "/data").nvme
    assert len(backing(machine, "/data").disks) == 2


def test_a_logical_volume_on_an_encrypted_array_of_partitions(machine: Machine) -> None:
    for name in ("nvme0n1", "nvme1n1"):
        machine.disk(name, STORE, partitions=1)
    machine.made_of("md0", "nvme0n1p1", "nvme1n1p1", level="raid0")
    machine.made_of("dm-0", "md0")
    machine.made_of("dm-1", "dm-0")
    machine.mounted("/data", "dm-1")
    assert backing(machine, "/data").nvme
    assert [disk.name for disk in backing(machine, "/data").disks] == ["nvme0n1", "nvme1n1"]


@pytest.mark.parametrize(
    ("model", "transport", "local"),
    [
        (STORE, "pcie", True),
        ("Samsung SSD 990 PRO 2TB", "pcie", True),
        ("nvme_card", "", True),
        ("Microsoft NVMe Direct Disk v2", "", True),
        (EBS, "pcie", False),
        ("nvme_card-pd", "", False),
        ("MSFT NVMe Accelerator v1.0", "pcie", False),
        ("Linux", "tcp", False),
        ("Linux", "rdma", False),
        ("", "", False),
    ],
)
def test_nvme_by_its_model_and_its_transport(machine: Machine, model: str, transport: str, local: bool) -> None:
    machine.disk("nvme0n1", model, transport=transport)
    machine.mounted("/data", "nvme0n1")
    assert backing(machine, "/data").nvme is local


def test_a_disk_of_another_kind_is_none_whatever_its_model_says(machine: Machine) -> None:
    machine.disk("sda", STORE)
    machine.mounted("/data", "sda")
    assert not backing(machine, "/data").nvme


def test_a_file_behind_a_loop_device_is_not_followed(machine: Machine) -> None:
    machine.made_of("loop0")
    machine.mounted("/data", "loop0", "ext4")
    found = backing(machine, "/data")
    assert not found.nvme
    assert found.why == "it is not known what loop0 is made of"


def test_a_file_system_that_counts_its_mounts_itself(machine: Machine) -> None:
    machine.disk("nvme1n1", STORE)
    machine.mounted("/data", "nvme1n1", "btrfs", number="0:44")
    assert backing(machine, "/data").nvme


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("40 21 0:50 / /data rw - tmpfs tmpfs rw", "it lies in memory (tmpfs)"),
        ("40 21 0:50 / /data rw - nfs4 fs-1:/ rw", "it lies on another machine (nfs4)"),
        ("40 21 0:50 / /data rw - overlay overlay rw", "it lies in the container's own layer"),
        ("40 21 0:50 / /data rw - virtiofs share rw", "no block device is known for virtiofs on share"),
        ("40 21 259:99 / /data rw - xfs /dev/nvme9n1 rw", "cannot be read"),
    ],
)
def test_why_nothing_is_known(machine: Machine, line: str, why: str) -> None:
    machine.lines.append(line)
    found = backing(machine, "/data/glowplug")
    assert not found.nvme
    assert why in found.why


def test_disks_that_nobody_mounted_are_found(machine: Machine) -> None:
    al2023(machine, 2)
    assert [disk.name for disk in blocks.instance_stores(sys=machine.sys)] == ["nvme1n1", "nvme2n1"]
    assert blocks.instance_stores(sys=machine.sys / "nowhere") == ()


def test_a_ring_of_devices_ends(machine: Machine) -> None:
    machine.made_of("dm-0", level="")
    slaves = machine.sys / "devices" / "virtual" / "block" / "dm-0" / "slaves"
    (slaves / "dm-0").symlink_to(slaves.parent)
    machine.mounted("/data", "dm-0")
    assert not backing(machine, "/data").nvme


def test_this_machine(tmp_path: Path) -> None:
    """Whatever it is: a known answer or a reason, and the device's number is the file system's."""
    found = blocks.of(str(tmp_path / "not" / "there"))
    assert bool(found.why) != bool(found.disks)
    if found.disks:
        number = tmp_path.stat().st_dev
        assert Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve().name == found.device
