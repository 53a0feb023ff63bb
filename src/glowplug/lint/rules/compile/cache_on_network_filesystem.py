"""The compile cache is a live directory on a network file system.

## What it does

Finds a compile cache on NFS, EFS, FSx, CephFS, Azure Files, a bucket mounted as a file system and the like: by the volume's
kind or driver, by the claim's StorageClass, or by a claim that many nodes may write (`ReadWriteMany`), where the input has it.

## Why is this bad

A start opens thousands of small files, each a round trip, and Triton and Inductor rely on renames and locks that are atomic on
one machine only: `EBUSY` and `FileNotFoundError` at start (triton-lang/triton#11512), torn files where two pods compile at once.

## Example

```yaml
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: compile-cache
spec:
  accessModes: [ReadWriteMany]
  storageClassName: efs-sc
  resources:
    requests: {storage: 20Gi}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: vllm
spec:
  selector:
    matchLabels: {app: vllm}
  template:
    metadata:
      labels: {app: vllm}
    spec:
      tolerations:
        - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.33.0
          args: [--model=/models/llama]
          env:
            - name: VLLM_CACHE_ROOT
              value: /compile-cache/vllm
          resources:
            limits: {nvidia.com/gpu: "1"}
          volumeMounts:
            - name: compile-cache
              mountPath: /compile-cache
      volumes:
        - name: compile-cache
          persistentVolumeClaim:
            claimName: compile-cache
```

Finds `compile-cache` in line 39.

## Use instead

```yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: vllm
spec:
  selector:
    matchLabels: {app: vllm}
  template:
    metadata:
      labels: {app: vllm}
    spec:
      tolerations:
        - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.33.0
          args: [--model=/models/llama]
          env:
            - name: VLLM_CACHE_ROOT
              value: /compile-cache/vllm
          resources:
            limits: {nvidia.com/gpu: "1"}
          volumeMounts:
            - name: compile-cache
              mountPath: /compile-cache
      volumes:
        - name: compile-cache
          hostPath:
            path: /mnt/k8s-disks/0/compile-cache
            type: DirectoryOrCreate
```

## Fix safety

No fix: where the cache should be instead depends on the nodes. `glowplug cache copy` brings what is there into a store, from
which each node or pod gets a copy on NVMe.

## Source

triton-lang/triton#11512; NovaSky-AI/SkyRL#2138.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from glowplug.core.tables import table
from glowplug.lint.rule import Problem, Rule, Severity
from glowplug.lint.rules.compile.keeping import keeping
from glowplug.lint.rules.compile.off import compiling_off

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Mount, Workload
    from glowplug.manifests.values import Value

_ROWS: Final = table("glowplug.lint.rules.compile", "filesystems")
_KINDS: Final = {row["name"]: row["filesystem"] for row in _ROWS if row["how"] == "kind"}
_DRIVERS: Final = {row["name"]: row["filesystem"] for row in _ROWS if row["how"] == "driver"}
_CLASSES: Final = tuple(
    (re.compile(rf"(?:^|[-_.]){row['name']}"), row["filesystem"]) for row in _ROWS if row["how"] == "class"
)
_MANY: Final = ("ReadWriteMany", "ReadOnlyMany")


def _check(workload: Workload) -> Iterator[Problem]:
    kept = keeping(workload)
    mount = kept.mount
    if mount is None or mount.volume is None or any(compiling_off(workload)):
        return
    found = _network(workload, mount)
    if found is None:
        return
    at, filesystem = found
    yield Problem(
        at,
        f"the compile cache at `{mount.path}` is a live directory on {filesystem}: renames and locks that engines rely on are "
        "atomic on one machine only",
        "keep it on the node's NVMe, and share it as copies",
    )


def _network(workload: Workload, mount: Mount) -> tuple[Value, str] | None:
    volume = mount.volume
    if volume is None:
        return None
    for kind, filesystem in _KINDS.items():
        there = volume.get(kind)
        if there is not None:
            return volume.key(kind) or there, filesystem
    driver = volume.get("csi", "driver")
    if driver is not None:
        return (driver, _DRIVERS[driver.text]) if driver.text in _DRIVERS else None
    name = volume.get("persistentVolumeClaim", "claimName")
    everything = workload.everything
    if name is not None and everything is not None:
        claim = everything.named("PersistentVolumeClaim", name.text, workload.object.namespace)
        filesystem = _of_claim(workload, claim.value.get("spec")) if claim is not None else ""
        return (name, filesystem) if filesystem else None
    template = volume.get("spec") or volume.get("ephemeral", "volumeClaimTemplate", "spec")
    filesystem = _of_claim(workload, template)
    return (volume.get("metadata", "name") or volume.get("name") or volume, filesystem) if filesystem else None


def _of_claim(workload: Workload, spec: Value | None) -> str:
    """The network file system that a claim gets, "" for none or an unknown one."""
    if spec is None:
        return ""
    block = spec.get("volumeMode")
    if block is not None and block.text == "Block":
        return ""
    stored = spec.get("storageClassName")
    if stored is not None and workload.everything is not None:
        known = workload.everything.named("StorageClass", stored.text)
        provisioner = known.value.get("provisioner") if known is not None else None
        if provisioner is not None:
            return _DRIVERS.get(provisioner.text, "")
    named = stored.text.lower() if stored is not None else ""
    filesystem = next((filesystem for pattern, filesystem in _CLASSES if pattern.search(named)), "")
    modes = spec.get("accessModes")
    many = modes is not None and any(mode.text in _MANY for mode in modes.elements())
    return filesystem or ("a file system that many nodes mount" if many else "")


RULE = Rule(
    name="cache-on-network-filesystem",
    area="compile",
    severity=Severity.WARNING,
    documentation=__doc__ or "",
    workload=_check,
)
