"""render/agent.py: what the agent is told and may do. What the policies refuse is asked of a real server in test_admission.py."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from glowplug.core.errors import UsageError
from glowplug.render import kinds
from glowplug.render.options import Compute, Mode, Options

READS = {"list", "watch"}


def agent(mode: Mode = Mode.NODE, **given: Any) -> dict[tuple[str, str], dict[str, Any]]:
    value = kinds.render("agent", Options(name="vllm-inference", mode=mode, **given)).value
    return {(one["kind"], one["metadata"]["name"]): one for one in value["items"]}


def pod(mode: Mode = Mode.NODE, **given: Any) -> dict[str, Any]:
    return dict(agent(mode, **given)["DaemonSet", "glowplug-agent"]["spec"]["template"]["spec"])


def args(mode: Mode = Mode.NODE, **given: Any) -> list[str]:
    return list(pod(mode, **given)["containers"][0]["args"])


def test_it_is_told_what_it_is_for() -> None:
    assert args(store="s3://cache/fleet", namespace="team") == [
        "--mode=node",
        "--root=/mnt/k8s-disks/0/glowplug",
        "--store=s3://cache/fleet",
        "--domain=team",
        "--node-name=$(NODE_NAME)",
        "--publish-from=team",
        "--listen=:9090",
    ]


def test_shared_mode_adds_the_live_directory_and_the_taint() -> None:
    found = args(Mode.SHARED, compute=Compute.AUTO_MODE)
    assert {"--shared-dir=/mnt/.ephemeral/compile-cache", "--taint=glowplug.dev/prewarming"} < set(found)
    autoscaler = "startup-taint.cluster-autoscaler.kubernetes.io/glowplug-prewarming"
    assert f"--taint={autoscaler}" in args(Mode.SHARED, compute=Compute.NODEGROUP)


@pytest.mark.parametrize(
    ("given", "published"),
    [
        ({}, ["default"]),
        ({"namespace": "team", "service_account": "serving"}, ["team/serving"]),
        ({"publish_from": ("a", "b/c")}, ["a", "b/c"]),
    ],
)
def test_it_publishes_for_those_who_are_named(given: dict[str, Any], published: list[str]) -> None:
    prefix = "--publish-from="
    assert [word.removeprefix(prefix) for word in args(**given) if word.startswith(prefix)] == published


@pytest.mark.parametrize("mode", [Mode.NODE, Mode.SHARED])
@pytest.mark.parametrize("compute", Compute)
def test_it_sees_its_own_directories_of_the_node_only(mode: Mode, compute: Compute) -> None:
    found = pod(mode, compute=compute)
    nvme = "/mnt/.ephemeral" if compute is Compute.AUTO_MODE else "/mnt/k8s-disks/0"
    paths = {volume["hostPath"]["path"] for volume in found["volumes"] if "hostPath" in volume}
    assert paths == {f"{nvme}/glowplug"} | ({f"{nvme}/compile-cache"} if mode is Mode.SHARED else set())
    # A path has the same name inside, so that what proves the device sees the same mount.
    mounts = {mount["mountPath"] for mount in found["containers"][0]["volumeMounts"]}
    assert paths < mounts


@pytest.mark.parametrize("mode", [Mode.NODE, Mode.SHARED])
def test_no_privileges(mode: Mode) -> None:
    pods = [one for one in agent(mode).values() if one["kind"] in ("DaemonSet", "Deployment")]
    assert len(pods) == (2 if mode is Mode.SHARED else 1)
    for one in pods:
        spec = one["spec"]["template"]["spec"]
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        context = spec["containers"][0]["securityContext"]
        added = {"add": ["DAC_OVERRIDE", "FOWNER"]} if one["kind"] == "DaemonSet" else {}  # outboxes belong to any user
        assert context["capabilities"] == {"drop": ["ALL"], **added}
        assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (False, True)
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}


@pytest.mark.parametrize("mode", [Mode.NODE, Mode.SHARED])
def test_least_rights(mode: Mode) -> None:
    rights: dict[str, dict[str, set[str]]] = {}
    for (kind, name), one in agent(mode).items():
        for rule in one["rules"] if kind == "ClusterRole" else ():
            for resource in rule["resources"]:
                rights.setdefault(name, {}).setdefault(resource, set()).update(rule["verbs"])
    own = {"nodes": {"get", "patch"}, "pods": READS, "namespaces": {"get"}, "events": {"create"}}
    release = {"nodes": {"get", "list", "patch"}, "events": {"create"}}
    assert rights == {
        "glowplug-agent": own,
        **({"glowplug-release": release} if mode is Mode.SHARED else {}),
    }


def test_in_shared_mode_it_publishes_for_nobody() -> None:
    """All pods write one directory: what is in it is nobody's in particular."""
    assert not [word for word in args(Mode.SHARED, publish_from=("a",)) if "publish" in word]


@pytest.mark.parametrize("mode", [Mode.NODE, Mode.SHARED])
def test_what_it_is_told_its_program_understands(mode: Mode) -> None:
    """Every option and value as rendered, by the command itself: it gets as far as asking for the API server."""
    for one in agent(mode, store="s3://cache/fleet", glowplug_image="mine:1").values():
        if one["kind"] in ("DaemonSet", "Deployment"):
            container = one["spec"]["template"]["spec"]["containers"][0]
            words = [*container["command"][1:], *container["args"]]
            words = [word.replace("$(NODE_NAME)", "n1") for word in words]
            environ = {"PATH": os.defpath, "KUBECONFIG": "/nowhere", "AWS_REGION": "eu-central-1"}
            done = subprocess.run(
                [sys.executable, "-m", "glowplug", *words], env=environ, capture_output=True, text=True, check=False
            )
            assert (done.returncode, "kubeconfig" in done.stderr or "/nowhere" in done.stderr) == (2, True), done.stderr


def test_it_reaches_the_store_where_its_pods_reach_it() -> None:
    env = pod(endpoint="https://s3.example", region="us-east-1")["containers"][0]["env"]
    values = {entry["name"]: entry.get("value") for entry in env}
    assert (values["AWS_ENDPOINT_URL"], values["AWS_REGION"]) == ("https://s3.example", "us-east-1")


def test_it_is_on_every_gpu_node_whatever_its_taints() -> None:
    found = pod()
    assert found["tolerations"] == [{"operator": "Exists"}]
    required = found["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    labels = [term["matchExpressions"][0]["key"] for term in required["nodeSelectorTerms"]]
    assert set(labels) == {
        "karpenter.k8s.aws/instance-gpu-count",
        "eks.amazonaws.com/instance-gpu-count",
        "glowplug.dev/gpu-node",
        "nvidia.com/gpu.present",
    }


@pytest.mark.parametrize(
    ("compute", "first"),
    [
        (Compute.KARPENTER, "karpenter.k8s.aws"),
        (Compute.AUTO_MODE, "eks.amazonaws.com"),
        (Compute.NODEGROUP, "glowplug.dev/gpu-node"),
    ],
)
def test_the_nodes_of_this_compute_come_first(compute: Compute, first: str) -> None:
    required = pod(compute=compute)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"][0]["matchExpressions"][0]["key"].startswith(first)


def test_what_frees_nodes_is_there_in_shared_mode_alone_and_off_the_gpu_nodes() -> None:
    assert ("Deployment", "glowplug-release") not in agent()
    spec = agent(Mode.SHARED)["Deployment", "glowplug-release"]["spec"]["template"]["spec"]
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    assert {one["operator"] for one in term["matchExpressions"]} == {"DoesNotExist"}
    assert spec["containers"][0]["args"] == ["--older-than=10m", "--taint=glowplug.dev/prewarming", "--listen=:9090"]


def test_a_role_is_taken_by_the_annotation_or_by_nothing() -> None:
    role = "arn:aws:iam::123456789012:role/glowplug"
    assert agent(role_arn=role)["ServiceAccount", "glowplug-agent"]["metadata"]["annotations"] == {
        "eks.amazonaws.com/role-arn": role
    }
    assert "annotations" not in agent()["ServiceAccount", "glowplug-agent"]["metadata"]


def test_every_object_is_in_its_place() -> None:
    for (kind, _), one in agent(Mode.SHARED).items():
        namespaced = kind in ("ServiceAccount", "DaemonSet", "Deployment")
        assert one["metadata"].get("namespace") == ("glowplug-system" if namespaced else None)


def test_direct_mode_has_no_agent() -> None:
    with pytest.raises(UsageError, match="no agent"):
        agent(Mode.DIRECT)
