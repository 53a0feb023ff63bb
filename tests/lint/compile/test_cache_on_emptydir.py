"""A compile cache in an emptyDir, with and without something that fills it."""

from __future__ import annotations

import pytest

from tests.lint.checking import fixed
from tests.lint.compile.manifests import GUIDE, ROOT, cached, host, pod
from tests.lint.compile.tables import Fires, Silent, name_of

RULE = name_of(__file__)

FIRES = {
    "by the engine's own variable": Fires(cached("emptyDir: {}"), ("{}",), "/compile-cache"),
    "by the guide's": Fires(cached("emptyDir: {}", env=GUIDE), ("{}",)),
    "in memory": Fires(cached("emptyDir: {medium: Memory}"), ("{medium: Memory}",)),
    "by its name alone": Fires(
        pod(
            mounts=["{name: torch-compile-cache, mountPath: /root/.cache/vllm}"],
            volumes={"torch-compile-cache": "emptyDir: {}"},
        ),
        ("{}",),
    ),
    "by its path alone": Fires(
        pod(mounts=["{name: c, mountPath: /root/.cache/vllm}"], volumes={"c": "emptyDir: {}"}), ("{}",)
    ),
    "by its path in a home that nobody knows": Fires(
        pod(
            image="registry.example/vllm-openai:v0.11.2",
            container="securityContext: {runAsUser: 1000}",
            mounts=["{name: c, mountPath: /home/vllm/.cache/vllm}"],
            volumes={"c": "emptyDir: {}"},
        ),
        ("{}",),
    ),
    "a launcher that is turned off": Fires(
        cached("emptyDir: {}", env={**ROOT, "GLOWPLUG_STORE": "s3://b/c", "GLOWPLUG_DISABLE": "1"}), ("{}",)
    ),
}

SILENT = {
    "the launcher fills it": Silent(cached("emptyDir: {}", env={**ROOT, "GLOWPLUG_STORE": "s3://b/c"})),
    "node mode": Silent(cached("emptyDir: {}", env={**ROOT, "GLOWPLUG_NODE_STORE": "/glowplug/store"})),
    "glowplug run": Silent(
        cached("emptyDir: {}", command=["glowplug", "run", "--store", "s3://b/c", "--", "vllm", "serve"], args=["/m"])
    ),
    "a hostPath": Silent(cached()),
    "no volume": Silent(pod()),
    "scratch": Silent(
        pod(
            env={"HOME": "/tmp", "XDG_CACHE_HOME": "/tmp/.cache", "TRITON_CACHE_DIR": "/tmp/triton"},
            mounts=["{name: tmp, mountPath: /tmp}"],
            volumes={"tmp": "emptyDir: {}"},
        )
    ),
    "a home": Silent(
        pod(
            env={"HOME": "/home/vllm"}, mounts=["{name: home, mountPath: /home/vllm}"], volumes={"home": "emptyDir: {}"}
        )
    ),
    "shared memory": Silent(
        pod(mounts=["{name: shm, mountPath: /dev/shm}"], volumes={"shm": "emptyDir: {medium: Memory}"})
    ),
    "nothing is compiled": Silent(cached("emptyDir: {}", args=["--model=/m", "--enforce-eager"])),
}


@pytest.mark.parametrize("case", FIRES.values(), ids=FIRES)
def test_it_is_found_where_it_stands(case: Fires) -> None:
    case.check(RULE)


@pytest.mark.parametrize("case", SILENT.values(), ids=SILENT)
def test_it_is_silent(case: Silent) -> None:
    case.check(RULE)


def test_the_unsafe_fix_makes_it_the_guides_hostpath_where_the_nodes_are_known() -> None:
    text = cached("emptyDir: {}")
    assert fixed(RULE, text, compute="auto-mode") == text
    assert "path: /mnt/.ephemeral/compile-cache" in fixed(RULE, text, compute="auto-mode", unsafe=True)
    assert fixed(RULE, text, compute="karpenter", unsafe=True) == text


def test_a_pod_that_is_not_root_keeps_its_emptydir() -> None:
    text = cached("emptyDir: {}", container="securityContext: {runAsUser: 1000}")
    assert fixed(RULE, text, compute="auto-mode", unsafe=True) == text


def test_the_mended_volume_is_a_hostpath_and_nothing_else() -> None:
    mended = fixed(RULE, cached("emptyDir: {}"), compute="auto-mode", unsafe=True)
    assert "emptyDir" not in mended
    assert host("/x").split(":")[0] in mended
