"""`glowplug startup pod/… deploy/… -l …`, asked of a real API server; only the kubelet behind the logs is a stand-in."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from glowplug.cli.main import main
from glowplug.core.clock import from_iso, iso
from lab import kube
from tests.parts import requires
from tests.starts.kubelet import Kubelet, log_from, serving

pytestmark = requires("kube")
Object = dict[str, Any]
COLD, HIT = "vllm-0.32.0-aot-1-cold.log", "vllm-0.32.0-aot-2-hit.log"
COMMAND = ["vllm", "serve", "s3://models/tiny-llama"]


def whole(seconds: float) -> str:
    """A moment as the API has it."""
    return iso(seconds // 1)[:19] + "Z"


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch, kube_server: kube.Server, tmp_path: Any) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("KUBECONFIG", str(kube_server.kubeconfig(kube_server.administrator)))


@pytest.fixture
def kubelet(kube_server: kube.Server) -> Iterator[Kubelet]:
    """A node with the kubelet's part, in a namespace of the same name."""
    own = f"s-{uuid.uuid4().hex[:8]}"
    kube_server.make_namespace(own)
    with serving(kube_server, own, {"node.kubernetes.io/instance-type": "p5.48xlarge"}) as kubelet:
        yield kubelet


@pytest.fixture
def make(kube_server: kube.Server, kubelet: Kubelet) -> Callable[..., tuple[Object, float]]:
    """Makes a pod of an engine on the node; says when it was created too."""

    def make(name: str, labels: Any = None, *, bound: bool = True) -> tuple[Object, float]:
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": kubelet.node, "labels": labels or {}},
            "spec": {
                **({"nodeName": kubelet.node} if bound else {}),
                "containers": [
                    {"name": "proxy", "image": "proxy:1"},
                    {
                        "name": "engine",
                        "image": "vllm/vllm-openai:v0.32.0",
                        "command": COMMAND,
                        "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 5},
                    },
                ],
            },
        }
        made = kube_server.admin.create(document).document
        return made, from_iso(made["metadata"]["creationTimestamp"])

    return make


@pytest.fixture
def tell(kube_server: kube.Server) -> Callable[..., None]:
    """Sets a pod's status, as kubelet does."""

    def tell(pod: Object, engine: Object, conditions: Any = (), **status: Any) -> None:
        listed = [{"type": kind, "status": "True", "lastTransitionTime": whole(at)} for kind, at in conditions]
        container = {
            "name": "engine",
            "image": "i",
            "imageID": "i@sha256:1",
            "ready": True,
            "restartCount": 0,
            **engine,
        }
        change = {"status": {"conditions": listed, "containerStatuses": [container], **status}}
        kube_server.admin.patch(pod, change, subresource="status")

    return tell


@pytest.fixture
def event(kube_server: kube.Server) -> Callable[..., None]:
    def event(pod: Object, reason: str, at: float, message: str = "", **fields: Any) -> None:
        metadata = pod["metadata"]
        about = {"kind": "Pod", **{name: metadata[name] for name in ("name", "namespace", "uid")}}
        kube_server.admin.create(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": uuid.uuid4().hex, "namespace": metadata["namespace"]},
                "involvedObject": about,
                "reason": reason,
                "message": message,
                "firstTimestamp": whole(at),
                "lastTimestamp": whole(at),
                **fields,
            }
        )

    return event


def asked(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> list[Object]:
    assert main(["startup", *arguments, "-o", "json"]) == status
    starts: list[Object] = json.loads(capsys.readouterr().out)["starts"]
    return starts


def phases(start: Object) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in start["phases"]:
        found[one["name"]] = found.get(one["name"], 0.0) + one["seconds"]
    return found


def test_a_pod_from_its_creation_until_it_counts_as_ready(
    capsys: Any, kubelet: Kubelet, make: Any, tell: Any, event: Any
) -> None:
    pod, created = make("vllm-0")
    kubelet.logs["vllm-0", False] = log_from(COLD, created + 62.5)
    event(pod, "Scheduled", created + 3, "Successfully assigned")
    event(
        pod,
        "Pulled",
        created + 58,
        'Successfully pulled image "i" in 50s (53.5s including waiting). Image size: 9 bytes.',
    )
    engine = {"state": {"running": {"startedAt": whole(created + 60)}}}
    ready = created + 62 + 90
    tell(pod, engine, [("PodScheduled", created + 3), ("Ready", ready)])
    (start,) = asked(capsys, "pod/vllm-0", "-n", kubelet.node)
    seen = phases(start)
    assert start["source"] == "pod"
    assert start["verdict"]["compile"] == "miss"
    assert start["workload"]["engine"] == "vllm"
    assert (seen["schedule"], seen["image_pull"]) == (3.0, 53.5)
    assert 2 <= seen["process"] < 3
    assert {"imports", "compile", "ready"} <= set(seen)
    assert start["ready_seconds"] == pytest.approx(sum(seen.values()), abs=1e-3)
    assert start["started_at"] == iso(created)
    assert start["kubernetes"].items() >= {
        "namespace": kubelet.node, "pod": "vllm-0", "node": kubelet.node, "container": "engine",
        "instance_type": "p5.48xlarge", "image_id": "i@sha256:1", "run": 1, "restarts": 0,
    }.items()  # fmt: skip


def test_pods_of_a_deployment_are_compared_to_the_oldest(
    capsys: Any, kube_server: kube.Server, kubelet: Kubelet, make: Any, tell: Any
) -> None:
    template = {"metadata": {"labels": {"app": "v"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    expression = {"key": "canary", "operator": "DoesNotExist"}
    spec = {"selector": {"matchLabels": {"app": "v"}, "matchExpressions": [expression]}, "template": template}
    metadata = {"name": "vllm", "namespace": kubelet.node}
    kube_server.admin.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
    for name, log, labels in (("a", COLD, {}), ("b", HIT, {}), ("c", COLD, {"canary": "1"}), ("d", COLD, {"app": "w"})):
        pod, created = make(name, {"app": "v", **labels})
        kubelet.logs[name, False] = log_from(log, created + 2.5)
        tell(pod, {"state": {"running": {"startedAt": whole(created + 2)}}}, [("PodScheduled", created)])
    starts = asked(capsys, "deployment.apps/vllm", "-n", kubelet.node)
    assert [(one["kubernetes"]["pod"], one["verdict"]["compile"]) for one in starts] == [("a", "miss"), ("b", "hit")]
    assert main(["startup", "deploy/vllm", "-n", kubelet.node]) == 0
    assert "pod/b is faster: compile explains" in capsys.readouterr().out
    chosen = asked(capsys, "-l", "app in (v),canary", "-n", kubelet.node)
    assert [one["kubernetes"]["pod"] for one in chosen] == ["c"]


def test_a_container_that_was_restarted_has_two_starts(capsys: Any, kubelet: Kubelet, make: Any, tell: Any) -> None:
    pod, created = make("vllm-0")
    kubelet.logs["vllm-0", True] = log_from(COLD, created + 5.5)
    kubelet.logs["vllm-0", False] = log_from(HIT, created + 300.5)
    ended = {
        "startedAt": whole(created + 5),
        "finishedAt": whole(created + 290),
        "exitCode": 137,
        "reason": "OOMKilled",
    }
    state = {"running": {"startedAt": whole(created + 300)}}
    tell(
        pod,
        {"state": state, "lastState": {"terminated": ended}, "restartCount": 1},
        [("PodScheduled", created + 1), ("Ready", created + 330)],
    )
    first, second = asked(capsys, "pod/vllm-0", "-n", kubelet.node)
    assert [one["verdict"]["compile"] for one in (first, second)] == ["miss", "hit"]
    assert (first["exit_status"], first["kubernetes"]["ended"], second["exit_status"]) == (137, "OOMKilled", None)
    assert (first["started_at"], second["started_at"]) == (iso(created), iso(created + 300))
    assert "schedule" in phases(first)
    assert "schedule" not in phases(second)
    assert first["id"] != second["id"]
    assert main(["startup", "pod/vllm-0", "-n", kubelet.node]) == 0
    text = capsys.readouterr().out
    assert "pod/vllm-0#1" in text
    assert "exit status 137" in text
    assert "(since the container was restarted)" in text


def test_one_that_keeps_crashing_shows_its_last_run(capsys: Any, kubelet: Kubelet, make: Any, tell: Any) -> None:
    pod, created = make("vllm-0")
    kubelet.logs["vllm-0", False] = f"{iso(created + 9)} Traceback (most recent call last):\n"
    ended = {"startedAt": whole(created + 8), "finishedAt": whole(created + 9), "exitCode": 1, "reason": "Error"}
    backing = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}
    tell(pod, {"state": backing, "lastState": {"terminated": ended}, "restartCount": 4}, [("PodScheduled", created)])
    (start,) = asked(capsys, "pod/vllm-0", "-n", kubelet.node, status=1)
    assert start["kubernetes"].items() >= {"run": 5, "restarts": 4, "ended": "Error"}.items()
    assert start["kubernetes"]["waiting"].startswith("CrashLoopBackOff: back-off")
    assert start["ready_seconds"] is None


def test_a_pod_that_no_node_takes_says_why(capsys: Any, kube_server: kube.Server, kubelet: Kubelet, make: Any) -> None:
    pod, _ = make("vllm-0", bound=False)
    unmet = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes: no nvidia.com/gpu",
    }
    kube_server.admin.patch(pod, {"status": {"conditions": [unmet]}}, subresource="status")
    (start,) = asked(capsys, "pod/vllm-0", "-n", kubelet.node)
    assert start["verdict"]["compile"] == "unknown"
    assert start["verdict"]["reason"] == "the container has not begun"
    assert start["kubernetes"]["waiting"] == "Unschedulable: 0/3 nodes: no nvidia.com/gpu"
    assert set(phases(start)) <= {"schedule"}
    assert main(["startup", "pod/vllm-0", "-n", kubelet.node, "--fail-over", "60s"]) == 1
    assert "waiting: Unschedulable" in capsys.readouterr().out


def test_glowplugs_own_line_is_the_restore(capsys: Any, kubelet: Kubelet, make: Any, tell: Any) -> None:
    pod, created = make("vllm-0")
    line = f"{iso(created + 4.5)} glowplug: restored 4.18 MB (unpacked) in 217 ms from node:/glowplug/store\n"
    kubelet.logs["vllm-0", False] = line + log_from(HIT, created + 5)
    tell(pod, {"state": {"running": {"startedAt": whole(created + 4)}}}, [("PodScheduled", created + 1)])
    (start,) = asked(capsys, "pod/vllm-0", "-n", kubelet.node)
    known = {"outcome": "restored", "source": "node:/glowplug/store", "seconds": 0.217}
    assert start["restore"].items() >= known.items()
    assert start["restore"]["bytes"] == pytest.approx(4_180_000, abs=1)
    assert phases(start)["restore"] == pytest.approx(0.217)


@pytest.mark.parametrize("said", ["restored 1..2 GB (unpacked) in 1 s", "restored 4.18 MB (unpacked) in 1.2.3 s"])
def test_a_line_that_only_looks_like_glowplugs_own_is_a_line_of_the_log(
    capsys: Any, kubelet: Kubelet, make: Any, tell: Any, said: str
) -> None:
    pod, created = make("vllm-0")
    kubelet.logs["vllm-0", False] = f"{iso(created + 4.5)} glowplug: {said} from x\n" + log_from(HIT, created + 5)
    tell(pod, {"state": {"running": {"startedAt": whole(created + 4)}}}, [("PodScheduled", created + 1)])
    (start,) = asked(capsys, "pod/vllm-0", "-n", kubelet.node)
    assert (start["restore"]["outcome"], start["verdict"]["compile"]) == ("none", "hit")


def test_a_node_that_does_not_answer_costs_its_own_pods_log(
    capsys: Any, kube_server: kube.Server, kubelet: Kubelet, make: Any, tell: Any
) -> None:
    """The others are compared all the same; what the API says of that pod is shown too."""
    away, created = make("away", {"app": "v"})
    tell(away, {"state": {"running": {"startedAt": whole(created + 4)}}}, [("PodScheduled", created + 1)])
    here, created = make("here", {"app": "v"})
    kubelet.logs["here", False] = log_from(HIT, created + 5)
    tell(here, {"state": {"running": {"startedAt": whole(created + 4)}}}, [("PodScheduled", created + 1)])
    kubelet.away.add("away")
    assert main(["startup", "-l", "app=v", "-n", kubelet.node, "-o", "json"]) == 0
    out, err = capsys.readouterr()
    found = {start["kubernetes"]["pod"]: start for start in json.loads(out)["starts"]}
    assert found["here"]["verdict"]["compile"] == "hit"
    assert found["away"]["verdict"]["reason"] == "the container's log cannot be read now"
    assert phases(found["away"])["schedule"] == 1.0
    assert "pod/away: " in err


def test_a_log_that_was_rotated_is_not_taken_for_a_start(capsys: Any, kubelet: Kubelet, make: Any, tell: Any) -> None:
    pod, created = make("vllm-0")
    access = "(APIServer pid=1) INFO 11-30 09:15:09 [launcher.py:1] Route: /health\n"
    kubelet.logs["vllm-0", False] = f"{iso(created + 9000)} {access}" * 3
    tell(pod, {"state": {"running": {"startedAt": whole(created + 4)}}}, [("PodScheduled", created + 1)])
    (start,) = asked(capsys, "pod/vllm-0", "-n", kubelet.node)
    assert start["verdict"]["reason"] == "the log's beginning was rotated away"


def test_a_workload_without_pods_says_what_keeps_them_from_being_made(
    capsys: Any, kube_server: kube.Server, kubelet: Kubelet, event: Any
) -> None:
    """A Deployment by its condition, since its ReplicaSet had the event; a Job by its own event, the newest of them."""
    template = {"metadata": {"labels": {"app": "v"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    metadata = {"name": "vllm", "namespace": kubelet.node}
    spec = {"selector": {"matchLabels": {"app": "v"}}, "template": template}
    made = kube_server.admin.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
    assert main(["startup", "deploy/vllm", "-n", kubelet.node]) == 1
    assert "has no pods in namespace" in capsys.readouterr().err
    refused = 'pods "vllm-1-" is forbidden: error looking up service account: serviceaccount "vllm" not found'
    condition = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": refused}
    kube_server.admin.patch(made.document, {"status": {"conditions": [condition]}}, subresource="status")
    assert main(["startup", "deploy/vllm", "-n", kubelet.node]) == 1
    assert (
        f"deployment/vllm has no pods in namespace {kubelet.node}: FailedCreate: {refused}" in capsys.readouterr().err
    )

    never = {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": never}}
    made = kube_server.admin.create(job)
    for at, message in ((2e9, "the newest"), (1e9, "older")):
        event(made.document, "FailedCreate", at, message)
    assert main(["startup", "job/vllm", "-n", kubelet.node]) == 1
    assert ": FailedCreate: the newest" in capsys.readouterr().err


def test_a_pod_that_is_still_starting_is_compared_to_nobody(
    capsys: Any, kubelet: Kubelet, make: Any, tell: Any
) -> None:
    pod, created = make("done", {"app": "v"})
    kubelet.logs["done", False] = log_from(COLD, created + 2.5)
    running = {"state": {"running": {"startedAt": whole(created + 2)}}}
    tell(pod, running, [("PodScheduled", created), ("Ready", created + 150)])
    pod, created = make("young", {"app": "v"})
    kubelet.logs["young", False] = "".join(log_from(COLD, created + 2.5).splitlines(keepends=True)[:12])
    tell(pod, running, [("PodScheduled", created)])
    pod, created = make("silent", {"app": "v"})
    tell(pod, running, [("PodScheduled", created)])
    assert main(["startup", "-l", "app=v", "-n", kubelet.node]) == 0
    out = capsys.readouterr().out
    assert out.count("compile UNKNOWN: still starting\nstill starting") == 2
    assert "faster" not in out
    assert "slower" not in out
    (until,) = [line for line in out.splitlines() if line.startswith("until ready")]
    assert until.count("still starting") == 2
    done = asked(capsys, "pod/done", "-n", kubelet.node)[0]
    assert [one["name"] for one in done["phases"]].count("ready") == 1
    assert sum(phases(done).values()) == pytest.approx(done["ready_seconds"], abs=1e-3)


def test_what_is_not_there(capsys: Any, kubelet: Kubelet) -> None:
    for source in ("pod/nobody", "deploy/nobody", "sts/nobody"):
        assert main(["startup", source, "-n", kubelet.node]) == 1
        assert "error[not-found]" in capsys.readouterr().err
    assert main(["startup", "-l", "app=nobody", "-n", kubelet.node]) == 1
    assert f"app=nobody has no pods in namespace {kubelet.node}" in capsys.readouterr().err
    assert main(["startup"]) == 2
    assert main(["startup", "pod/x", "--context", "nobody"]) == 2
