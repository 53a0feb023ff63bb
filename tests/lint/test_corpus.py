"""Manifests as people publish them, rebuilt in our own words (corpus/README.md says after which): what lint finds in each.

A finding here was judged as the manifest's author would judge it. A new one is either right, and becomes a row, or a fault of the
rule: an error that is none is worse than one that is not found.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from glowplug.lint import fixing
from glowplug.lint.run import Options
from tests.lint import checking

CORPUS = Path(__file__).parent / "corpus"

# File → (line, rule), in the order in which they are printed.
EXPECTED: dict[str, list[tuple[int, str]]] = {
    "aibrix-omni": [
        (16, "model-unpinned"),
        (20, "gpu-toleration-missing"),
    ],
    "aibrix-quickstart": [
        (17, "model-unpinned"),
        (23, "gpu-toleration-missing"),
        (31, "startup-probe-too-short"),
    ],
    "aibrix-ray-fleet": [],
    "aibrix-v0": [
        (17, "model-unpinned"),
        (27, "gpu-toleration-missing"),
    ],
    "dynamo-aggregated": [],
    "eks-auto-mode": [
        (22, "nodepool-mixed-gpus"),
        (56, "eager-mode"),
        (60, "model-unpinned"),
    ],
    "eks-hub-model": [
        (28, "model-unpinned"),
    ],
    "eks-streamed": [
        (28, "streamer-untuned"),
        (34, "eager-mode"),
    ],
    "gke-gemma": [
        (27, "model-unpinned"),
    ],
    "gke-half-a-node": [
        (20, "gpu-count-mismatch"),
    ],
    "gke-multihost": [
        (23, "model-unpinned"),
    ],
    "karpenter-families": [
        (16, "nodepool-mixed-gpus"),
    ],
    "karpenter-general": [],
    "karpenter-gpu-category": [
        (15, "nodepool-mixed-gpus"),
    ],
    "kserve-llm-service": [
        (19, "gpu-toleration-missing"),
    ],
    "kserve-runtime": [
        (12, "image-unpinned"),
    ],
    "kserve-storage-uri": [],
    "kuberay-serve-llm": [],
    "llm-d-disaggregated": [
        (26, "model-unpinned"),
        (39, "gpu-toleration-missing"),
        (57, "cache-on-emptydir"),
    ],
    "lws-sglang": [
        (16, "image-unpinned"),
        (17, "model-unpinned"),
        (21, "gpu-toleration-missing"),
        (31, "image-unpinned"),
        (32, "model-unpinned"),
        (35, "gpu-toleration-missing"),
    ],
    "lws-vllm-ray": [
        (24, "model-unpinned"),
        (26, "gpu-toleration-missing"),
        (49, "gpu-toleration-missing"),
    ],
    "production-stack-helm": [
        (26, "image-unpinned"),
        (30, "model-unpinned"),
        (68, "gpu-toleration-missing"),
    ],
    "production-stack-lora": [
        (20, "model-unpinned"),
        (45, "gpu-toleration-missing"),
    ],
    "sglang-service": [
        (24, "image-unpinned"),
        (27, "model-unpinned"),
        (34, "gpu-toleration-missing"),
        (38, "liveness-kills-start"),
    ],
    "sglang-two-nodes": [
        (18, "image-unpinned"),
        (40, "gpu-toleration-missing"),
    ],
    "vllm-docs-amd": [
        (28, "model-unpinned"),
    ],
    "vllm-docs-nvidia": [
        (43, "image-unpinned"),
        (46, "model-unpinned"),
        (55, "gpu-toleration-missing"),
        (60, "liveness-kills-start"),
    ],
}


def test_every_manifest_has_its_row() -> None:
    assert {path.stem for path in CORPUS.glob("*.yaml")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_what_is_found(name: str) -> None:
    text = (CORPUS / f"{name}.yaml").read_text(encoding="utf-8")
    assert [(one.line, one.rule) for one in checking.everything(text)] == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_what_is_fixed_stays_fixed(name: str) -> None:
    """Safe fixes of all rules together: the text stays YAML, and no finding is left that had one."""
    text = (CORPUS / f"{name}.yaml").read_text(encoding="utf-8")
    asked = Options(None)
    done = fixing.fix(checking.sources(text), asked, unsafe=False)
    after = done.sources[0].text
    assert not [one for one in done.findings if one.fixable(unsafe=False)]
    assert fixing.fix(done.sources, asked, unsafe=False).applied == {}
    kept = {line.strip() for line in after.splitlines()}
    assert all(line.strip() in kept for line in text.splitlines() if line.lstrip().startswith("#"))


def test_all_of_them_together() -> None:
    """In one call they are looked at as one cluster's: nothing fails, and no object is confused with another's."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(CORPUS.glob("*.yaml"))]
    findings = checking.everything(*texts)
    assert {one.rule for one in findings if one.severity.value == "error"} <= {
        "gpu-count-mismatch",
        "liveness-kills-start",
        "startup-probe-too-short",
    }


def test_the_sources_are_named() -> None:
    readme = (CORPUS / "README.md").read_text(encoding="utf-8")
    for name in EXPECTED:
        assert f"`{name}.yaml`" in readme
