"""Where an agent keeps its things: on the instance store, wherever this node's image mounts that."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from glowplug.agent.root import ROOTS, Root, find
from glowplug.core.errors import UsageError
from glowplug.host import blocks
from tests.host.disks import Machine, al2023, bottlerocket

AL2023, BOTTLEROCKET = ROOTS


def found(machine: Machine, candidates: tuple[Path, ...] = ROOTS, *, require: bool = False) -> Root:
    return find(candidates, require, backing=lambda path: blocks.of(path, sys=machine.sys, mountinfo=machine.mountinfo))


def test_the_defaults_are_those_of_the_node_images() -> None:
    assert [str(path) for path in ROOTS] == [
        "/mnt/k8s-disks/0/glowplug",
        "/mnt/.ephemeral/glowplug",
    ]


def test_the_first_that_is_nvme_backed(tmp_path: Path) -> None:
    first, second = Machine(tmp_path / "1"), Machine(tmp_path / "2")
    al2023(first)
    bottlerocket(second)
    assert (found(first).path, found(first).nvme_backed) == (AL2023, True)
    assert (found(second).path, found(second).nvme_backed) == (BOTTLEROCKET, True)
    assert found(second, require=True).kept


def test_without_one_the_first_and_nothing_is_kept_there_where_one_was_demanded(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    al2023(machine, 0)
    lax, strict = found(machine), found(machine, require=True)
    assert (lax.path, lax.nvme_backed, lax.kept) == (AL2023, False, True)
    assert (strict.path, strict.nvme_backed, strict.kept) == (AL2023, False, False)


def test_why_is_said_of_the_one_that_is_taken_or_of_all(tmp_path: Path) -> None:
    with_, without = Machine(tmp_path / "1"), Machine(tmp_path / "2")
    al2023(with_)
    bottlerocket(without, 0)
    assert found(with_).why == snapshot(
        "/mnt/k8s-disks/0/glowplug on md127 (raid0): 2 × Amazon EC2 NVMe Instance Storage"
    )
    assert found(without).why == snapshot(
        "/mnt/k8s-disks/0/glowplug on nvme1n1p1: 1 × Amazon Elastic Block Store; "
        "/mnt/.ephemeral/glowplug on nvme1n1p1: 1 × Amazon Elastic Block Store"
    )


def test_a_directory_that_is_named_is_the_only_one(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    al2023(machine)
    one = found(machine, (Path("/data"),))
    assert (one.path, one.nvme_backed) == (Path("/data"), False)
    assert found(machine, (Path("/mnt/k8s-disks/0/other"),)).nvme_backed


def test_none_is_named() -> None:
    with pytest.raises(UsageError):
        find(())
