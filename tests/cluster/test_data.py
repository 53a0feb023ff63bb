"""What of the cluster is data and can be looked at without one: images, addresses, pods, and who owns what is left."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
import tempfile
import threading
from pathlib import Path

import pytest

from lab import cluster
from lab.cluster import cgroups, images, leftovers, machine, network, pods


def test_a_packed_image_is_an_oci_archive_whose_digests_hold(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc" / "hello").write_text("hello")
    archive = tmp_path / "image.tar"
    images.pack(archive, "glowplug.lab/hello:7", root, ["/bin/true"], env=["A=b"])
    with tarfile.open(archive) as tar:
        files = {one.name: tar.extractfile(one).read() for one in tar.getmembers() if one.isfile()}  # type: ignore[union-attr]
    blobs = {name.rpartition("/")[2]: content for name, content in files.items() if name.startswith("blobs/sha256/")}
    assert {hashlib.sha256(content).hexdigest() for content in blobs.values()} == set(blobs)
    (listed,) = json.loads(files["index.json"])["manifests"]
    assert listed["annotations"]["io.containerd.image.name"] == "glowplug.lab/hello:7"
    manifest = json.loads(blobs[listed["digest"].partition(":")[2]])
    config = json.loads(blobs[manifest["config"]["digest"].partition(":")[2]])
    assert (config["config"]["Cmd"], config["config"]["Env"][-1]) == (["/bin/true"], "A=b")
    (layer,) = manifest["layers"]
    assert config["rootfs"]["diff_ids"] == [layer["digest"]]
    (tmp_path / "layer").write_bytes(blobs[layer["digest"].partition(":")[2]])
    with tarfile.open(tmp_path / "layer") as tar:
        assert [(one.name, one.uid, one.gid) for one in tar.getmembers()] == [("etc", 0, 0), ("etc/hello", 0, 0)]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("image")] == ["image.tar"]


@pytest.mark.parametrize(
    ("routes", "octet"),
    [
        (["default", "192.0.2.0/24"], 200),
        (["10.200.3.0/24"], 201),
        (["10.200.0.7", "10.201.0.0/16"], 202),
        (["10.192.0.0/12"], 208),
    ],
)
def test_a_cluster_takes_addresses_into_which_no_route_leads(
    monkeypatch: pytest.MonkeyPatch, routes: list[str], octet: int
) -> None:
    monkeypatch.setattr(network, "ip", lambda *_: json.dumps([{"dst": one} for one in routes]))
    assert network.choose() == network.Plan(octet)


def test_a_machine_whose_routes_lead_everywhere_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "ip", lambda *_: json.dumps([{"dst": "10.0.0.0/8"}]))
    with pytest.raises(OSError, match="routes lead into every network"):
        network.choose()


def test_the_link_of_a_cluster_bears_its_name_and_is_short_enough() -> None:
    assert network.link_name("glowplug-cluster-ab_c12xy") == "gp-ab_c12xy"
    assert len(network.link_name("glowplug-cluster-0123456789abcdef")) == 15


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty directory where clusters have theirs; no control group is seen, and nothing of the kernel is touched."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(cgroups, "hierarchies", lambda: ())
    monkeypatch.setattr(cgroups, "end", lambda _: set())
    monkeypatch.setattr(network, "disconnect", lambda _: None)
    return tmp_path


def test_only_what_nobody_holds_is_removed(place: Path) -> None:
    (place / "another").mkdir()
    (place / "glowplug-clusters").touch()
    held, harness_lock = leftovers.begin()
    left, lost_lock = leftovers.begin()
    os.close(lost_lock)
    (left / "file").touch()
    assert {one.name: one.state for one in leftovers.found()} == {
        held.name: leftovers.State.HELD,
        left.name: leftovers.State.LEFT,
    }
    assert leftovers.clean(prompts=True) == ([left.name], [held.name])
    assert sorted(path.name for path in place.iterdir()) == sorted([held.name, "another", "glowplug-clusters"])
    os.close(harness_lock)
    assert leftovers.clean(prompts=False) == ([held.name], [])


def test_what_its_keeper_removes_is_waited_for(place: Path) -> None:
    base, lock = leftovers.begin()
    keeper_lock = leftovers.hold(base / leftovers.KEEPER)
    os.close(lock)
    assert [one.state for one in leftovers.found()] == [leftovers.State.ENDING]
    threading.Timer(0.3, os.close, [keeper_lock]).start()
    assert leftovers.clean(prompts=False) == ([base.name], [])


def test_a_prompt_s_number_that_was_given_to_another_process_is_not_its_process(place: Path) -> None:
    base, lock = leftovers.begin()
    leftovers.claim_for_prompt(base)
    (one,) = leftovers.found()
    assert one.at_prompt
    document = json.loads((base / "prompt.json").read_text())
    (base / "prompt.json").write_text(json.dumps(document | {"began": "1"}))
    (one,) = leftovers.found()
    assert not one.at_prompt
    os.close(lock)


def test_no_two_hold_one_cluster(place: Path) -> None:
    base, lock = leftovers.begin()
    with pytest.raises(BlockingIOError):
        leftovers.hold(base / leftovers.HARNESS)
    os.close(lock)


def test_a_pod_s_volumes_are_what_was_asked_for() -> None:
    pod = pods.pod(
        "p",
        ["true"],
        host_paths={"/disk": "/mnt/k8s-disks/0"},
        read_only=["/usr"],
        empty_dirs=["/dev/shm", "/scratch"],
        node="node-1",
        hostNetwork=True,
    )
    mounts = {one["mountPath"]: one for one in pod["spec"]["containers"][0]["volumeMounts"]}
    volumes = {one["name"]: one for one in pod["spec"]["volumes"]}
    sources = {path: volumes[one["name"]] for path, one in mounts.items()}
    assert sources["/disk"]["hostPath"] == {"path": "/mnt/k8s-disks/0", "type": "DirectoryOrCreate"}
    assert sources["/usr"]["hostPath"] == {"path": "/usr"}
    assert [path for path, one in mounts.items() if one.get("readOnly")] == ["/usr"]
    assert (sources["/dev/shm"]["emptyDir"], sources["/scratch"]["emptyDir"]) == ({"medium": "Memory"}, {})
    assert pod["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "node-1"}
    assert pod["spec"]["hostNetwork"]


def test_no_path_is_shown_twice() -> None:
    for paths in (pods.engine_paths(Path("/cache/engine/bin/python")), pods.glowplug_paths()):
        assert len(paths) == len(set(paths))
        assert not [one for one in paths for other in paths if one != other and Path(one).is_relative_to(other)]
    assert "/cache/engine" in pods.engine_paths(Path("/cache/engine/bin/python"))


@pytest.mark.parametrize(
    ("mounts", "says"),
    [
        ("cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0", "no cgroup version 1 hierarchy for cpu, cpuset"),
        (
            "\n".join(
                f"cgroup /sys/fs/cgroup/{one} cgroup rw,relatime,{one} 0 0"
                for one in ("cpu,cpuacct", "cpuset", "memory", "pids", "devices", "freezer")
            ),
            "",
        ),
    ],
    ids=["version 2", "version 1"],
)
def test_a_machine_without_control_groups_of_version_1_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounts: str, says: str
) -> None:
    (tmp_path / "mounts").write_text(mounts)
    monkeypatch.setattr(cgroups, "_MOUNTS", tmp_path / "mounts")
    assert cgroups.missing().startswith(says)
    assert bool(cgroups.missing()) == bool(says)


def test_who_is_not_root_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert cluster.missing() == "not root"


def test_a_node_s_task_is_read_as_it_was_written(tmp_path: Path) -> None:
    task = machine.Task(
        "c", "node-1", 1, 200, str(tmp_path), ("/a",), {"kubelet": "/k"}, ("/i.tar",), {"a": "b"}, ("t=:NoSchedule",)
    )
    assert machine.read(task.write()) == task
    assert task.group == "c/node-1"
