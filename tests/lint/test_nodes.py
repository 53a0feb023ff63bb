"""Which NodePools a pod may land on, on which machines, and how those nodes are made."""

from __future__ import annotations

import textwrap

import pytest

from tests.lint.reading import manifests, pod, text_at, workload

VLLM = "image: vllm/vllm-openai:v0.21.0\nargs: [m]\nresources: {limits: {nvidia.com/gpu: 1}}\n"
TOLERANT = "tolerations: [{key: nvidia.com/gpu, operator: Exists}]\n"


def pool(name: str = "gpu", requirements: str = "", *, auto_mode: bool = False, more: str = "") -> str:
    group, kind = ("eks.amazonaws.com", "NodeClass") if auto_mode else ("karpenter.k8s.aws", "EC2NodeClass")
    lines = textwrap.indent(textwrap.dedent(requirements).strip("\n"), "      ")
    return (
        f"apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: {name}}}\nspec:\n  template:\n"
        f"{textwrap.indent(more, '    ')}    spec:\n"
        f"      nodeClassRef: {{group: {group}, kind: {kind}, name: {name}}}\n"
        "      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]\n"
        + (f"      requirements:\n{lines}\n" if lines else "")
    )


def family(*names: str) -> str:
    return f"- {{key: karpenter.k8s.aws/instance-family, operator: In, values: [{', '.join(names)}]}}"


@pytest.mark.parametrize(
    ("requirements", "machines"),
    [
        ("- {key: node.kubernetes.io/instance-type, operator: In, values: [p5.48xlarge]}", {"p5.48xlarge"}),
        (family("p5en"), {"p5en.48xlarge"}),
        (
            family("g6e") + "\n- {key: karpenter.k8s.aws/instance-gpu-count, operator: Gt, values: ['1']}",
            {"g6e.12xlarge", "g6e.24xlarge", "g6e.48xlarge"},
        ),
        (
            family("g5")
            + "\n- {key: karpenter.k8s.aws/instance-size, operator: NotIn, values: [xlarge, 2xlarge, 4xlarge]}"
            "\n- {key: karpenter.k8s.aws/instance-cpu, operator: Lt, values: ['49']}",
            {"g5.8xlarge", "g5.12xlarge"},
        ),
        (
            (
                "- {key: karpenter.k8s.aws/instance-gpu-name, operator: In, values: [h200]}\n"
                "- {key: karpenter.k8s.aws/instance-local-nvme, operator: Exists}"
            ),
            {"p5e.48xlarge", "p5en.48xlarge"},
        ),
        (
            (
                "- {key: karpenter.k8s.aws/instance-category, operator: In, values: [p]}\n"
                "- {key: karpenter.k8s.aws/instance-generation, operator: In, values: ['4']}"
            ),
            {"p4d.24xlarge", "p4de.24xlarge"},
        ),
        (family("c7i"), set()),
        ("- {key: karpenter.sh/capacity-type, operator: In, values: [spot]}", set()),
        ("- {key: kubernetes.io/arch, operator: NotIn, values: [arm64]}", set()),
        ("- x\n- {key: [], operator: {}}\n- {key: a, operator: In, values: {b: c}}", set()),
    ],
)
def test_machines_of_a_pool(requirements: str, machines: set[str]) -> None:
    (node,) = manifests(pool(requirements=requirements)).nodes
    names = {one.instance.name for one in node.machines if one.instance}
    assert names == machines
    for one in node.machines:
        assert text_at(one.at).startswith("{key: ")


def test_a_node_knows_its_class() -> None:
    class_ = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: gpu}\nspec: {instanceStorePolicy: RAID0}\n"
    (node,) = manifests(pool(requirements=family("p5")), class_).nodes
    assert not node.auto_mode
    assert node.node_class is not None
    assert node.node_class.value.get("spec", "instanceStorePolicy") is not None
    assert text_at(node.requirements["karpenter.k8s.aws/instance-family"]).startswith("{key: karpenter")
    (auto,) = manifests(pool(auto_mode=True), class_).nodes
    assert auto.auto_mode
    assert auto.node_class is None


P5 = pool("p5", family("p5"))
G6E = pool("g6e", family("g6e"), more="metadata: {labels: {team: a}}\n")
CPU = pool("cpu", "- {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}")
ANY = pool("any")


@pytest.mark.parametrize(
    ("spec", "pools"),
    [
        ("", set()),
        (TOLERANT, {"p5", "g6e", "any"}),
        ("tolerations: [{operator: Exists}]", {"p5", "g6e", "any"}),
        ("tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoExecute}]", set()),
        ("tolerations: [{key: nvidia.com/gpu, value: x}]", set()),
        ("tolerations: [{key: nvidia.com/gpu, effect: NoSchedule}]", {"p5", "g6e", "any"}),
        ("tolerations: {key: x}", set()),
        (TOLERANT + "nodeSelector: {karpenter.sh/nodepool: p5}", {"p5"}),
        (TOLERANT + "nodeSelector: {team: a}", {"g6e"}),
        (TOLERANT + "nodeSelector: {team: b}", set()),
        (TOLERANT + "nodeSelector: {karpenter.k8s.aws/instance-family: p5}", {"p5", "any"}),
        (TOLERANT + "nodeSelector: {karpenter.k8s.aws/instance-gpu-name: l40s}", {"g6e", "any"}),
        (TOLERANT + "nodeSelector: {node.kubernetes.io/instance-type: p5.48xlarge}", {"p5", "any"}),
        (TOLERANT + "nodeSelector: {eks.amazonaws.com/instance-family: p5}", set()),
        (TOLERANT + "nodeSelector: {eks.amazonaws.com/nodegroup: x}", set()),
        (TOLERANT + "nodeSelector: {nvidia.com/gpu.product: NVIDIA-L40S}", set()),
        (TOLERANT + "nodeSelector: {topology.kubernetes.io/zone: us-west-2a}", {"p5", "g6e", "any"}),
        (
            TOLERANT
            + """
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
      - matchExpressions: [{key: karpenter.sh/nodepool, operator: In, values: [p5]}]
      - matchExpressions: [{key: team, operator: Exists}]
""",
            {"p5", "g6e"},
        ),
        (
            TOLERANT
            + """
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
      - matchExpressions: [{key: team, operator: DoesNotExist}]
""",
            {"p5", "any"},
        ),
    ],
)
def test_where_a_pod_may_land(spec: str, pools: set[str]) -> None:
    one = workload(pod(VLLM, spec=spec), P5, G6E, CPU, ANY)
    assert {node.pool.name for node in one.nodes} == pools


@pytest.mark.parametrize(
    ("spec", "others", "machines", "compute"),
    [
        ("", [], [], ""),
        (TOLERANT, [P5], ["p5.48xlarge", "p5.4xlarge"], "karpenter"),
        (TOLERANT, [P5, ANY], [], "karpenter"),
        (TOLERANT, [pool("auto", auto_mode=True)], [], "auto-mode"),
        (TOLERANT, [P5, pool("auto", auto_mode=True)], [], ""),
        ("nodeSelector: {node.kubernetes.io/instance-type: g6e.12xlarge}", [], ["g6e.12xlarge"], ""),
        ("nodeSelector: {node.kubernetes.io/instance-type: x9.large}", [], [], ""),
        ("nodeSelector: {nvidia.com/gpu.product: NVIDIA-L40S}", [], ["l40s"], ""),
        ("nodeSelector: {eks.amazonaws.com/nodegroup: gpus}", [], [], "nodegroup"),
        ("nodeSelector: {eks.amazonaws.com/compute-type: auto}", [], [], "auto-mode"),
        ("nodeSelector: {eks.amazonaws.com/instance-family: p5en}", [], ["p5en.48xlarge"], "auto-mode"),
        ("nodeSelector: {karpenter.k8s.aws/instance-family: p5en}", [], ["p5en.48xlarge"], "karpenter"),
        ("nodeSelector: [x]", [], [], ""),
        ("affinity: {nodeAffinity: []}", [], [], ""),
    ],
)
def test_machines_and_compute(spec: str, others: list[str], machines: list[str], compute: str) -> None:
    one = workload(pod(VLLM, spec=spec), *others)
    names = {machine.instance.name if machine.instance else machine.gpu.name for machine in one.machines if machine.gpu}
    assert (names, one.compute) == (set(machines), compute)


def test_a_machine_has_the_gpus_that_the_pod_asks_for() -> None:
    one = workload(pod(VLLM.replace("gpu: 1", "gpu: 8"), spec=TOLERANT), P5)
    assert [machine.instance.name for machine in one.machines if machine.instance] == ["p5.48xlarge"]
    assert text_at(one.machines[0].at).startswith("{key: karpenter.k8s.aws/instance-family")


def test_the_command_line_s_compute_wins() -> None:
    one = workload(pod(VLLM, spec="nodeSelector: {eks.amazonaws.com/nodegroup: x}"), compute="karpenter")
    assert one.compute == "karpenter"
