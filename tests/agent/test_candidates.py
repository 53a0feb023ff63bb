"""Which GPUs a node's pods may see, from what its labels and its driver say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from glowplug.agent.candidates import gpus
from glowplug.catalog.gpus import MIB, Gpu
from glowplug.catalog.gpus import gpus as cards
from glowplug.fingerprint.hardware import from_proc

PRODUCT = "nvidia.com/gpu.product"
KARPENTER = "karpenter.k8s.aws/instance-gpu-"
AUTO_MODE = "eks.amazonaws.com/instance-gpu-"
A100 = ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB")


def named(labels: dict[str, str], *seen: str, **capacity: str) -> tuple[str, ...]:
    node: dict[str, Any] = {
        "metadata": {"labels": labels},
        "status": {
            "capacity": {name.replace("__", "/").replace("_", "."): amount for name, amount in capacity.items()}
        },
    }
    return gpus(node, seen=lambda: seen, processor=lambda: "cpu:x86-64-v3")


@pytest.mark.parametrize("card", cards(), ids=lambda card: card.name)
def test_each_card_of_the_catalogue_by_each_of_its_labels(card: Gpu) -> None:
    size = str(card.ec2_memory_bytes // MIB)
    assert named({PRODUCT: card.label}) == (card.nvml_name,)
    assert named({PRODUCT: f"{card.label}-SHARED"}) == (card.nvml_name,)
    for prefix in (KARPENTER, AUTO_MODE):
        assert named({f"{prefix}name": card.ec2_name, f"{prefix}memory": size}) == (card.nvml_name,)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param({f"{KARPENTER}name": "a100"}, A100, id="two-cards-of-one-name"),
        pytest.param({PRODUCT: "a100"}, A100, id="somebody's-own-label"),
        pytest.param({f"{AUTO_MODE}name": "l4", f"{AUTO_MODE}memory": "2861"}, ("NVIDIA L4",), id="part-of-a-card"),
        pytest.param({PRODUCT: "A100-SXM4-40GB"}, (A100[0], "A100-SXM4-40GB"), id="an-older-driver's-name"),
        pytest.param({PRODUCT: "NVIDIA-GeForce-RTX-4090"}, ("NVIDIA GeForce RTX 4090",), id="no-card-of-EC2's"),
        pytest.param({PRODUCT: "NVIDIA-A100-PCIE-40GB"}, ("NVIDIA A100-PCIE-40GB",), id="a-name-with-dashes"),
        pytest.param(
            {PRODUCT: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}, ("NVIDIA A100-SXM4-40GB MIG 1g.5gb",), id="MIG-of-one-size"
        ),
        pytest.param(
            {PRODUCT: "NVIDIA-A100-SXM4-40GB", "nvidia.com/mig-3g.20gb.product": "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb"},
            ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB MIG 3g.20gb"),
            id="MIG-of-several-sizes",
        ),
        pytest.param({"node.kubernetes.io/instance-type": "g5.xlarge"}, ("NVIDIA A10G",), id="instance-type-alone"),
        pytest.param(
            {PRODUCT: "NVIDIA-L4", "node.kubernetes.io/instance-type": "g5.xlarge"},
            ("NVIDIA L4",),
            id="the-product-first",
        ),
        pytest.param({}, ("cpu:x86-64-v3",), id="no-label"),
        pytest.param({PRODUCT: ""}, ("cpu:x86-64-v3",), id="an-empty-label"),
        pytest.param({"node.kubernetes.io/instance-type": "m7i.large"}, ("cpu:x86-64-v3",), id="no-GPU-of-EC2's"),
    ],
)
def test_what_labels_mean(labels: dict[str, str], expected: tuple[str, ...]) -> None:
    assert named(labels) == expected


def test_a_node_with_devices_that_nothing_names_has_no_candidates() -> None:
    """The CPU's name would be a guess: its pods compile for the device."""
    assert named({}, nvidia_com__gpu="8") == ()
    assert named({}, nvidia_com__gpu="0") == ("cpu:x86-64-v3",)


def test_what_the_driver_has_found_counts_more_than_labels() -> None:
    assert named({f"{KARPENTER}name": "a100"}, A100[1]) == (A100[1],)
    assert named({}, "NVIDIA H200", nvidia_com__gpu="8") == ("NVIDIA H200",)
    mig = {PRODUCT: "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"}
    assert named(mig, A100[1]) == (A100[1], "NVIDIA A100-SXM4-80GB MIG 1g.10gb")


def test_the_driver_s_files(tmp_path: Path) -> None:
    card = tmp_path / "0000:00:1e.0"
    card.mkdir()
    (card / "information").write_text("Model: \t\t NVIDIA A10G\nIRQ:   \t\t 35\nGPU UUID: \t GPU-1\n")
    assert [one.name for one in from_proc(tmp_path)] == ["NVIDIA A10G"]


@pytest.mark.parametrize("node", [{}, {"metadata": None}, {"metadata": {"labels": None}, "status": {"capacity": []}}])
def test_a_node_that_says_nothing_is_one_without_a_gpu(node: Any) -> None:
    assert gpus(node, seen=tuple, processor=lambda: "cpu:generic") == ("cpu:generic",)
