"""Caches that the engine cannot write."""

from __future__ import annotations

import pytest

from tests.lint.checking import fixed
from tests.lint.compile.manifests import MOUNT, ROOT, cached, host, pod
from tests.lint.compile.tables import Fires, Silent, name_of

RULE = name_of(__file__)

RO = "{name: compile-cache, mountPath: /compile-cache, readOnly: true}"
CLAIM = """---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c, namespace: default}
spec: {accessModes: [ReadOnlyMany]}
"""

FIRES = {
    "a mount": Fires(cached(mount=RO), ("true",), "the engine exits"),
    "a claim's own flag": Fires(cached("persistentVolumeClaim: {claimName: c, readOnly: true}"), ("true",)),
    "NFS's own flag": Fires(cached("nfs: {server: s, path: /x, readOnly: true}"), ("true",)),
    "a ConfigMap": Fires(cached("configMap: {name: c}"), ("configMap",), "ConfigMap"),
    "an image": Fires(cached("image: {reference: r/cache:1}"), ("image",), "an image"),
    "a claim for reading only": Fires(cached("persistentVolumeClaim: {claimName: c}") + CLAIM, ("c",)),
    "a read-only container, no volume": Fires(
        pod(env={"VLLM_CACHE_ROOT": "/cache"}, container="securityContext: {readOnlyRootFilesystem: true}"),
        ("/cache",),
        "read-only",
    ),
    "the home of a read-only container": Fires(
        pod(env={"HOME": "/home/v"}, container="securityContext: {readOnlyRootFilesystem: true}"), ("/home/v",)
    ),
    "Triton's directory of a read-only container": Fires(
        pod(
            env={"HOME": "/home/v", "TRITON_CACHE_DIR": "/tmp/triton"},
            mounts=["{name: home, mountPath: /home/v}"],
            volumes={"home": "emptyDir: {}"},
            container="securityContext: {readOnlyRootFilesystem: true}",
        ),
        ("/tmp/triton",),
    ),
    "under the launcher": Fires(
        cached("emptyDir: {}", mount=RO, env={"GLOWPLUG_STORE": "s3://b/c"}), ("true",), "nothing is restored"
    ),
}

SILENT = {
    "writable": Silent(cached()),
    "said to be writable": Silent(cached(mount=RO.replace("true", "false"))),
    "the node store is for reading": Silent(
        pod(
            env={"GLOWPLUG_NODE_STORE": "/glowplug/store"},
            mounts=[MOUNT, "{name: glowplug-store, mountPath: /glowplug/store, readOnly: true}"],
            volumes={
                "compile-cache": "emptyDir: {}",
                "glowplug-store": host("/mnt/k8s-disks/0/glowplug/store/default"),
            },
        )
    ),
    "models are for reading": Silent(
        pod(mounts=["{name: models, mountPath: /models, readOnly: true}"], volumes={"models": "emptyDir: {}"})
    ),
    "a read-only container with a volume": Silent(
        cached("emptyDir: {}", container="securityContext: {readOnlyRootFilesystem: true}")
    ),
    "a read-only container, home unknown": Silent(pod(container="securityContext: {readOnlyRootFilesystem: true}")),
    "a claim nobody gave": Silent(cached("persistentVolumeClaim: {claimName: c}")),
    "nothing is compiled": Silent(cached(mount=RO, args=["--model=/m", "--enforce-eager"])),
    "another mount above it": Silent(
        pod(
            env=ROOT,
            mounts=[
                "{name: a, mountPath: /compile-cache, readOnly: true}",
                "{name: b, mountPath: /compile-cache/vllm}",
            ],
            volumes={"a": "emptyDir: {}", "b": "emptyDir: {}"},
        )
    ),
}


@pytest.mark.parametrize("case", FIRES.values(), ids=FIRES)
def test_it_is_found_where_it_stands(case: Fires) -> None:
    case.check(RULE)


@pytest.mark.parametrize("case", SILENT.values(), ids=SILENT)
def test_it_is_silent(case: Silent) -> None:
    case.check(RULE)


def test_only_an_unsafe_fix_lets_the_pod_write() -> None:
    assert fixed(RULE, cached(mount=RO)) == cached(mount=RO)
    assert fixed(RULE, cached(mount=RO), unsafe=True) == cached(mount=MOUNT)


@pytest.mark.parametrize("also", ["Enabled", "IfPossible"])
def test_what_needs_a_read_only_mount_goes_with_it(also: str) -> None:
    """The API server refuses `recursiveReadOnly` of a mount that is not read-only."""
    for mount in (RO[:-1] + f", recursiveReadOnly: {also}}}", f"{{recursiveReadOnly: {also}, {RO[1:]}"):
        assert fixed(RULE, cached(mount=mount), unsafe=True) == cached(mount=MOUNT)
    lines = RO.strip("{}").replace(", ", "\n              ") + f"\n              recursiveReadOnly: {also}"
    after = fixed(RULE, cached(mount=lines), unsafe=True)
    assert "mountPath: /compile-cache\n" in after
    assert "eadOnly" not in after


def test_what_says_nothing_without_it_stays() -> None:
    mount = RO[:-1] + ", recursiveReadOnly: Disabled}"
    assert fixed(RULE, cached(mount=mount), unsafe=True) == cached(mount=mount.replace("readOnly: true, ", ""))


@pytest.mark.parametrize("mount", [RO, MOUNT])
@pytest.mark.parametrize(
    ("volume", "at"),
    [
        ("configMap: {name: c}", "configMap"),
        ("secret: {secretName: c}", "secret"),
        ("projected: {sources: []}", "projected"),
        ("downwardAPI: {items: []}", "downwardAPI"),
        ("image: {reference: r/cache:1}", "image"),
        ("nfs: {server: s, path: /x, readOnly: true}", "true"),
        ("persistentVolumeClaim: {claimName: c, readOnly: true}", "true"),
        ("csi: {driver: d, readOnly: true}", "true"),
    ],
)
def test_what_can_never_be_written_is_not_mounted_writable(volume: str, at: str, mount: str) -> None:
    text = cached(volume, mount=mount)
    Fires(text, (at,), "which cannot be written").check(RULE)
    assert fixed(RULE, text, unsafe=True) == text


def test_nor_is_a_claim_for_reading_only() -> None:
    text = cached("persistentVolumeClaim: {claimName: c}", mount=RO) + CLAIM
    assert fixed(RULE, text, unsafe=True) == text
