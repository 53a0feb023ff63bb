"""What a node says of itself → what that means for its pods."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from glowplug.catalog.instances import instances
from glowplug.check import standing
from glowplug.check.node import Domain, Seen, checks, look
from glowplug.check.results import Check
from glowplug.check.standing import Fault, Standing
from glowplug.host import blocks, driver
from glowplug.host.blocks import Backing
from glowplug.host.mounts import Mount
from glowplug.host.space import Space
from glowplug.nodestore import layout
from tests.host.disks import STORE, Machine, al2023, bottlerocket

GB = 10**9
AL2023 = "/mnt/k8s-disks/0/glowplug"
BOTTLEROCKET = "/mnt/.ephemeral/glowplug"
ROOM = Space(3000 * GB, 9_000_000, 3800 * GB, 10_000_000)
KEYS = ("a" * 64, "b" * 64, "c" * 64)
H100 = ("NVIDIA H100 80GB HBM3",) * 8


def seen(machine: Machine, root: str = AL2023, other: str = BOTTLEROCKET, **more: Any) -> Seen:
    def below(path: str) -> Backing:
        return blocks.of(path, sys=machine.sys, mountinfo=machine.mountinfo)

    known: dict[str, Any] = {
        "space": ROOM,
        "cards": H100,
        "devices": 8,
        "driver": "580.126.20",
        "domains": (Domain("team-a", ready=True, keys=KEYS),),
    }
    stores = blocks.instance_stores(sys=machine.sys)
    return Seen(root, True, below(root), {other: below(other)}, stores, **{**known, **more})


def answers(node: Seen) -> dict[str, Check]:
    found = checks(node)
    assert len({check.name for check in found}) == len(found)
    return {check.name: check for check in found}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def good(machine: Machine) -> Seen:
    al2023(machine)
    return seen(machine)


def test_a_node_as_it_should_be(good: Seen) -> None:
    found = answers(good)
    assert list(found) == ["nvme", "file-system", "space", "inodes", "gpu", "driver", "store:team-a"]
    assert {check.status for check in found.values()} == {"pass"}
    assert found["nvme"].message == f"{AL2023} lies on NVMe of this machine: md127 (raid0: 2 × {STORE})"
    assert found["nvme"].evidence["disks"] == [{"name": f"nvme{n}n1", "model": STORE} for n in (1, 2)]
    assert found["gpu"].message == "8 × NVIDIA H100 80GB HBM3"
    store = {"domain": "team-a", "ready": True, "keys": 3, "key_digests": list(KEYS)}
    assert (found["store:team-a"].message, found["store:team-a"].evidence) == (
        "domain 'team-a' is ready, with 3 keys",
        store,
    )


def test_a_node_pool_without_an_instance_store_policy_leaves_its_disks_unused(machine: Machine) -> None:
    al2023(machine, 0)
    for name in ("nvme1n1", "nvme2n1"):
        machine.disk(name, STORE)
    nvme = answers(seen(machine))["nvme"]
    assert nvme.status == "fail"
    assert "has 2 instance store disks that it does not use" in nvme.message
    assert "instanceStorePolicy: RAID0" in nvme.hint


def test_the_other_image_s_path_is_named_where_that_one_is_on_nvme(machine: Machine) -> None:
    bottlerocket(machine)
    nvme = answers(seen(machine))["nvme"]
    assert nvme.status == "fail"
    assert nvme.hint.startswith(f"--root {BOTTLEROCKET} is on NVMe")


def test_an_instance_without_an_instance_store_warns(machine: Machine) -> None:
    al2023(machine, 0)
    nvme = answers(seen(machine))["nvme"]
    assert nvme.status == "warn"
    said = nvme.hint.partition("all but ")[2]
    for one in instances():
        assert (one.nvme_bytes == 0) == (re.search(rf"\b{one.family}\b", said) is not None), one.name


@pytest.mark.parametrize(
    ("kind", "status", "read_only"), [("tmpfs", "warn", False), ("nfs4", "fail", False), ("xfs", "fail", True)]
)
def test_file_systems_that_are_no_place_for_a_cache(good: Seen, kind: str, status: str, read_only: bool) -> None:
    mount = Mount("/mnt/k8s-disks/0", kind, "x", "0:50", read_only)
    assert answers(replace(good, backing=Backing(mount, why="w")))["file-system"].status == status


def test_from_a_container_where_nothing_is_mounted_nothing_is_known(machine: Machine) -> None:
    found = answers(seen(machine, domains=None))
    assert found["nvme"].status == "unknown"
    assert "file-system" not in found
    assert found["store"].status == "unknown"


@pytest.mark.parametrize(
    ("room", "space", "inodes"),
    [
        (Space(GB // 2, 9, 3800 * GB, 10), "fail", "pass"),
        (Space(9 * GB, 9, 20 * GB, 10), "warn", "pass"),
        (Space(300 * GB, 9, 3800 * GB, 10), "warn", "pass"),
        (Space(3000 * GB, 4, 3800 * GB, 100), "pass", "warn"),
        (Space(3000 * GB, None, 3800 * GB, None), "pass", "pass"),
        (None, "unknown", None),
    ],
)
def test_room(good: Seen, room: Space | None, space: str, inodes: str | None) -> None:
    found = answers(replace(good, space=room))
    assert found["space"].status == space
    assert (found["inodes"].status if "inodes" in found else None) == inodes


@pytest.mark.parametrize(
    ("cards", "devices", "version", "gpu", "drivers"),
    [
        (H100, 8, "580.126.20", "pass", "pass"),
        (H100, None, "580.126.20", "pass", "pass"),
        (("NVIDIA L4", "NVIDIA H200"), 2, "580.126.20", "warn", "pass"),
        ((), 8, "", "fail", "fail"),
        ((), 0, "", "pass", "pass"),
        ((), None, "", "unknown", "unknown"),
    ],
)
def test_gpus_and_driver(
    good: Seen, cards: tuple[str, ...], devices: int | None, version: str, gpu: str, drivers: str
) -> None:
    found = answers(replace(good, cards=cards, devices=devices, driver=version))
    assert (found["gpu"].status, found["driver"].status) == (gpu, drivers)


def test_a_domain_that_is_not_ready_warns(good: Seen) -> None:
    """And the agent that it names is that of this node, not any."""
    found = answers(replace(good, node="n-7", domains=(Domain("team-a", True, KEYS), Domain("team-b", False, ()))))
    assert (found["store:team-a"].status, found["store:team-b"].status) == ("pass", "warn")
    agent = "kubectl -n glowplug-system get pods -l app=glowplug-agent --field-selector spec.nodeName=n-7"
    assert found["store:team-b"].hint.endswith(agent)


@pytest.mark.parametrize("ready", [True, False])
def test_a_domain_that_the_store_gives_nothing_says_what_the_agent_was_told_last(good: Seen, ready: bool) -> None:
    fault = Fault("no_bucket", "there is no bucket lab-x", "2026-12-01T00:00:00.000Z", "2026-12-01T00:05:00.000Z")
    said = Standing("n-7", {"team-a": fault})
    check = answers(replace(good, standing=said, domains=(Domain("team-a", ready, KEYS),)))["store:team-a"]
    assert check.status == "warn"
    assert "no_bucket: there is no bucket lab-x (last at 2026-12-01T00:05:00.000Z, since" in check.message
    assert check.evidence["fault"]["code"] == "no_bucket"


@pytest.mark.parametrize(
    ("said", "status", "words"),
    [
        (None, "warn", "its pods wait 15 s in vain, and start cold"),
        (Standing("n-7", strangers={"team-b": "team-b/llama-0"}), "warn", "pod team-b/llama-0 is of it"),
        (
            Standing("n-7", strangers={"team-c": "team-c/llama-0"}),
            "pass",
            "what is left of it is removed after a while",
        ),
    ],
    ids=["no agent was here", "one is here, and pods", "one is here, and no pod"],
)
def test_a_domain_that_no_agent_keeps_does_not_wait_for_one(
    good: Seen, said: Standing | None, status: str, words: str
) -> None:
    found = answers(replace(good, standing=said, domains=(Domain("team-b", False, (), kept=False),)))["store:team-b"]
    assert found.status == status
    assert found.message.startswith("no agent keeps domain 'team-b'")
    assert words in found.message


def test_a_root_that_does_not_exist_is_called_so(tmp_path: Path) -> None:
    found = answers(look(tmp_path / "not" / "there"))
    assert all(f"{tmp_path}/not/there does not exist" in found[name].message for name in ("nvme", "store"))


def test_what_the_agent_says_of_itself_is_read_as_it_was_written(tmp_path: Path) -> None:
    said = Standing("n-7", {"a": Fault("no_bucket", "x", "s", "t")}, {"b": "b/p"})
    standing.write(tmp_path, said)
    assert look(tmp_path).standing == said
    assert (look(tmp_path).node, look(tmp_path, node="n-8").node) == ("n-7", "n-8")
    (tmp_path / ".glowplug" / standing.NAME).write_text('{"schema": "glowplug.agent/1", "faults": []}')
    assert look(tmp_path).standing == Standing()
    (tmp_path / ".glowplug" / standing.NAME).write_text("no")
    assert look(tmp_path).standing is None


def test_a_node_store_is_looked_at_and_nothing_is_written(tmp_path: Path) -> None:
    store = layout.store(tmp_path, "team-a")
    (store / ("0" * 64)).mkdir(parents=True)
    (store / ".gone-1").mkdir()
    before = sorted(tmp_path.rglob("*"))
    assert look(tmp_path).domains == (Domain("team-a", ready=False, keys=("0" * 64,), kept=False),)
    (store / layout.READY).touch()
    (store / layout.PROGRAM).touch()
    assert look(tmp_path).domains == (Domain("team-a", ready=True, keys=("0" * 64,)),)
    (store / layout.READY).unlink()
    (store / layout.PROGRAM).unlink()
    assert sorted(tmp_path.rglob("*")) == before


def test_this_machine_has_an_answer_to_everything(tmp_path: Path) -> None:
    found = answers(look(tmp_path / "not" / "there", [tmp_path]))
    assert {"nvme", "space", "inodes", "gpu", "driver", "store"} <= set(found)
    assert not (tmp_path / "not").exists()


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Thu May  2 14:37:44 UTC 2024\nGCC version: 11.4.0",
            "470.256.02",
        ),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.126.20  Release Build  (root)\n", "580.126.20"),
        ("", ""),
    ],
)
def test_the_driver_s_version(tmp_path: Path, text: str, version: str) -> None:
    (tmp_path / "version").write_text(text)
    assert driver.version(tmp_path / "version", tmp_path) == version
    module = tmp_path / "module" / "nvidia"
    module.mkdir(parents=True)
    (module / "version").write_text("590.48.01\n")
    assert driver.version(tmp_path / "version", tmp_path) == "590.48.01"


def test_gpus_on_the_bus(tmp_path: Path) -> None:
    assert driver.devices(tmp_path) is None
    for name, vendor, kind in (("a", "0x10de", "0x030200"), ("b", "0x10de", "0x040300"), ("c", "0x1d0f", "0x030000")):
        device = tmp_path / "bus" / "pci" / "devices" / name
        device.mkdir(parents=True)
        (device / "vendor").write_text(f"{vendor}\n")
        (device / "class").write_text(f"{kind}\n")
    assert driver.devices(tmp_path) == 1
