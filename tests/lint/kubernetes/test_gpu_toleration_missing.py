"""gpu-toleration-missing: by the taints of the NodePools that were given, else by convention."""

from __future__ import annotations

import pytest
import yaml

from tests.lint.checking import at, fixed, fixed_all, found
from tests.lint.kubernetes.written import GPU_TOLERATION, STARTUP, TAINTS, deployment, node_pool

RULE = "gpu-toleration-missing"
SELECTED = "nodeSelector: {karpenter.sh/nodepool: gpu}\n"
DEDICATED = "taints:\n- {key: dedicated, value: inference, effect: NoSchedule}\n"
OTHER = "tolerations:\n- {key: team, operator: Exists}\n"


@pytest.mark.parametrize("pod", ["", OTHER, "tolerations: []\n", GPU_TOLERATION.replace("NoSchedule", "NoExecute")])
def test_without_a_pool_the_convention_counts(pod: str) -> None:
    text = deployment(pod=pod)
    (finding,) = found(RULE, text)
    assert finding.severity.value == "warning"
    assert at(finding) == "1"
    assert found(RULE, fixed(RULE, text)) == []


@pytest.mark.parametrize(
    ("label", "fires"),
    [
        ("topology.kubernetes.io/zone: eu-central-1a", True),
        ("kubernetes.io/arch: amd64", True),
        ("karpenter.sh/capacity-type: on-demand", True),
        ("nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3", True),
        ("karpenter.sh/nodepool: gpu", False),
        ("eks.amazonaws.com/nodegroup: gpu", False),
        ("node.kubernetes.io/instance-type: p5.48xlarge", False),
        ("team: inference", False),
    ],
)
def test_who_chooses_nodes_that_nobody_described_knows_their_taints(label: str, fires: bool) -> None:
    key, value = label.split(": ")
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = (
        f"affinity:\n  nodeAffinity:\n    {required}:\n      nodeSelectorTerms:\n"
        f"      - matchExpressions: [{{key: {key}, operator: In, values: [{value}]}}]\n"
    )
    for pod in (f"nodeSelector: {{{label}}}\n", affinity):
        found_ = found(RULE, deployment(pod=pod))
        assert bool(found_) == fires
        assert all("which GPU nodes have by convention" in one.message for one in found_)


def test_another_pool_with_the_taint_is_named() -> None:
    pod = "nodeSelector: {team: inference}\n"
    tainted = node_pool(template=TAINTS, labels="{team: research}")
    (finding,) = found(RULE, deployment(pod=pod), tainted)
    assert finding.message.endswith("nvidia.com/gpu:NoSchedule, which the NodePool gpu gives its nodes")
    assert found(RULE, deployment(pod=pod), node_pool(labels="{team: research}")) == []


@pytest.mark.parametrize(
    "text",
    [
        deployment(),
        deployment(pod="tolerations:\n- operator: Exists\n"),
        deployment(pod="tolerations:\n- {key: nvidia.com/gpu, value: present, effect: NoSchedule}\n"),
        deployment(pod="tolerations:\n- {key: nvidia.com/gpu, operator: Exists}\n"),
        deployment(pod="", gpus=None),
        deployment(pod="", gpus="0"),
        deployment(pod="nodeName: ip-10-0-0-1\n"),
        deployment(pod="nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}\n"),
    ],
)
def test_it_is_silent(text: str) -> None:
    assert found(RULE, text) == []


@pytest.mark.parametrize(
    ("template", "pod", "fires"),
    [
        (TAINTS, SELECTED, True),
        (TAINTS, SELECTED + GPU_TOLERATION, False),
        ("", SELECTED, False),
        (STARTUP, SELECTED, False),
        (DEDICATED, SELECTED + GPU_TOLERATION, True),
        (TAINTS.replace("NoSchedule", "PreferNoSchedule"), SELECTED, False),
        (TAINTS.replace("effect", "value: present, effect"), SELECTED + GPU_TOLERATION, False),
        (
            TAINTS.replace("effect", "value: present, effect"),
            SELECTED + "tolerations:\n- {key: nvidia.com/gpu, value: 'true'}\n",
            True,
        ),
    ],
)
def test_the_taints_of_the_pool_count_where_it_was_given(template: str, pod: str, fires: bool) -> None:
    assert bool(found(RULE, deployment(pod=pod), node_pool(template=template))) == fires


def test_one_pool_that_it_tolerates_is_enough() -> None:
    tainted, plain = node_pool(template=TAINTS), node_pool(name="plain")
    assert found(RULE, deployment(pod=""), tainted, plain) == []
    assert found(RULE, deployment(pod=""), tainted, node_pool(name="other", template=TAINTS)) != []


def test_the_convention_is_added_where_it_belongs() -> None:
    text = deployment(pod="serviceAccountName: reader  # reads\n")
    after = fixed(RULE, text)
    assert yaml.safe_load(after) == yaml.safe_load(deployment(pod="serviceAccountName: reader\n" + GPU_TOLERATION))
    kept = [line for line in after.splitlines() if line in text.splitlines()]
    assert kept == text.splitlines()
    assert after.index("serviceAccountName") < after.index("tolerations") < after.index("containers")


def test_a_toleration_of_somebody_elses_taint_is_added_only_when_asked_for() -> None:
    texts = (deployment(pod=SELECTED + GPU_TOLERATION), node_pool(template=DEDICATED))
    assert fixed_all(RULE, texts) == list(texts)
    after, pool = fixed_all(RULE, texts, unsafe=True)
    assert "key: dedicated" in after
    assert pool == texts[1]
