"""A pod that nobody has started → the key that its start would have."""

from __future__ import annotations

from typing import Any

import pytest

from glowplug.catalog.releases import newest
from glowplug.core.errors import BadInputError, NotFoundError
from glowplug.starts.from_manifest import Given, infer
from tests.agent.claiming import GPU, MODEL, SERVE, claim, container

SELECTOR = {"karpenter.k8s.aws/instance-gpu-name": "h100", "kubernetes.io/arch": "amd64"}
K = {"name": "K", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}


def pod(*containers: Any, namespace: str = "team-a", **spec: Any) -> dict[str, Any]:
    inside = {"containers": list(containers or (container(),)), "nodeSelector": SELECTOR, **spec}
    return {"kind": "Pod", "metadata": {"name": "p", **({"namespace": namespace} if namespace else {})}, "spec": inside}


def workload(kind: str) -> dict[str, Any]:
    """The same pod in what makes pods."""
    template: dict[str, Any] = {"spec": pod()["spec"]}
    spec: dict[str, Any] = {
        "CronJob": {"jobTemplate": {"spec": {"template": template}}},
        "LeaderWorkerSet": {"leaderWorkerTemplate": {"workerTemplate": template}},
    }.get(kind, {"template": template})
    return {"kind": kind, "metadata": {"name": "w", "namespace": "team-a"}, "spec": spec}


def test_it_is_the_key_that_the_launcher_observes_there() -> None:
    observed = claim(machine="x86_64").key
    found = infer([pod()])
    assert found.fingerprint.key == observed
    assert found.fingerprint.key_digest == observed.digest()
    assert {fact.source.partition(":")[0] for fact in found.fingerprint.fields.values()} == {"inferred"}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "LeaderWorkerSet"])
def test_what_makes_pods_is_as_good_as_a_pod(kind: str) -> None:
    service = {"kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": []}}
    expected = infer([pod()]).fingerprint.key_digest
    assert infer([service, workload(kind)]).fingerprint.key_digest == expected
    assert infer([{"kind": "List", "items": [service, workload(kind)]}]).fingerprint.key_digest == expected


@pytest.mark.parametrize(
    ("selector", "gpu", "machine"),
    [
        ({"nvidia.com/gpu.product": "NVIDIA-A10G"}, "NVIDIA A10G", "x86_64"),
        ({"eks.amazonaws.com/instance-gpu-name": "t4g"}, "NVIDIA T4G", "aarch64"),
        ({"node.kubernetes.io/instance-type": "p5.48xlarge"}, GPU, "x86_64"),
        ({"kubernetes.io/arch": "arm64"}, None, "aarch64"),
        ({"karpenter.k8s.aws/instance-gpu-name": "a100"}, None, "x86_64"),
        ({}, None, None),
    ],
)
def test_gpu_and_machine_by_what_the_pod_selects(selector: Any, gpu: str | None, machine: str | None) -> None:
    found = infer([pod(nodeSelector=selector)]).fingerprint
    assert (found.fields["gpu"].value if "gpu" in found.fields else None) == gpu
    assert (found.fields["machine"].value if "machine" in found.fields else None) == machine
    assert (found.key is None) == (gpu is None)


def test_a_label_that_means_two_cards_is_asked_back() -> None:
    found = infer([pod(nodeSelector={"karpenter.k8s.aws/instance-gpu-name": "a100"})])
    assert found.fingerprint.unknown == ("gpu",)
    assert any("NVIDIA A100-SXM4-40GB or NVIDIA A100-SXM4-80GB" in note for note in found.notes)
    assert infer([pod(nodeSelector={})], Given(gpu=GPU)).fingerprint.key == infer([pod()]).fingerprint.key


def test_affinity_that_leaves_no_choice_is_a_selector_and_alternatives_are_none() -> None:
    def required(*values: str) -> dict[str, Any]:
        expression = {"key": "nvidia.com/gpu.product", "operator": "In", "values": list(values)}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}

    def gpu_of(affinity: Any) -> Any:
        fields = infer([pod(nodeSelector={}, affinity=affinity)]).fingerprint.fields
        return fields["gpu"].value if "gpu" in fields else None

    assert gpu_of(required("NVIDIA-L4")) == "NVIDIA L4"
    assert gpu_of(required("NVIDIA-L4", "NVIDIA-L40S")) is None


@pytest.mark.parametrize(
    ("image", "version", "torch"),
    [
        ("vllm/vllm-openai:v0.21.0", "0.21.0", "2.11.0"),
        (f"mirror.local/vllm-openai:v{newest('vllm').version}-cu129", newest("vllm").version, newest("vllm").torch),
        ("vllm/vllm-openai:v0.99.9", "0.99.9", None),
        ("vllm/vllm-openai:latest", None, None),
        ("vllm/vllm-openai@sha256:" + "0" * 64, None, None),
        ("own/build:0.21.0", None, None),
    ],
)
def test_versions_by_the_image_s_tag_where_that_is_the_engine_s_own(
    image: str, version: str | None, torch: str | None
) -> None:
    fields = infer([pod(container(image=image))]).fingerprint.fields
    assert (fields["engine_version"].value if version else fields.get("engine_version")) == version
    assert (fields["torch"].value if torch else fields.get("torch")) == torch


def test_the_domain_is_the_caller_s_word_the_pod_s_or_its_namespace_s() -> None:
    bare = container()
    bare["env"] = [one for one in bare["env"] if one["name"] != "GLOWPLUG_DOMAIN"]
    field = {"name": "GLOWPLUG_DOMAIN", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}

    def domain(*containers: Any, namespace: str = "team-a", **given: str) -> Any:
        fields = infer([pod(*containers, namespace=namespace)], Given(**given)).fingerprint.fields
        return fields["domain"].value if "domain" in fields else None

    assert domain(namespace="other") == "team-a"
    assert domain(bare, namespace="other") == "other"
    assert domain({**bare, "env": [field]}, namespace="other") == "other"
    assert domain(bare, namespace="") == "default"
    assert domain(namespace="other", domain="prod") == "prod"
    hidden = {"name": "GLOWPLUG_DOMAIN", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "d"}}}
    assert domain({**bare, "env": [hidden]}) is None


@pytest.mark.parametrize(
    ("command", "unknown"),
    [
        (("vllm", "serve", "$(K)"), "model"),
        (("vllm", "serve", MODEL, "--quantization", "$(K)"), "args.quantization"),
        (("vllm", "serve", MODEL, "$(K)"), "args"),
        (("/start.sh",), "model"),
    ],
)
def test_a_field_that_depends_on_a_secret_or_on_the_image_is_not_known(command: tuple[str, ...], unknown: str) -> None:
    found = infer([pod(container(command, K))]).fingerprint
    assert found.key is None
    assert unknown in found.unknown
    assert "0unseen0" not in str(found.fields)


def test_a_secret_beside_the_key_leaves_it_known_and_is_not_shown() -> None:
    found = infer([pod(container((*SERVE, "--api-key", "$(K)"), K))])
    assert found.fingerprint.key == claim(machine="x86_64").key
    assert "api_key" not in found.fingerprint.fields["other_args"].value


def test_a_variable_of_the_key_from_a_config_map_is_a_field_that_is_not_known() -> None:
    hidden = {"name": "VLLM_USE_AOT_COMPILE", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}
    found = infer([pod(container(SERVE, hidden))]).fingerprint
    assert (found.key, found.unknown) == (None, ("env.VLLM_USE_AOT_COMPILE",))
    assert found.fields["env"].value == {}


def test_what_env_from_brings_is_a_matter_of_trust() -> None:
    found = infer([pod(container(envFrom=[{"configMapRef": {"name": "c"}}]))])
    assert found.fingerprint.key is not None
    assert any("envFrom" in note for note in found.notes)
    assert not any("envFrom" in note for note in infer([pod()]).notes)


def test_a_value_that_stands_in_the_pod_is_hidden_as_everywhere() -> None:
    found = infer([pod(container((*SERVE, "--api-key", "sk-hunter22")))]).fingerprint
    assert found.fields["other_args"].value["api_key"].startswith("sha256:")
    assert "hunter22" not in str(found)


def test_no_file_of_this_machine_is_looked_at(tmp_path: Any) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert infer([pod(container(("vllm", "serve", str(tmp_path))))]).fingerprint.guards == {}


def test_no_engine_or_several() -> None:
    with pytest.raises(NotFoundError):
        infer([{"kind": "Service"}, None, [], pod({"name": "x", "image": "envoy"})])
    with pytest.raises(BadInputError):
        infer([pod(), pod()])


def test_a_program_is_torch_s_where_the_caller_says_so() -> None:
    script = {"name": "train", "image": "own:1", "command": ["python", "/app/train.py"]}
    with pytest.raises(NotFoundError):
        infer([pod(script)])
    found = infer([pod(script)], Given(engine="torch")).fingerprint
    assert found.fields["model"].value == "/app/train.py"
    assert set(found.unknown) == {"engine_version", "torch"}
