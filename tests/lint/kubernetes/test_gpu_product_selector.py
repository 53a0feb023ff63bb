"""gpu-product-selector: how a card is spelt, and where."""

from __future__ import annotations

import pytest

from glowplug.catalog.gpus import gpus
from tests.lint.checking import at, fixed, found
from tests.lint.kubernetes.written import GPU_TOLERATION, deployment, line_of, node_pool

RULE = "gpu-product-selector"
PRODUCT = "nvidia.com/gpu.product"
KARPENTER = "karpenter.k8s.aws/instance-gpu-name"
AUTO_MODE = "eks.amazonaws.com/instance-gpu-name"


def selecting(key: str, value: str) -> str:
    return deployment(pod=GPU_TOLERATION + f"nodeSelector:\n  {key}: {value}\n")


def affinity(*expressions: str, kind: str = "required") -> str:
    if kind == "preferred":
        preference = f"{{weight: 1, preference: {{matchExpressions: [{expressions[0]}]}}}}"
        inner = f"preferredDuringSchedulingIgnoredDuringExecution: [{preference}]"
    else:
        terms = ", ".join(f"{{matchExpressions: [{one}]}}" for one in expressions)
        inner = f"requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{terms}]}}"
    return deployment(pod=GPU_TOLERATION + f"affinity:\n  nodeAffinity:\n    {inner}\n")


def one_of(key: str, *values: str, operator: str = "In") -> str:
    return f"{{key: {key}, operator: {operator}, values: [{', '.join(values)}]}}"


@pytest.mark.parametrize(
    ("key", "value", "right", "safe"),
    [
        (PRODUCT, "nvidia-h100-80gb-hbm3", "NVIDIA-H100-80GB-HBM3", True),
        (PRODUCT, "NVIDIA_L40S", "NVIDIA-L40S", True),
        (PRODUCT, "l40s", "NVIDIA-L40S", False),
        (PRODUCT, "H100", "NVIDIA-H100-80GB-HBM3", False),
        (PRODUCT, "A10G", "NVIDIA-A10G", False),
        (PRODUCT, "NVIDIA-T4", "Tesla-T4", False),
        (PRODUCT, "NVIDIA-H100-80GB-HMB3", "NVIDIA-H100-80GB-HBM3", False),
        (PRODUCT, "nvidia-a10g-SHARED", "NVIDIA-A10G-SHARED", True),
        (KARPENTER, "L40S", "l40s", True),
        (KARPENTER, "NVIDIA-L40S", "l40s", True),
        (KARPENTER, "NVIDIA-A10G", "a10g", True),
        (KARPENTER, "h100-80gb", "h100", True),
        (KARPENTER, "a10", "a10g", False),
        (KARPENTER, "rtx-pro-6000", "rtx-pro-server-6000", True),
        (AUTO_MODE, "A100", "a100", True),
        (AUTO_MODE, "l40", "l40s", False),
    ],
)
def test_another_spelling(key: str, value: str, right: str, safe: bool) -> None:
    text = selecting(key, value)
    (finding,) = found(RULE, text)
    assert at(finding) == value
    assert finding.line == line_of(text, f"{key}: {value}")
    assert right in finding.hint
    mended = text.replace(value, right)
    assert fixed(RULE, text) == (mended if safe else text)
    assert fixed(RULE, text, unsafe=True) == mended
    assert found(RULE, mended) == []


def test_a_name_of_two_cards_is_not_chosen_from() -> None:
    text = selecting(PRODUCT, "a100")
    (finding,) = found(RULE, text)
    assert "NVIDIA-A100-SXM4-40GB or NVIDIA-A100-SXM4-80GB" in finding.hint
    assert fixed(RULE, text, unsafe=True) == text


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((PRODUCT, card.label) for card in gpus() if card.label),
        *((key, card.ec2_name) for card in gpus() if card.ec2_name for key in (KARPENTER, AUTO_MODE)),
        # As older drivers and older documents have them.
        (PRODUCT, "A100-SXM4-80GB"),
        (PRODUCT, "TESLA-T4"),
        (PRODUCT, "NVIDIA-A10G-SHARED"),
        (PRODUCT, "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"),
        # Cards that EC2 has not.
        *(
            (PRODUCT, other)
            for other in (
                "NVIDIA-A10",
                "NVIDIA-L40",
                "NVIDIA-H100-PCIe",
                "NVIDIA-H100-NVL",
                "NVIDIA-H200-NVL",
                "NVIDIA-A100-80GB-PCIe",
                "NVIDIA-A100-SXM4-40GB-1",
                "NVIDIA-H20",
                "NVIDIA-GB200",
                "Tesla-V100-SXM2-16GB",
                "NVIDIA-GeForce-RTX-4090",
                "NVIDIA-RTX-A6000",
                "NVIDIA-GH200-480GB",
            )
        ),
        # Names that EC2 has or may get.
        *((KARPENTER, other) for other in ("gb200", "gb300", "k80", "m60", "h300", "radeon-pro-v520", "b400", "l5")),
        ("example.com/gpu", "H100"),
    ],
)
def test_names_that_are_right_or_not_known(key: str, value: str) -> None:
    assert found(RULE, selecting(key, value)) == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (affinity(one_of(KARPENTER, "A10G")), 1),
        (affinity(one_of(KARPENTER, "A10G", "L4")), 2),
        (affinity(one_of(KARPENTER, "A10G", "l4")), 0),
        (affinity(one_of(PRODUCT, "H100", "NVIDIA-H100-PCIe")), 0),
        (affinity(one_of(KARPENTER, "A10G", operator="NotIn")), 0),
        (affinity(one_of(KARPENTER, "A10G"), one_of("team", "a")), 0),
        (affinity(one_of(KARPENTER, "A10G"), kind="preferred"), 0),
    ],
)
def test_affinities(text: str, count: int) -> None:
    assert len(found(RULE, text)) == count


@pytest.mark.parametrize(("value", "fires"), [("A10G", True), ("a10g", False), ("a10g, L4", False)])
def test_requirements_of_a_pool(value: str, fires: bool) -> None:
    findings = found(RULE, node_pool(f"[{one_of(KARPENTER, value)}]"))
    assert bool(findings) == fires
    for one in findings:
        assert "the NodePool buys no node" in one.message


BOTH = GPU_TOLERATION + "nodeSelector:\n  karpenter.sh/nodepool: gpu\n  nvidia.com/gpu.product: NVIDIA-L40S\n"


@pytest.mark.parametrize(
    ("texts", "fires"),
    [
        ((deployment(pod=BOTH), node_pool()), True),
        ((deployment(pod=BOTH), node_pool(labels="{nvidia.com/gpu.product: NVIDIA-L40S}")), False),
        ((deployment(pod=BOTH), node_pool(f"[{one_of(PRODUCT, 'NVIDIA-L40S')}]")), False),
        ((deployment(pod=BOTH), node_pool(name="other")), False),
        ((selecting(PRODUCT, "NVIDIA-L40S"), node_pool()), False),
        ((deployment(pod=BOTH),), False),
    ],
)
def test_a_label_that_the_chosen_pool_does_not_set(texts: tuple[str, ...], fires: bool) -> None:
    findings = found(RULE, *texts)
    assert bool(findings) == fires
    for one in findings:
        assert at(one) == "NVIDIA-L40S"
        assert "does not set the label nvidia.com/gpu.product" in one.message
