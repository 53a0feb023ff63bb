"""One directory, several workloads."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lint.checking import fixed, fixed_all, found
from tests.lint.compile.manifests import MOUNT, NVME, ROOT, cached, host
from tests.lint.compile.tables import Fires, Silent, name_of

RULE = name_of(__file__)


def _two(*, one: str = NVME, other: str = NVME, mount: str = MOUNT, **more: Any) -> str:
    return cached(one, name="llama", mount=mount, **more) + "---\n" + cached(other, name="qwen", mount=mount)


FIRES = {
    "two Deployments": Fires(
        _two(), ("/mnt/k8s-disks/0/compile-cache", "/mnt/k8s-disks/0/compile-cache"), "Deployment default/qwen"
    ),
    "spelled otherwise": Fires(
        _two(other=host("/mnt/k8s-disks/0//compile-cache/")),
        ("/mnt/k8s-disks/0/compile-cache", "/mnt/k8s-disks/0//compile-cache/"),
    ),
    "a Deployment and a StatefulSet": Fires(
        cached(name="llama") + "---\n" + cached(name="qwen", kind="StatefulSet"),
        ("/mnt/k8s-disks/0/compile-cache", "/mnt/k8s-disks/0/compile-cache"),
        "StatefulSet default/qwen",
    ),
    "three": Fires(_two() + "---\n" + cached(name="phi"), ("/mnt/k8s-disks/0/compile-cache",) * 3),
    "one claim": Fires(
        _two(one="persistentVolumeClaim: {claimName: cache}", other="persistentVolumeClaim: {claimName: cache}"),
        ("cache", "cache"),
    ),
    "the same directory by a subPath": Fires(
        cached(name="llama", mount="{name: compile-cache, mountPath: /compile-cache, subPath: x}")
        + "---\n"
        + cached(host("/mnt/k8s-disks/0/compile-cache/x"), name="qwen"),
        ("/mnt/k8s-disks/0/compile-cache", "/mnt/k8s-disks/0/compile-cache/x"),
    ),
}

SILENT = {
    "one workload": Silent(cached(name="llama")),
    "a directory each": Silent(_two(other=host("/mnt/k8s-disks/0/compile-cache/qwen"))),
    "a subPath each": Silent(
        cached(name="a", mount="{name: compile-cache, mountPath: /compile-cache, subPath: a}")
        + "---\n"
        + cached(name="b", mount="{name: compile-cache, mountPath: /compile-cache, subPath: b}")
    ),
    "an emptyDir each": Silent(_two(one="emptyDir: {}", other="emptyDir: {}")),
    "only one writes": Silent(_two(mount="{name: compile-cache, mountPath: /compile-cache, readOnly: true}")),
    "never on one node": Silent(
        cached(name="a", spec="nodeSelector: {karpenter.sh/nodepool: a}")
        + "---\n"
        + cached(name="b", spec="nodeSelector: {karpenter.sh/nodepool: b}")
    ),
    "only one compiles": Silent(cached(name="a", args=["--model=/m", "--enforce-eager"]) + "---\n" + cached(name="b")),
    "claims of two namespaces": Silent(
        cached("persistentVolumeClaim: {claimName: c}", name="a")
        + "---\n"
        + cached("persistentVolumeClaim: {claimName: c}", name="b").replace("namespace: default", "namespace: other")
    ),
}


@pytest.mark.parametrize("case", FIRES.values(), ids=FIRES)
def test_it_is_found_where_it_stands(case: Fires) -> None:
    case.check(RULE)


@pytest.mark.parametrize("case", SILENT.values(), ids=SILENT)
def test_it_is_silent(case: Silent) -> None:
    case.check(RULE)


def test_workloads_of_several_files_count_as_well() -> None:
    findings = found(RULE, cached(name="llama"), cached(name="qwen"))
    assert [one.file for one in findings] == ["1.yaml", "2.yaml"]


def test_one_object_in_two_files_is_one_workload() -> None:
    """An overlay beside its base, or a copy: nothing is shared, and nothing is moved, round after round."""
    assert found(RULE, cached(name="llama"), cached(name="llama")) == []
    first, second, third = found(RULE, cached(name="llama"), cached(name="llama"), cached(name="qwen"))
    assert "Deployment default/qwen as well" in first.message
    assert "Deployment default/qwen as well" in second.message
    assert "Deployment default/llama as well" in third.message
    texts = fixed_all(RULE, [cached(name="llama"), cached(name="llama"), cached(name="qwen")], unsafe=True)
    assert [text.count("/compile-cache/llama,") for text in texts] == [1, 1, 0]


def test_objects_of_two_groups_or_namespaces_are_two_workloads() -> None:
    elsewhere = cached(name="llama").replace("namespace: default", "namespace: other")
    assert len(found(RULE, cached(name="llama"), elsewhere)) == 2
    other = cached(name="llama").replace("apps/v1", "apps.example.com/v1")
    assert len(found(RULE, cached(name="llama"), other)) == 2
    newer = cached(name="llama").replace("apps/v1", "apps/v2")
    assert found(RULE, cached(name="llama"), newer) == []


BASE = "/mnt/k8s-disks/0/compile-cache"


def _in(namespace: str, *, path: str = BASE, kind: str = "Deployment", group: str = "apps") -> str:
    text = cached(host(path), name="vllm", kind=kind).replace("namespace: default", f"namespace: {namespace}")
    return text.replace("apiVersion: apps/", f"apiVersion: {group}/")


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        (_in("a"), _in("b"), ("a.deployment.vllm", "b.deployment.vllm")),
        (_in("a"), _in("a", kind="StatefulSet"), ("a.deployment.vllm", "a.statefulset.vllm")),
        (_in("a"), _in("a", group="x.dev"), ("a.deployment.apps.vllm", "a.deployment.x.dev.vllm")),
        (
            _in("a", path=f"{BASE}/vllm"),
            _in("b", path=f"{BASE}/vllm"),
            ("vllm/a.deployment.vllm", "vllm/b.deployment.vllm"),
        ),
        (_in("a"), cached(host(BASE), name="qwen"), ("vllm", "qwen")),
    ],
    ids=["two namespaces", "two kinds", "two groups", "a directory of that name", "two names"],
)
def test_workloads_of_one_name_get_a_directory_each(one: str, other: str, wanted: tuple[str, str]) -> None:
    texts = fixed_all(RULE, [one, other], unsafe=True)
    assert [f"path: {BASE}/{name}," in text for name, text in zip(wanted, texts, strict=True)] == [True, True], texts
    assert found(RULE, *texts) == []


def test_one_that_is_called_alike_in_a_third_directory_is_told_apart_in_the_end() -> None:
    texts = [_in("a"), _in("b", path=f"{BASE}/vllm"), cached(host(BASE), name="qwen")]
    assert found(RULE, *fixed_all(RULE, texts, unsafe=True)) == []


def test_names_that_the_cluster_makes_are_no_names() -> None:
    made = cached(name="x").replace("metadata: {name: x,", "metadata: {generateName: x-,")
    first, second = found(RULE, made, made)
    assert (first.fix, second.fix) == (None, None)


def test_what_has_the_workloads_name_already_is_not_moved_again() -> None:
    text = _two(one=host("/mnt/k8s-disks/0/llama"), other=host("/mnt/k8s-disks/0/llama"))
    assert fixed(RULE, text, unsafe=True) == _two(
        one=host("/mnt/k8s-disks/0/llama"), other=host("/mnt/k8s-disks/0/llama/qwen")
    )


def test_the_unsafe_fix_gives_each_a_directory_of_its_own() -> None:
    assert fixed(RULE, _two()) == _two()
    base = "/mnt/k8s-disks/0/compile-cache"
    assert fixed(RULE, _two(), unsafe=True) == _two(one=host(f"{base}/llama"), other=host(f"{base}/qwen"))
    assert ROOT["VLLM_CACHE_ROOT"] in fixed(RULE, _two(), unsafe=True)
