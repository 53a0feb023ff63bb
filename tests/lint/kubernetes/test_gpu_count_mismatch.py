"""gpu-count-mismatch: what the engine takes, what the pod asks for, what the machine has."""

from __future__ import annotations

import pytest

from tests.lint.checking import at, fixed, found
from tests.lint.kubernetes.written import GPU_TOLERATION, deployment, line_of, node_pool

RULE = "gpu-count-mismatch"
SGLANG = {"image": "lmsysorg/sglang:v0.5.9", "command": "[python3, -m, sglang.launch_server]"}
TENSORRT = {"image": "nvcr.io/nvidia/tensorrt-llm/release:1.0.0", "command": "[trtllm-serve]"}


@pytest.mark.parametrize(
    ("args", "gpus", "said"),
    [
        (("m", "--tensor-parallel-size=4"), "2", "needs 4 GPUs (tensor-parallel-size 4) and the pod has 2"),
        (("m", "-tp", "2"), "1", "needs 2 GPUs"),
        (("m", "--tensor-parallel-size", "2", "--pipeline-parallel-size", "2"), "2", "needs 4 GPUs"),
        (("m", "--data-parallel-size=2", "--tensor-parallel-size=2"), '"2"', "needs 4 GPUs"),
        (("m", "--tensor-parallel-size=2"), "8", "uses 2 of 8 GPUs (tensor-parallel-size 2): 6 are idle"),
        (("m",), "2", "uses 1 of 2 GPUs (one rank): 1 is idle"),
        (("m", "--data-parallel-size=8", "--data-parallel-size-local=2"), "4", "uses 2 of 4"),
        (("m", "--tensor-parallel-size=4", "--distributed-executor-backend=mp"), "2", "needs 4"),
    ],
)
def test_vllm(args: tuple[str, ...], gpus: str, said: str) -> None:
    text = deployment(*args, gpus=gpus)
    (finding,) = found(RULE, text)
    assert said in finding.message
    assert at(finding) == gpus
    assert finding.line == line_of(text, "nvidia.com/gpu: ")


@pytest.mark.parametrize(
    ("engine", "args", "gpus", "fires"),
    [
        (SGLANG, ("--model-path=m", "--tp=4"), "2", True),
        (SGLANG, ("--model-path=m", "--tp-size", "2", "--dp-size", "2"), "4", False),
        (SGLANG, ("--model-path=m", "--tp-size", "2", "--dp-size", "2"), "2", True),
        (SGLANG, ("--model-path=m", "--tp-size=8", "--dp-size=8", "--enable-dp-attention"), "8", False),
        (SGLANG, ("--model-path=m", "--tp-size=16", "--nnodes=2", "--node-rank=0"), "8", False),
        (TENSORRT, ("m", "--tp_size=2"), "1", True),
        (TENSORRT, ("m", "--tp_size=2"), "2", False),
    ],
)
def test_other_engines(engine: dict[str, str], args: tuple[str, ...], gpus: str, fires: bool) -> None:
    assert bool(found(RULE, deployment(*args, gpus=gpus, **engine))) == fires


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(deployment("m", "--tensor-parallel-size=2", gpus="2"), id="equal"),
        pytest.param(
            deployment("m", "--tensor-parallel-size=2", "--data-parallel-size=4", gpus="8"), id="data parallel"
        ),
        pytest.param(deployment("m", "--tensor-parallel-size=2", gpus=None), id="no GPU asked for: DRA, or a CPU"),
        pytest.param(deployment("m", "--tensor-parallel-size=$(TP)", gpus="1"), id="a variable that is not there"),
        pytest.param(deployment("m", "--tensor-parallel-size=16", "--nnodes=2", gpus="8"), id="several nodes"),
        pytest.param(
            deployment("m", "-tp=16", "--distributed-executor-backend=ray", gpus="8"), id="Ray places the ranks"
        ),
        pytest.param(
            deployment("m", "--data-parallel-size=16", "--data-parallel-rank=0", gpus="1"), id="one rank of many"
        ),
        pytest.param(deployment("m", "--config=/etc/vllm.yaml", gpus="8"), id="a file says it"),
        pytest.param(
            deployment("m", gpus="8", container="env:\n- {name: CUDA_VISIBLE_DEVICES, value: '0'}\n"),
            id="chosen by a variable",
        ),
        pytest.param(deployment("m", "--omni", gpus="2"), id="stages that have GPUs of their own"),
        pytest.param(deployment("m", "--of-a-plugin=2", gpus="2"), id="an option that nobody knows"),
        pytest.param(
            deployment(
                "ray start --head --port=6379; vllm serve m --tensor-parallel-size 16",
                command="[bash, -c]",
                gpus="8",
            ),
            id="a script with Ray",
        ),
        pytest.param(
            deployment("m", "--tensor-parallel-size=16", gpus="8").replace(
                "apiVersion: apps/v1\nkind: Deployment",
                "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet",
            ),
            id="a group of pods",
        ),
    ],
)
def test_it_is_silent(text: str) -> None:
    assert found(RULE, text) == []


REFUSED = "resources:\n  requests:\n    nvidia.com/gpu: {}\n"


def test_a_request_without_a_limit_is_refused_by_the_api_server() -> None:
    text = deployment("m", "-tp=2", gpus=None, container=REFUSED.format("2"))
    (finding,) = found(RULE, text)
    assert "none in the limits" in finding.message
    assert at(finding) == "2"
    assert "limits:\n            nvidia.com/gpu: 2" in fixed(RULE, text)


@pytest.mark.parametrize(
    ("args", "requests", "limits", "mended"),
    [
        (("m", "-tp=4"), "2", "4", "4"),
        (("m", "-tp=4"), "4", "2", "4"),
        (("m", "-tp=8"), "4", "2", None),
        (("m", "-tp=$(TP)"), "4", "2", None),
    ],
)
def test_requests_and_limits_have_to_be_equal(
    args: tuple[str, ...], requests: str, limits: str, mended: str | None
) -> None:
    container = f"resources:\n  requests: {{nvidia.com/gpu: {requests}}}\n  limits: {{nvidia.com/gpu: {limits}}}\n"
    text = deployment(*args, gpus=None, container=container)
    (finding,) = found(RULE, text)
    assert "the API server refuses the pod" in finding.message
    after = fixed(RULE, text)
    if mended is None:
        assert after == text
    else:
        assert after.count(f"{{nvidia.com/gpu: {mended}}}") == 2


def test_the_number_of_gpus_is_mended_only_when_asked_for() -> None:
    text = deployment("m", "--tensor-parallel-size=4", gpus='"2"  # two')
    assert fixed(RULE, text) == text
    assert 'nvidia.com/gpu: "4"  # two' in fixed(RULE, text, unsafe=True)


def _on(machine: str, gpus: str) -> str:
    pod = GPU_TOLERATION + f"nodeSelector: {{node.kubernetes.io/instance-type: {machine}}}\n"
    return deployment("m", f"--tensor-parallel-size={gpus}", gpus=gpus, pod=pod)


@pytest.mark.parametrize(
    ("machine", "gpus", "said"),
    [
        ("g6e.xlarge", "4", "g6e.xlarge has 1: it stays Pending"),
        ("g6e.12xlarge", "8", "g6e.12xlarge has 4"),
        ("g6f.4xlarge", "1", "EC2 counts no GPU on g6f.4xlarge"),
    ],
)
def test_no_machine_has_so_many(machine: str, gpus: str, said: str) -> None:
    (finding,) = found(RULE, _on(machine, gpus), compute="karpenter")
    assert said in finding.message


P5 = GPU_TOLERATION + "nodeSelector: {node.kubernetes.io/instance-type: p5.48xlarge}\n"


@pytest.mark.parametrize(
    ("args", "gpus", "said"),
    [
        (("-tp=16",), "8", "needs 16 GPUs (tensor-parallel-size 16) and the pod has 8"),
        (("-tp=4", "-pp=3"), "8", "needs 12 GPUs (tensor-parallel-size 4 × pipeline-parallel-size 3)"),
        (("-tp=4", "-pp=3"), "4", "needs 12 GPUs"),
    ],
)
@pytest.mark.parametrize("compute", ["karpenter", "auto-mode", "nodegroup"])
def test_more_than_a_machine_has_needs_several_nodes(args: tuple[str, ...], gpus: str, said: str, compute: str) -> None:
    text = deployment("m", *args, gpus=gpus, pod=P5)
    (finding,) = found(RULE, text, compute=compute)
    assert said in finding.message
    assert finding.message.endswith("; p5.48xlarge has 8, so that these ranks need several nodes")
    assert finding.fix is None
    assert fixed(RULE, text, unsafe=True, compute=compute) == text


def test_so_do_more_than_any_machine_has_where_none_is_known() -> None:
    text = deployment("m", "-tp=64", gpus="8")
    (finding,) = found(RULE, text)
    assert ("several nodes" in finding.message, finding.fix) == (True, None)
    pool = node_pool("[{key: node.kubernetes.io/instance-type, operator: In, values: [g6e.xlarge, g6e.12xlarge]}]")
    in_pool = GPU_TOLERATION + "nodeSelector: {karpenter.sh/nodepool: gpu}\n"
    (finding,) = found(RULE, pool, deployment("m", "-tp=8", gpus="1", pod=in_pool))
    assert "g6e.12xlarge, has 4, so that these ranks need several nodes" in finding.message
    (finding,) = found(RULE, pool, deployment("m", "-tp=4", gpus="1", pod=in_pool))
    assert finding.fix is not None


@pytest.mark.parametrize("limits", ["", "  limits: {nvidia.com/gpu: 8}\n"])
def test_what_is_made_equal_has_to_fit_as_well(limits: str) -> None:
    container = f"resources:\n  requests: {{nvidia.com/gpu: 16}}\n{limits}"
    text = deployment("m", "-tp=16", gpus=None, container=container, pod=P5)
    (finding,) = found(RULE, text, compute="karpenter")
    assert ("the API server refuses" in finding.message, finding.fix) == (True, None)


@pytest.mark.parametrize(("machine", "gpus"), [("p5.48xlarge", "8"), ("g6e.12xlarge", "2"), ("p9.48xlarge", "16")])
def test_a_machine_that_has_them_or_is_not_known(machine: str, gpus: str) -> None:
    assert found(RULE, _on(machine, gpus), compute="karpenter") == []


def test_device_plugins_of_node_groups_see_a_part_of_a_card() -> None:
    assert found(RULE, _on("g6f.4xlarge", "1"), compute="nodegroup") == []


def test_the_machines_are_those_of_the_node_pool() -> None:
    pool = node_pool("[{key: karpenter.k8s.aws/instance-family, operator: In, values: [g6e]}]")
    pod = GPU_TOLERATION + "nodeSelector: {karpenter.sh/nodepool: gpu}\n"
    assert found(RULE, deployment("m", "-tp=8", gpus="8", pod=pod), pool) == []
    one = node_pool("[{key: node.kubernetes.io/instance-type, operator: In, values: [g6e.xlarge, g6e.12xlarge]}]")
    (finding,) = found(RULE, deployment("m", "-tp=8", gpus="8", pod=pod), one)
    assert (finding.file, "g6e.12xlarge" in finding.message) == ("1.yaml", True)
