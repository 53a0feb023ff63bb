"""Directories of a node that belong to others."""

from __future__ import annotations

import pytest

from tests.lint.checking import fixed
from tests.lint.compile.manifests import cached, host, pod
from tests.lint.compile.tables import Fires, Silent, name_of

RULE = name_of(__file__)

FIRES = {
    "kubelet on Amazon Linux": Fires(cached(host("/mnt/k8s-disks/0/kubelet")), ("/mnt/k8s-disks/0/kubelet",)),
    "containerd on Amazon Linux": Fires(cached(host("/mnt/k8s-disks/0/containerd")), ("/mnt/k8s-disks/0/containerd",)),
    "soci-snapshotter-grpc on Amazon Linux": Fires(
        cached(host("/mnt/k8s-disks/0/soci-snapshotter-grpc")), ("/mnt/k8s-disks/0/soci-snapshotter-grpc",)
    ),
    "pods on Amazon Linux": Fires(cached(host("/mnt/k8s-disks/0/pods")), ("/mnt/k8s-disks/0/pods",)),
    "below one of them": Fires(
        cached(host("/mnt/k8s-disks/0/kubelet/compile-cache")), ("/mnt/k8s-disks/0/kubelet/compile-cache",), "kubelet"
    ),
    "Bottlerocket's": Fires(
        cached(host("/mnt/.ephemeral/._var_lib_kubelet")), ("/mnt/.ephemeral/._var_lib_kubelet",), "Bottlerocket"
    ),
    "the agent's": Fires(cached(host("/mnt/k8s-disks/0/glowplug")), ("/mnt/k8s-disks/0/glowplug",), "agent"),
    "the whole disk": Fires(cached(host("/mnt/k8s-disks/0/")), ("/mnt/k8s-disks/0/",), "whole instance store"),
    "the whole disk of Bottlerocket": Fires(cached(host("/mnt/.ephemeral")), ("/mnt/.ephemeral",), compute="auto-mode"),
    "what is bound onto it": Fires(cached(host("/var/lib/containerd")), ("/var/lib/containerd",)),
    "by a subPath": Fires(
        cached(host("/mnt/k8s-disks/0"), mount="{name: compile-cache, mountPath: /compile-cache, subPath: pods}"),
        ("/mnt/k8s-disks/0",),
        "pods",
    ),
    "spelled with dots": Fires(cached(host("/mnt/k8s-disks/0/x/../pods")), ("/mnt/k8s-disks/0/x/../pods",)),
}

SILENT = {
    "a directory of its own": Silent(cached()),
    "a subPath of the disk": Silent(
        cached(
            host("/mnt/k8s-disks/0"), mount="{name: compile-cache, mountPath: /compile-cache, subPath: compile-cache}"
        )
    ),
    "a name that only begins alike": Silent(cached(host("/mnt/k8s-disks/0/pods-cache"))),
    "the name further down": Silent(cached(host("/mnt/k8s-disks/0/team/kubelet"))),
    "Bottlerocket's own": Silent(cached(host("/mnt/.ephemeral/compile-cache")), compute="auto-mode"),
    "a sibling": Silent(cached(host("/var/lib/compile-cache"))),
    "glowplug's node store": Silent(
        pod(
            env={"GLOWPLUG_NODE_STORE": "/glowplug/store"},
            mounts=[
                "{name: compile-cache, mountPath: /compile-cache}",
                "{name: glowplug-store, mountPath: /glowplug/store, readOnly: true}",
            ],
            volumes={
                "compile-cache": "emptyDir: {}",
                "glowplug-store": host("/mnt/k8s-disks/0/glowplug/store/default"),
            },
        )
    ),
    "not the cache's volume": Silent(
        pod(mounts=["{name: logs, mountPath: /logs}"], volumes={"logs": host("/var/log/pods")})
    ),
}


@pytest.mark.parametrize("case", FIRES.values(), ids=FIRES)
def test_it_is_found_where_it_stands(case: Fires) -> None:
    case.check(RULE)


@pytest.mark.parametrize("case", SILENT.values(), ids=SILENT)
def test_it_is_silent(case: Silent) -> None:
    case.check(RULE)


@pytest.mark.parametrize(
    ("was", "mended"),
    [
        ("/mnt/k8s-disks/0/pods", "/mnt/k8s-disks/0/compile-cache"),
        ("/mnt/k8s-disks/0", "/mnt/k8s-disks/0/compile-cache"),
        ("/mnt/.ephemeral/._var_lib_kubelet/x", "/mnt/.ephemeral/compile-cache"),
    ],
)
def test_the_fix_gives_it_a_directory_of_its_own_on_the_same_disk(was: str, mended: str) -> None:
    assert fixed(RULE, cached(host(was))) == cached(host(mended))


def test_a_directory_that_has_to_be_there_is_not_moved_unasked() -> None:
    text = cached(host("/mnt/k8s-disks/0/pods", "Directory"))
    assert fixed(RULE, text) == text


def test_the_nodes_disk_is_chosen_where_it_is_known() -> None:
    text = cached(host("/var/lib/kubelet/cache"))
    assert fixed(RULE, text) == text
    assert fixed(RULE, text, compute="auto-mode") == cached(host("/mnt/.ephemeral/compile-cache"))
