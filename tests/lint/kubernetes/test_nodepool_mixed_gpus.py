"""nodepool-mixed-gpus: one pool, several cards."""

from __future__ import annotations

import pytest

from tests.lint.checking import at, found
from tests.lint.kubernetes.written import GPU_TOLERATION, deployment, node_pool

RULE = "nodepool-mixed-gpus"


def only(key: str, *values: str, operator: str = "In") -> str:
    return f"{{key: {key}, operator: {operator}, values: [{', '.join(values)}]}}"


def pool(*requirements: str, auto_mode: bool = False) -> str:
    return node_pool(f"[{', '.join(requirements)}]", auto_mode=auto_mode)


FAMILY, NAME, TYPE = (
    "karpenter.k8s.aws/instance-family",
    "karpenter.k8s.aws/instance-gpu-name",
    "node.kubernetes.io/instance-type",
)
MIXED = pool(only(FAMILY, "g6e", "p5"))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (MIXED, FAMILY),
        (pool(only(TYPE, "g6e.xlarge", "g5.xlarge")), TYPE),
        (pool(only(NAME, "l4", "l40s")), NAME),
        (pool(only(NAME, "a100")), NAME),  # two cards of one name
        (
            pool(only("eks.amazonaws.com/instance-family", "g6", "g6e"), auto_mode=True),
            "eks.amazonaws.com/instance-family",
        ),
        (pool(only("karpenter.k8s.aws/instance-category", "g", "p")), "karpenter.k8s.aws/instance-category"),
    ],
)
def test_it_fires_at_the_requirement_that_decides(text: str, key: str) -> None:
    (finding,) = found(RULE, text)
    assert at(finding) == key
    assert finding.severity.value == "warning"


@pytest.mark.parametrize(
    "text",
    [
        pool(only(FAMILY, "g6e")),
        pool(only(TYPE, "p5e.48xlarge", "p5en.48xlarge")),
        pool(only(NAME, "l40s")),
        pool(only(NAME, "a100"), only("karpenter.k8s.aws/instance-gpu-memory", '"81920"')),
        pool(only(FAMILY, "g6e", "m7i"), only(NAME, "l40s")),
        pool(only("karpenter.k8s.aws/instance-category", "c", "m", "r")),
        pool(only("karpenter.sh/capacity-type", "spot")),
    ],
)
def test_it_is_silent(text: str) -> None:
    assert found(RULE, text) == []


@pytest.mark.parametrize(
    ("pod", "fires"),
    [
        ("nodeSelector: {karpenter.k8s.aws/instance-gpu-name: l40s}\n", False),
        ("nodeSelector: {node.kubernetes.io/instance-type: p5.48xlarge}\n", False),
        ("nodeSelector: {karpenter.sh/nodepool: gpu}\n", True),
        ("", True),
    ],
)
def test_pods_that_say_which_card_make_it_right(pod: str, fires: bool) -> None:
    findings = found(RULE, deployment(pod=pod + GPU_TOLERATION), MIXED)
    assert bool(findings) == fires
    for one in findings:
        assert one.file == "2.yaml"
        assert "Deployment vllm takes any" in one.message


def test_one_pod_that_does_not_is_enough() -> None:
    says = deployment(name="a", pod="nodeSelector: {karpenter.k8s.aws/instance-gpu-name: l40s}\n" + GPU_TOLERATION)
    assert found(RULE, says, MIXED) == []
    (finding,) = found(RULE, says, deployment(name="b"), MIXED)
    assert "Deployment b takes any" in finding.message
