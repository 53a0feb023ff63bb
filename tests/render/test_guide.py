"""The Deployment of the AWS guide, typed from the guide: profile guide in shared mode is this, field for field, in its order."""

from __future__ import annotations

import json
from typing import Any

import pytest

from glowplug.render import kinds
from glowplug.render.options import Compute, Mode
from tests.render.planned import GUIDE, one_gpu, options

HEALTH = {"path": "/health", "port": 8000}
CONTAINER: dict[str, Any] = {
    "name": "vllm",
    "image": "vllm/vllm-openai:v0.21.0",
    "command": ["python3", "-m", "vllm.entrypoints.openai.api_server"],
    "args": [
        "--model=s3://models/llama",
        "--load-format=runai_streamer",
        '--model-loader-extra-config={"concurrency":17,"distributed":true}',
        "--tensor-parallel-size=2",
        "--max-model-len=8192",
        "--host=0.0.0.0",
        "--port=8000",
    ],
    "ports": [{"containerPort": 8000, "name": "http"}],
    "env": [
        {"name": "RUNAI_STREAMER_CHUNK_BYTESIZE", "value": "4294967296"},
        {"name": "RUNAI_STREAMER_S3_REQUEST_TIMEOUT_MS", "value": "3000"},
        {"name": "RUNAI_STREAMER_S3_LOW_SPEED_LIMIT", "value": "1048576"},
        {"name": "XDG_CACHE_HOME", "value": "/compile-cache"},
        {"name": "TORCHINDUCTOR_CACHE_DIR", "value": "/compile-cache/inductor"},
        {"name": "TRITON_CACHE_DIR", "value": "/compile-cache/triton"},
    ],
    "resources": {
        "requests": {"cpu": "12", "memory": "80Gi", "nvidia.com/gpu": "2"},
        "limits": {"nvidia.com/gpu": "2"},
    },
    "volumeMounts": [{"name": "compile-cache", "mountPath": "/compile-cache"}],
    "startupProbe": {"httpGet": HEALTH, "periodSeconds": 10, "failureThreshold": 60, "initialDelaySeconds": 30},
    "readinessProbe": {"httpGet": HEALTH, "periodSeconds": 5, "timeoutSeconds": 3},
}
TOLERATIONS = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


def guide(path: str = "/mnt/k8s-disks/0/compile-cache", **spec: Any) -> dict[str, Any]:
    """The guide's Deployment with its placeholders filled in."""
    volume = {"name": "compile-cache", "hostPath": {"path": path, "type": "DirectoryOrCreate"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "vllm-inference", "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "vllm-inference"}},
            "template": {
                "metadata": {"labels": {"app": "vllm-inference"}},
                "spec": {**spec, "tolerations": TOLERATIONS, "containers": [CONTAINER], "volumes": [volume]},
            },
        },
    }


def rendered(**given: Any) -> Any:
    return kinds.render("deployment", options(GUIDE, mode=Mode.SHARED, **given)).value


def test_it_is_the_guides() -> None:
    # Compared as text, so that the order of the fields counts too.
    assert json.dumps(rendered(), indent=1) == json.dumps(guide(), indent=1)


def test_what_the_guide_leaves_to_the_reader_comes_from_options() -> None:
    wanted = guide(serviceAccountName="vllm", nodeSelector={"karpenter.sh/nodepool": "gpu-nodepool-g6e-12xlarge"})
    assert rendered(service_account="vllm", nodepool="gpu-nodepool-g6e-12xlarge") == wanted
    assert rendered(service_account="vllm", nodepool="gpu-nodepool-g6e-12xlarge", region="eu-central-1") == wanted


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"compute": Compute.AUTO_MODE}, "/mnt/.ephemeral/compile-cache"),
        ({"compute": Compute.NODEGROUP}, "/mnt/k8s-disks/0/compile-cache"),
        ({"ami": "bottlerocket"}, "/mnt/.ephemeral/compile-cache"),
    ],
)
def test_the_path_is_where_the_instance_store_is(given: dict[str, Any], path: str) -> None:
    assert rendered(**given) == guide(path)


def test_a_node_group_is_selected_by_its_own_label() -> None:
    found = rendered(compute=Compute.NODEGROUP, nodepool="gpus")
    assert found == guide(nodeSelector={"eks.amazonaws.com/nodegroup": "gpus"})


def test_gpus_are_as_many_as_ranks() -> None:
    value = kinds.render("deployment", options(one_gpu(GUIDE), mode=Mode.SHARED)).value
    resources = value["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert (resources["requests"]["nvidia.com/gpu"], resources["limits"]) == ("1", {"nvidia.com/gpu": "1"})


@pytest.mark.parametrize("mode", [Mode.DIRECT, Mode.NODE])
def test_its_numbers_stay_in_the_other_modes(mode: Mode) -> None:
    container = kinds.render("deployment", options(GUIDE, mode=mode)).value["spec"]["template"]["spec"]["containers"][0]
    for field in ("name", "image", "args", "ports", "resources", "startupProbe", "readinessProbe"):
        assert container[field] == CONTAINER[field]
    assert container["env"][: len(CONTAINER["env"])] == CONTAINER["env"]
    assert container["command"][-3:] == CONTAINER["command"]
