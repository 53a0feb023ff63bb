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

from typing import TYPE_CHECKING

from glowplug.lint.rule import Problem, Rule, Severity
from glowplug.lint.rules.compile.filesystems import network
from glowplug.lint.rules.compile.keeping import keeping
from glowplug.lint.rules.compile.off import compiling_off

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Workload


def _check(workload: Workload) -> Iterator[Problem]:
    kept = keeping(workload)
    mount = kept.mount
    if mount is None or mount.volume is None or any(compiling_off(workload)):
        return
    found = network(workload, mount)
    if found is None:
        return
    at, filesystem = found
    yield Problem(
        at,
        f"the compile cache at `{mount.path}` is a live directory on {filesystem}: renames and locks that engines rely on are "
        "atomic on one machine only",
        "keep it on the node's NVMe, and share it as copies",
    )


RULE = Rule(
    name="cache-on-network-filesystem",
    area="compile",
    severity=Severity.WARNING,
    documentation=__doc__ or "",
    workload=_check,
)
