"""Live compile caches on file systems of a network."""

from __future__ import annotations

import pytest

from tests.lint.compile.manifests import MOUNT, cached, pod
from tests.lint.compile.tables import Fires, Silent, name_of

RULE = name_of(__file__)

CLAIM = "persistentVolumeClaim: {claimName: cache}"
CLASS = """---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: shared}}
provisioner: {driver}
"""


def claim(storage_class: str, mode: str) -> str:
    """The claim `cache`."""
    return f"""---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: cache, namespace: default}}
spec: {{storageClassName: {storage_class}, accessModes: [{mode}]}}
"""


FIRES = {
    "NFS": Fires(cached("nfs: {server: s, path: /x}"), ("nfs",), "NFS"),
    "EFS by its driver": Fires(cached("csi: {driver: efs.csi.aws.com}"), ("efs.csi.aws.com",), "EFS"),
    "a bucket": Fires(cached("csi: {driver: s3.csi.aws.com}"), ("s3.csi.aws.com",)),
    "a claim of a class of that name": Fires(cached(CLAIM) + claim("efs-sc", "ReadWriteOnce"), ("cache",), "EFS"),
    "a claim for many": Fires(cached(CLAIM) + claim("standard", "ReadWriteMany"), ("cache",), "many nodes"),
    "a class with such a driver": Fires(
        cached(CLAIM) + claim("shared", "ReadWriteMany") + CLASS.format(driver="fsx.csi.aws.com"),
        ("cache",),
        "FSx for Lustre",
    ),
    "a generic ephemeral volume": Fires(
        cached("ephemeral: {volumeClaimTemplate: {spec: {storageClassName: efs, accessModes: [ReadWriteMany]}}}"),
        ("compile-cache",),
    ),
    "by the home": Fires(
        pod(mounts=["{name: home, mountPath: /root/.cache}"], volumes={"home": "nfs: {server: s, path: /x}"}), ("nfs",)
    ),
}

SILENT = {
    "a hostPath": Silent(cached()),
    "an emptyDir": Silent(cached("emptyDir: {}")),
    "a claim nobody gave": Silent(cached(CLAIM)),
    "EBS": Silent(cached(CLAIM) + claim("gp3", "ReadWriteOnce")),
    "a class whose driver is none": Silent(
        cached(CLAIM) + claim("shared", "ReadWriteMany") + CLASS.format(driver="ebs.csi.aws.com")
    ),
    "a driver nobody knows": Silent(cached("csi: {driver: example.com}")),
    "models on NFS": Silent(
        pod(mounts=["{name: models, mountPath: /models}"], volumes={"models": "nfs: {server: s, path: /x}"})
    ),
    "a hub's cache on NFS": Silent(
        pod(mounts=["{name: hub, mountPath: /root/.cache/huggingface}"], volumes={"hub": "nfs: {server: s, path: /x}"})
    ),
    "nothing is compiled": Silent(cached("nfs: {server: s, path: /x}", args=["--model=/m", "--enforce-eager"])),
}


@pytest.mark.parametrize("case", FIRES.values(), ids=FIRES)
def test_it_is_found_where_it_stands(case: Fires) -> None:
    case.check(RULE)


@pytest.mark.parametrize("case", SILENT.values(), ids=SILENT)
def test_it_is_silent(case: Silent) -> None:
    case.check(RULE)


def test_a_claim_template_is_a_claim() -> None:
    template = """  volumeClaimTemplates:
    - metadata: {name: compile-cache}
      spec: {storageClassName: efs-sc, accessModes: [ReadWriteMany]}
"""
    text = pod(kind="StatefulSet", env={"VLLM_CACHE_ROOT": "/compile-cache/vllm"}, mounts=[MOUNT]) + template
    Fires(text, ("compile-cache",), "EFS").check(RULE)
