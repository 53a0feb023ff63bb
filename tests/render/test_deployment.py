"""render/deployment.py in profile auto: values of the plan with their reasons, and room to start and to roll."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from glowplug.catalog.allocatable import allocatable
from glowplug.catalog.instances import Instance, instance, instances
from glowplug.manifests import recipe
from glowplug.plan.loaders import PUBLISHED
from glowplug.plan.outcome import Estimate, Plan, Resources
from glowplug.render import budget, kinds
from glowplug.render.options import Compute, Mode
from tests.render.planned import AUTO, GIB, MIB, SGLANG, TENSORRT, of_gpus, one_gpu, options


def deployment(plan: Plan = AUTO, **given: Any) -> dict[str, Any]:
    return dict(kinds.render("deployment", options(plan, **given)).value)


def pod(plan: Plan = AUTO, **given: Any) -> dict[str, Any]:
    return dict(deployment(plan, **given)["spec"]["template"]["spec"])


def container(plan: Plan = AUTO, **given: Any) -> dict[str, Any]:
    return dict(pod(plan, **given)["containers"][0])


def variables(found: dict[str, Any]) -> dict[str, Any]:
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in found["env"]}


ENGINES = [
    (
        AUTO,
        "vllm",
        "vllm/vllm-openai:v0.33.0",
        ["python3", "-m", "vllm.entrypoints.openai.api_server"],
        ["--model=s3://models/llama", "--tensor-parallel-size=2", "--max-model-len=8192"],
        8000,
    ),
    (
        SGLANG,
        "sglang",
        "lmsysorg/sglang:v0.5.23",
        ["python3", "-m", "sglang.launch_server"],
        ["--model-path=s3://models/llama", "--tp-size=2", "--context-length=8192", "--enable-torch-compile"],
        30000,
    ),
    (
        TENSORRT,
        "tensorrt-llm",
        "nvcr.io/nvidia/tensorrt-llm/release:1.2.0",
        ["trtllm-serve"],
        ["/models/llama", "--tp_size=2", "--max_seq_len=8192"],
        8000,
    ),
]


@pytest.mark.parametrize(("plan", "name", "image", "command", "args", "port"), ENGINES, ids=[row[1] for row in ENGINES])
@pytest.mark.parametrize("mode", Mode)
def test_each_engine_is_started_by_its_own_words(
    plan: Plan, name: str, image: str, command: list[str], args: list[str], port: int, mode: Mode
) -> None:
    found = container(plan, mode=mode)
    assert (found["name"], found["image"]) == (name, image)
    assert found["command"][-len(command) :] == command
    assert found["args"][0] == args[0]
    assert [word for word in found["args"] if word in args] == args
    assert {"--host=0.0.0.0", f"--port={port}"} < set(found["args"])
    assert found["ports"] == [{"containerPort": port, "name": "http"}]
    assert found["startupProbe"]["httpGet"] == found["readinessProbe"]["httpGet"] == {"path": "/health", "port": "http"}


def test_an_engine_whose_releases_are_not_listed_still_has_a_pinned_image() -> None:
    unknown = replace(TENSORRT, engine_version=PUBLISHED["tensorrt-llm"])
    image = container(unknown)["image"]
    assert image.endswith("release:1.0.0")
    assert any(
        "--engine-version" in note and image in note for note in kinds.render("deployment", options(unknown)).notes
    )
    assert container(unknown, image="mine:1")["image"] == "mine:1"


def test_every_tuned_value_has_its_reason_above_it() -> None:
    lines = [line.strip() for line in kinds.render("deployment", options()).text.splitlines()]
    for value, reason in {
        "- --tensor-parallel-size=2": "# the fewest GPUs that hold it",
        "- name: RUNAI_STREAMER_CHUNK_BYTESIZE": "# the chunk that was best",
        "- --model-loader-extra-config=": "# concurrency: one client for each chunk; distributed: the ranks share the reading",
        'cpu: "47"': "# more.",
        "startupProbe:": "# speed, everything compiled). Too short a probe kills every cold start.",
    }.items():
        place = next(number for number, line in enumerate(lines) if line.startswith(value))
        assert lines[place - 1] == reason


# ---- the machine


@pytest.mark.parametrize(
    ("plan", "given", "selector"),
    [
        (AUTO, {}, {"node.kubernetes.io/instance-type": "p5.48xlarge"}),
        (AUTO, {"nodepool": "gpus"}, {"karpenter.sh/nodepool": "gpus"}),
        (AUTO, {"nodepool": "gpus", "compute": Compute.AUTO_MODE}, {"karpenter.sh/nodepool": "gpus"}),
        (AUTO, {"nodepool": "gpus", "compute": Compute.NODEGROUP}, {"eks.amazonaws.com/nodegroup": "gpus"}),
        (
            of_gpus("a100-40gb"),
            {},
            {"karpenter.k8s.aws/instance-gpu-name": "a100", "karpenter.k8s.aws/instance-gpu-memory": "40960"},
        ),
        (
            of_gpus("l4"),
            {"compute": Compute.AUTO_MODE},
            {"eks.amazonaws.com/instance-gpu-name": "l4", "eks.amazonaws.com/instance-gpu-memory": "22888"},
        ),
        (of_gpus("l4"), {"compute": Compute.NODEGROUP}, None),
    ],
)
def test_pods_stay_on_the_gpu_that_was_planned_for(plan: Plan, given: dict[str, Any], selector: Any) -> None:
    assert pod(plan, **given).get("nodeSelector") == selector


def test_ranks_share_memory_and_one_rank_needs_none() -> None:
    assert {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "4Gi"}} in pod()["volumes"]
    assert {"name": "shared-memory", "mountPath": "/dev/shm"} in container()["volumeMounts"]
    assert "shared-memory" not in str(pod(one_gpu()))


def test_a_pod_asks_for_its_share_of_the_node() -> None:
    assert container()["resources"]["requests"] == {"cpu": "47", "memory": "100Gi", "nvidia.com/gpu": "2"}
    assert container()["resources"]["limits"] == {"nvidia.com/gpu": "2"}


def test_without_an_instance_type_nothing_is_made_up() -> None:
    assert container(of_gpus("l4"))["resources"]["requests"] == {"memory": "100Gi", "nvidia.com/gpu": "2"}


@pytest.mark.slow
@pytest.mark.parametrize("one", [one for one in instances() if not one.fractional], ids=lambda one: one.name)
@pytest.mark.parametrize("needed", [1, 12 * GIB + 1, 100 * GIB, 10_000 * GIB])
def test_as_many_pods_as_have_gpus_fit_on_a_node(one: Instance, needed: int) -> None:
    """Beside the daemon sets, on a node as kubelet reports it and Karpenter expects it."""
    node = allocatable(one)
    for ranks in (1, 2, 4, 8):
        if ranks > one.gpus:
            continue
        placement = replace(AUTO.placement, instance=one.name, tensor_parallel_size=ranks)
        plan = replace(AUTO, placement=placement, resources=Resources(needed, 1, 1))
        pods = one.gpus // ranks
        for engine in (plan, replace(plan, engine="sglang"), replace(TENSORRT, placement=placement)):
            for mode in Mode:
                cpu, memory = _requests(container(engine, mode=mode, instance=one))
                assert 1000 <= cpu * pods <= node.cpu_millis - 500
                assert 0 < memory * pods <= node.memory_bytes - 768 * MIB
        found = budget.memory(plan, one)
        assert found.enough == (found.nbytes >= needed)


def _requests(found: dict[str, Any]) -> tuple[int, int]:
    """CPU in thousandths and memory in bytes."""
    requests = found["resources"]["requests"]
    number, unit = re.fullmatch(r"(\d+)([GM]i)", requests["memory"]).groups()  # type: ignore[union-attr] # else it fails
    return int(requests["cpu"]) * 1000, int(number) * {"Gi": GIB, "Mi": MIB}[unit]


@pytest.mark.parametrize(
    ("needed", "asked", "enough"),
    [
        (11 * GIB + 1, "12Gi", True),
        (12 * GIB + 1, "12289Mi", True),
        (12 * GIB + 500 * MIB, "12788Mi", True),
        (13 * GIB, "12Gi", False),
    ],
)
def test_a_small_node_is_used_to_its_end_and_not_beyond(needed: int, asked: str, enough: bool) -> None:
    """g6.xlarge has 12.52 GiB beside its daemon sets."""
    placement = replace(AUTO.placement, instance="g6.xlarge", tensor_parallel_size=1)
    found = budget.memory(replace(AUTO, placement=placement, resources=Resources(needed, 1, 1)), instance("g6.xlarge"))
    assert (found.quantity, found.enough) == (asked, enough)


def test_too_little_memory_is_said() -> None:
    plan = replace(AUTO, resources=Resources(10_000 * GIB, 1, 1))
    assert "Loading may need up to 10000Gi" in " ".join(kinds.render("deployment", options(plan)).text.split())


# ---- the start


@pytest.mark.parametrize("seconds", [0.1, 30.0, 600.0, 10_000.0])
def test_a_cold_start_has_time(seconds: float) -> None:
    plan = replace(AUTO, estimate=Estimate("nat", 5.0, 1.0, seconds, 1.0, 0.0))
    probe = container(plan)["startupProbe"]
    allowed = probe["periodSeconds"] * (probe["failureThreshold"] - 1)
    assert allowed >= 1.5 * budget.cold_seconds(plan)
    assert budget.cold_seconds(plan) > 2 * seconds
    assert allowed >= 620, "the guide's 30 s and 60 times 10 s, whose last failure may come after 620 s"
    assert deployment(plan)["spec"]["progressDeadlineSeconds"] > allowed


def test_nothing_ends_a_start_but_the_startup_probe() -> None:
    assert "livenessProbe" not in container()


def test_a_roll_out_keeps_what_serves() -> None:
    assert deployment()["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


# ---- modes


def test_direct_mode_needs_nothing_of_the_node() -> None:
    found = pod(store="s3://cache/fleet", glowplug_image="mine/glowplug:1")
    assert [volume for volume in found["volumes"] if "emptyDir" not in volume] == []
    assert [one["image"] for one in found["initContainers"]] == ["mine/glowplug:1"]
    assert variables(found["containers"][0])["GLOWPLUG_STORE"] == "s3://cache/fleet"
    assert deployment()["spec"]["template"]["metadata"]["labels"]["glowplug.dev/mode"] == "direct"


def test_node_mode_mounts_its_own_domain() -> None:
    paths = [volume["hostPath"]["path"] for volume in pod(mode=Mode.NODE)["volumes"] if "hostPath" in volume]
    assert paths == ["/mnt/k8s-disks/0/glowplug/store/default", "/mnt/k8s-disks/0/glowplug/outbox"]
    named = pod(mode=Mode.NODE, domain="team-a", compute=Compute.AUTO_MODE)
    assert named["volumes"][1]["hostPath"]["path"] == "/mnt/.ephemeral/glowplug/store/team-a"
    assert variables(named["containers"][0])["GLOWPLUG_DOMAIN"] == "team-a"


def test_shared_mode_has_nothing_of_glowplug() -> None:
    assert "glowplug" not in str(deployment(mode=Mode.SHARED)).lower()
    assert "XDG_CACHE_HOME" not in variables(container(mode=Mode.SHARED))


@pytest.mark.parametrize("mode", Mode)
def test_no_mode_asks_for_privileges(mode: Mode) -> None:
    found = pod(mode=mode)
    for one in [*found.get("initContainers", ()), *found["containers"]]:
        assert one["securityContext"] == recipe.unprivileged()
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(found)


def test_the_region_is_set_where_it_is_known() -> None:
    assert variables(container(region="eu-central-1"))["AWS_REGION"] == "eu-central-1"
    assert "AWS_REGION" not in variables(container())
    assert any("--region" in note for note in kinds.render("deployment", options()).notes)


@pytest.mark.parametrize("plan", [AUTO, SGLANG, TENSORRT], ids=lambda plan: plan.engine)
@pytest.mark.parametrize("mode", Mode)
def test_no_variable_is_said_twice(plan: Plan, mode: Mode) -> None:
    names = [entry["name"] for entry in container(plan, mode=mode, region="eu-central-1", store="s3://b/c")["env"]]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("model", "word"),
    [
        ("/models/$(HOME)", "/models/$$(HOME)"),
        ("/models/a$$b", "/models/a$$$$b"),
        ("/models/a$b", "/models/a$b"),
        ("/models/a b'\"", "/models/a b'\""),
    ],
)
def test_kubelet_replaces_nothing_in_a_name(model: str, word: str) -> None:
    assert container(model=model)["args"][0] == f"--model={word}"
