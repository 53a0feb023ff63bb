"""A cache's hostPath and the place where the nodes mount their instance store."""

from __future__ import annotations

import pytest

from tests.lint.checking import fixed
from tests.lint.compile.manifests import ROOT, cached, host, nodes, pod
from tests.lint.compile.tables import Fires, Silent, name_of

RULE = name_of(__file__)

FIRES = {
    "the root volume under Karpenter": Fires(
        cached(host("/var/lib/compile-cache")), ("/var/lib/compile-cache",), "nodes of Karpenter"
    ),
    "the root volume, nodes unknown": Fires(
        cached(host("/opt/cache")), ("/opt/cache",), "a volume of EBS: these nodes", compute=""
    ),
    "the root volume of a node group": Fires(cached(host("/tmp/cache")), ("/tmp/cache",), compute="nodegroup"),
    "a directory of its own under Karpenter": Fires(cached(host("/data/cache")), ("/data/cache",)),
    "beside the disk": Fires(cached(host("/mnt/compile-cache")), ("/mnt/compile-cache",)),
    "a path that only begins alike": Fires(
        cached(host("/mnt/.ephemeral2/compile-cache")), ("/mnt/.ephemeral2/compile-cache",), compute="auto-mode"
    ),
    "Amazon Linux's under Auto Mode": Fires(
        cached(), ("/mnt/k8s-disks/0/compile-cache",), "EKS Auto Mode", compute="auto-mode"
    ),
    "Triton's own volume": Fires(
        pod(
            env=ROOT,
            mounts=["{name: compile-cache, mountPath: /compile-cache}", "{name: t, mountPath: /root/.triton}"],
            volumes={"compile-cache": host("/mnt/k8s-disks/0/compile-cache"), "t": host("/var/cache/triton")},
        ),
        ("/var/cache/triton",),
    ),
    "where Triton's variable points": Fires(
        pod(
            env={**ROOT, "TRITON_CACHE_DIR": "/t"},
            mounts=["{name: compile-cache, mountPath: /compile-cache}", "{name: t, mountPath: /t}"],
            volumes={"compile-cache": host("/mnt/k8s-disks/0/compile-cache"), "t": host("/var/cache/triton")},
        ),
        ("/var/cache/triton",),
    ),
    "under Auto Mode, whose root is read-only": Fires(
        cached(host("/var/cache/x")), ("/var/cache/x",), "the node's data volume", compute="auto-mode"
    ),
    "anything else under Auto Mode": Fires(cached(host("/mnt/nvme/cache")), ("/mnt/nvme/cache",), compute="auto-mode"),
    "Amazon Linux's on Bottlerocket": Fires(
        cached() + "---\n" + nodes(spec="amiSelectorTerms: [{alias: bottlerocket@latest}]\ninstanceStorePolicy: RAID0"),
        ("/mnt/k8s-disks/0/compile-cache",),
        "`/mnt/.ephemeral`",
        compute="",
    ),
    "Bottlerocket's on Amazon Linux": Fires(
        cached(host("/mnt/.ephemeral/compile-cache"))
        + "---\n"
        + nodes(spec="amiFamily: AL2023\ninstanceStorePolicy: RAID0"),
        ("/mnt/.ephemeral/compile-cache",),
        "nodes of `gpu`",
        compute="",
    ),
    "a disk that this class does not mount": Fires(
        cached(host("/mnt/nvme/cache")) + "---\n" + nodes(spec="amiSelectorTerms: [{alias: al2023@latest}]"),
        ("/mnt/nvme/cache",),
        compute="",
    ),
    "Auto Mode's NodePool": Fires(
        cached() + "---\n" + nodes("NodeClass"), ("/mnt/k8s-disks/0/compile-cache",), compute=""
    ),
    "a machine without disks": Fires(
        cached(spec="nodeSelector: {node.kubernetes.io/instance-type: g5g.xlarge}"),
        ("/mnt/k8s-disks/0/compile-cache",),
        "g5g.xlarge has no instance store",
    ),
    "below a subPath": Fires(
        cached(host("/data"), mount="{name: compile-cache, mountPath: /compile-cache, subPath: x}"), ("/data",)
    ),
    "glowplug's node store": Fires(
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
        ),
        ("/mnt/k8s-disks/0/glowplug/store/default",),
        compute="auto-mode",
    ),
}

SILENT = {
    "Karpenter, Amazon Linux's": Silent(cached()),
    "Karpenter, Bottlerocket's": Silent(cached(host("/mnt/.ephemeral/compile-cache"))),
    "Auto Mode's": Silent(cached(host("/mnt/.ephemeral/compile-cache")), compute="auto-mode"),
    "Bottlerocket under Karpenter": Silent(
        cached(host("/mnt/.ephemeral/compile-cache"))
        + "---\n"
        + nodes(spec="amiSelectorTerms: [{alias: bottlerocket@latest}]"),
        compute="",
    ),
    "a class that mounts disks itself": Silent(
        cached(host("/mnt/nvme/cache")) + "---\n" + nodes(spec="amiFamily: Custom\nuserData: mkfs.xfs /dev/nvme1n1"),
        compute="",
    ),
    "a disk mounted by nodes nobody gave": Silent(cached(host("/mnt/nvme/cache"))),
    "a node group may mount anywhere": Silent(cached(host("/data/cache")), compute="nodegroup"),
    "nothing says what the nodes are": Silent(cached(host("/data/cache")), compute=""),
    "another disk of nodeadm's": Silent(cached(host("/mnt/k8s-disks/1/compile-cache"))),
    "the logs of all pods, which are another rule's": Silent(cached(host("/var/log/pods"))),
    "kubelet's directory lies on the array": Silent(cached(host("/var/lib/kubelet/compile-cache"))),
    "a hostPath for models": Silent(
        pod(mounts=["{name: models, mountPath: /models}"], volumes={"models": host("/var/models")})
    ),
    "a hub's cache above the default directory": Silent(
        pod(mounts=["{name: hub, mountPath: /root/.cache}"], volumes={"hub": host("/var/hub")})
    ),
    "no hostPath": Silent(cached("emptyDir: {}")),
    "no volume": Silent(pod()),
}


@pytest.mark.parametrize("case", FIRES.values(), ids=FIRES)
def test_it_is_found_where_it_stands(case: Fires) -> None:
    case.check(RULE)


@pytest.mark.parametrize("case", SILENT.values(), ids=SILENT)
def test_it_is_silent(case: Silent) -> None:
    case.check(RULE)


@pytest.mark.parametrize(
    ("was", "compute", "mended"),
    [
        ("/mnt/k8s-disks/0/compile-cache", "auto-mode", "/mnt/.ephemeral/compile-cache"),
        ("/mnt/k8s-disks/0/team/cache", "auto-mode", "/mnt/.ephemeral/team/cache"),
        ("/var/lib/whatever", "auto-mode", "/mnt/.ephemeral/compile-cache"),
        ("/mnt/k8s-disks/0", "auto-mode", "/mnt/.ephemeral/compile-cache"),
    ],
)
def test_the_fix_moves_it_where_the_disks_are(was: str, compute: str, mended: str) -> None:
    assert fixed(RULE, cached(host(was)), compute=compute) == cached(host(mended))


def test_the_node_class_says_where() -> None:
    bottlerocket = "---\n" + nodes(spec="amiSelectorTerms: [{alias: bottlerocket@latest}]\ninstanceStorePolicy: RAID0")
    text = cached(host("/opt/cache")) + bottlerocket
    assert fixed(RULE, text) == cached(host("/mnt/.ephemeral/compile-cache")) + bottlerocket


def test_where_the_image_is_open_it_is_not_moved_unasked() -> None:
    text = cached(host("/opt/cache"))
    assert fixed(RULE, text, compute="karpenter") == text
    assert fixed(RULE, text, compute="karpenter", unsafe=True) == cached(host("/mnt/k8s-disks/0/compile-cache"))
    assert fixed(RULE, text, compute="", unsafe=True) == text


@pytest.mark.parametrize("kind", ["Directory", ""])
def test_a_directory_that_has_to_be_there_is_not_moved_unasked(kind: str) -> None:
    text = cached(host("/opt/cache", kind))
    assert fixed(RULE, text, compute="auto-mode") == text
    assert "/mnt/.ephemeral" in fixed(RULE, text, compute="auto-mode", unsafe=True)


def test_the_node_store_keeps_its_place_below_the_agents_root() -> None:
    mounts = ["{name: compile-cache, mountPath: /compile-cache}", "{name: s, mountPath: /glowplug/store}"]
    made = [
        pod(
            env=ROOT, mounts=mounts, volumes={"compile-cache": "emptyDir: {}", "s": host(f"{root}/glowplug/store/team")}
        )
        for root in ("/mnt/k8s-disks/0", "/mnt/.ephemeral")
    ]
    assert fixed(RULE, made[0], compute="auto-mode") == made[1]


def test_each_compilers_volume_gets_a_directory_of_its_own() -> None:
    text = pod(
        env=ROOT,
        mounts=["{name: compile-cache, mountPath: /compile-cache}", "{name: t, mountPath: /root/.triton}"],
        volumes={"compile-cache": host("/var/cache/vllm"), "t": host("/var/cache/triton")},
    )
    mended = fixed(RULE, text, unsafe=True, compute="karpenter")
    assert "path: /mnt/k8s-disks/0/compile-cache," in mended
    assert "path: /mnt/k8s-disks/0/triton," in mended
