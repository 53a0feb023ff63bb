"""Real nodes: what pods on them see, what reaches whom, and what happens when a node crashes or one more comes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import cluster, s3
from lab.cluster import images, pods, spaces
from lab.kube.client import wait_for
from tests.parts import requires

pytestmark = [requires("cluster", "s3"), pytest.mark.slow]
_GPUS = {"nvidia.com/gpu.product": "NVIDIA-L40S", "node.kubernetes.io/instance-type": "g6e.xlarge"}


@pytest.fixture(scope="module")
def running() -> Iterator[cluster.Cluster]:
    with cluster.up(nodes=2, buckets=["models"]) as one:
        yield one


_WRITES_TO_S3 = """
import os, pathlib, socket
from lab import s3
for directory in ("/disk", "/scratch"):
    pathlib.Path(directory, "written").write_text(os.environ["NODE"])
server = s3.Server(int(os.environ["PORT"]), host=os.environ["HOST"])
print(server.request("PUT", "/models/from-" + os.environ["NODE"], b"bytes"), os.path.ismount("/scratch"))
"""


def test_a_pod_on_each_node_has_its_disk_and_reaches_s3(running: cluster.Cluster) -> None:
    for name, node in running.nodes.items():
        pod = pods.pod(
            f"writes-{name}",
            ["python3", "-c", _WRITES_TO_S3],
            env={
                "NODE": name,
                "HOST": running.s3.host,
                "PORT": str(running.s3.port),
                "PYTHONPATH": str(spaces.CHECKOUT),
            },
            host_paths={"/disk": "/mnt/k8s-disks/0/mine"},
            empty_dirs=["/scratch"],
            read_only=[str(spaces.CHECKOUT)],
            node=name,
        )
        assert running.run(pod) == "(200, b'') True\n", "its log came through the API server"
        assert (node.disk / "mine" / "written").read_text() == name, "each node has a disk of its own"
        assert running.s3.request("GET", f"/models/from-{name}") == (200, b"bytes")
    assert running.s3_url == f"http://{running.s3.host}:{running.s3.port}"


_ASKS_THE_SERVER = """
import json, os, ssl, urllib.request
here = "/var/run/secrets/kubernetes.io/serviceaccount/"
url = "https://" + os.environ["KUBERNETES_SERVICE_HOST"] + "/version"
request = urllib.request.Request(url, headers={"Authorization": "Bearer " + open(here + "token").read()})
context = ssl.create_default_context(cafile=here + "ca.crt")
print(json.load(urllib.request.urlopen(request, context=context, timeout=20))["gitVersion"])
"""


def test_a_pod_speaks_to_the_api_server_by_its_service_address(running: cluster.Cluster) -> None:
    version = running.run(pods.pod("asks", ["python3", "-c", _ASKS_THE_SERVER]))
    assert version.strip() == running.kube.admin.request("GET", "/version").document["gitVersion"]


_ASKS_UNTIL_ANSWERED = """
import sys, time, urllib.request
for _ in range(100):
    try:
        print(urllib.request.urlopen(sys.argv[1], timeout=5).status)
        break
    except OSError:
        time.sleep(0.2)
"""


def test_pods_reach_each_other_across_nodes_and_are_reached_from_here(running: cluster.Cluster) -> None:
    serve = ["python3", "-m", "http.server", "8000", "--directory", "/etc"]
    running.kube.admin.create(pods.pod("serves", serve, node="node-1"))
    address = running.wait_for_pod("serves", pods.is_ready)["status"]["podIP"]
    asks = pods.pod("asks-it", ["python3", "-c", _ASKS_UNTIL_ANSWERED, f"http://{address}:8000/passwd"], node="node-2")
    assert running.run(asks) == "200\n"
    assert s3.Server(8000, host=address).request("GET", "/passwd")[0] == 200


def test_a_pod_reaches_nothing_outside(running: cluster.Cluster) -> None:
    code = "import socket\ntry: socket.create_connection(('203.0.113.1', 80), timeout=20)\nexcept OSError as e: print(e.errno)"
    began = time.monotonic()
    assert running.run(pods.pod("goes-out", ["python3", "-c", code])).strip() in (
        "101",
        "113",
    )  # ENETUNREACH, EHOSTUNREACH
    assert time.monotonic() - began < 15, "it is told so, and does not wait"


def test_a_node_sees_its_own_directories_and_the_machine_s_others(running: cluster.Cluster, tmp_path: Path) -> None:
    here, there = running.nodes.values()
    here.path("/tmp/own").write_text("x")
    assert here.run(["cat", "/tmp/own"]).stdout == "x"
    assert there.run(["cat", "/tmp/own"]).returncode != 0
    assert here.run(["test", "-e", str(tmp_path)]).returncode != 0
    assert here.run(["hostname"]).stdout == "node-1\n"
    with pytest.raises(ValueError, match="not the node's own"):
        here.path("/usr/bin")
    identities = {
        running.kube.admin.get("v1", "Node", name).document["status"]["nodeInfo"]["machineID"] for name in running.nodes
    }
    assert len(identities) == 2


def test_an_image_of_one_s_own_is_on_every_node(running: cluster.Cluster, tmp_path: Path) -> None:
    root = tmp_path / "root"
    for directory in ("bin", "lib64"):
        (root / directory).mkdir(parents=True)
    (root / "message").write_text("packed\n")
    archive = tmp_path / "own.tar"
    images.pack(archive, "glowplug.lab/own:1", root, env=["KIND=own"])
    running.load_image(archive)
    for name in running.nodes:
        pod = pods.pod(
            f"own-{name}",
            ["/usr/bin/cat", "/message"],
            image="glowplug.lab/own:1",
            read_only=[path for path in ("/usr", "/lib", "/lib64") if Path(path).is_dir()],
            node=name,
        )
        assert running.run(pod) == "packed\n"


def test_what_waited_for_a_gpu_runs_on_the_node_that_comes(running: cluster.Cluster) -> None:
    waits = pods.pod(
        "waits",
        ["sh", "-c", "echo on $NODE"],
        nodeSelector={"nvidia.com/gpu.product": "NVIDIA-L40S"},
        tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}],
    )
    container = waits["spec"]["containers"][0]
    container["resources"] = {"limits": {cluster.GPU: "2"}}
    container["env"] = [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]
    running.kube.admin.create(waits)

    def refused() -> bool:
        conditions = running.pod("waits")["status"].get("conditions", ())
        return any(one["reason"] == "Unschedulable" for one in conditions if one["type"] == "PodScheduled")

    wait_for(30, "the scheduler finds no node", refused)
    node = running.add_node(labels=_GPUS, taints=["nvidia.com/gpu=true:NoSchedule"], gpus=2)
    assert node.name == "node-3"
    running.wait_for_pod("waits", pods.has_ended)
    assert running.logs("waits") == "on node-3\n"
    document = running.kube.admin.get("v1", "Node", "node-3").document
    assert document["metadata"]["labels"].items() >= _GPUS.items()
    assert document["status"]["allocatable"][cluster.GPU] == "2"


def test_a_crashed_node_is_missed_and_comes_back_with_its_disk_and_its_pods(running: cluster.Cluster) -> None:
    node = running.nodes["node-2"]
    (node.disk / "kept").write_text("kept\n")
    stays = pods.pod(
        "stays",
        ["sh", "-c", "cat /disk/kept; exec sleep 1000"],
        host_paths={"/disk": "/mnt/k8s-disks/0"},
        node="node-2",
    )
    stays["spec"]["restartPolicy"] = "Always"
    running.kube.admin.create(stays)
    running.wait_for_pod("stays", pods.is_ready)

    def boot() -> str:
        identity: str = running.kube.admin.get("v1", "Node", "node-2").document["status"]["nodeInfo"]["bootID"]
        return identity

    first = boot()
    node.crash()
    assert not node.running
    with pytest.raises(OSError, match="does not run"):
        node.run(["true"])
    wait_for(90, "node-2 is missed", lambda: not node.ready)
    node.restart()

    def again() -> bool:
        (status,) = running.pod("stays")["status"]["containerStatuses"]
        return bool(status["restartCount"]) and pods.is_ready(running.pod("stays"))

    wait_for(90, "its pod runs again", again)
    wait_for(30, "what it printed is there", lambda: running.logs("stays") == "kept\n")
    assert boot() != first


_COUNTS = """
import itertools, pathlib, time
for number in itertools.count():
    pathlib.Path("/disk/count").write_text(str(number))
    time.sleep(0.1)
"""


def test_a_paused_node_is_silent_and_goes_on_where_it_was(running: cluster.Cluster) -> None:
    node = running.nodes["node-1"]
    counts = pods.pod("counts", ["python3", "-c", _COUNTS], host_paths={"/disk": "/mnt/k8s-disks/0"}, node="node-1")
    running.kube.admin.create(counts)
    file = node.disk / "count"

    def now() -> int:
        return int(file.read_text() or 0) if file.exists() else 0

    wait_for(60, "the pod counts", lambda: now() > 5)
    node.pause()
    before = now()
    time.sleep(1)
    assert now() == before
    wait_for(90, "node-1 is missed", lambda: not node.ready)
    node.resume()
    node.wait_until_ready()
    wait_for(60, "the pod counts on", lambda: now() > before + 5)
    assert running.pod("counts")["status"]["containerStatuses"][0]["restartCount"] == 0
