"""Several workloads write their compile caches into one directory.

## What it does

Finds workloads of the input whose compile cache is the same hostPath, or the same PersistentVolumeClaim, mounted writable. Silent
for workloads whose node selectors exclude each other, and for the pods of one workload, which the AWS guide lets share a
directory.

## Why is this bad

Engines name their temporary files by process id, and process ids are the same in every pod: two that compile at the same time
write the same file, and a torn one is loaded later (NovaSky-AI/SkyRL#2138, vllm-project/vllm#24601). SGLang's entries do not
even say for which model they are. And whoever can write the directory can run code in every pod that reads it.

## Example

```yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: llama
spec:
  selector:
    matchLabels: {app: llama}
  template:
    metadata:
      labels: {app: llama}
    spec:
      tolerations:
        - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      containers:
        - name: llama
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
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: qwen
spec:
  selector:
    matchLabels: {app: qwen}
  template:
    metadata:
      labels: {app: qwen}
    spec:
      tolerations:
        - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      containers:
        - name: qwen
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

Finds `/mnt/k8s-disks/0/compile-cache` in line 29.

## Use instead

```yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: llama
spec:
  selector:
    matchLabels: {app: llama}
  template:
    metadata:
      labels: {app: llama}
    spec:
      tolerations:
        - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      containers:
        - name: llama
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
            path: /mnt/k8s-disks/0/compile-cache/llama
            type: DirectoryOrCreate
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: qwen
spec:
  selector:
    matchLabels: {app: qwen}
  template:
    metadata:
      labels: {app: qwen}
    spec:
      tolerations:
        - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      containers:
        - name: qwen
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
            path: /mnt/k8s-disks/0/compile-cache/qwen
            type: DirectoryOrCreate
```

## Fix safety

Unsafe: each hostPath gets a directory of its own below the shared one, named after its workload. What is cached there is compiled
once more, and an agent of glowplug's shared mode fills the common directory only. No fix for claims. `glowplug inject` gives each
pod its own copy.

## Source

NovaSky-AI/SkyRL#2138; vllm-project/vllm#24601; torch/_inductor/codecache.py write_atomic; vllm compilation/decorators.py.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.lint.rules.compile.disks import host_path
from glowplug.lint.rules.compile.keeping import keeping, normal
from glowplug.lint.rules.compile.off import compiling_off
from glowplug.manifests.edit import Replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Manifests, Mount, Workload
    from glowplug.manifests.values import Value

_SHOWN = 3


def _check(manifests: Manifests) -> Iterator[Problem]:
    writers: dict[tuple[str, ...], list[tuple[Workload, Mount]]] = defaultdict(list)
    for workload in manifests.workloads:
        mount = keeping(workload).mount
        if mount is not None and not mount.read_only and not any(compiling_off(workload)):
            where = _where(workload, mount)
            if where:
                writers[where].append((workload, mount))
    for (kind, *_), found in writers.items():
        if len(found) > 1:
            for workload, mount in found:
                yield from _problem(kind, workload, mount, [other for other, _ in found])


def _where(workload: Workload, mount: Mount) -> tuple[str, ...]:
    """What names the directory that is written, () where it is not one that others can have."""
    if mount.value.get("subPathExpr") is not None or mount.volume is None:
        return ()
    if mount.host_path:
        return ("hostPath", normal(mount.host_path))
    claim = mount.volume.get("persistentVolumeClaim", "claimName")
    inside = mount.value.get("subPath")
    return (
        ("claim", workload.object.namespace, claim.text, "" if inside is None else inside.text)
        if claim is not None
        else ()
    )


def _problem(kind: str, workload: Workload, mount: Mount, writers: list[Workload]) -> Iterator[Problem]:
    others = [
        one.object.title
        for one in writers
        if one.object is not workload.object and not (kind == "hostPath" and _apart(workload, one))
    ]
    if not others or mount.volume is None:
        return
    at: Value = host_path(mount.volume) or mount.volume.get("persistentVolumeClaim", "claimName") or mount.volume
    more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
    yield Problem(
        at,
        f"`{at.text}` is the compile cache of {', '.join(others[:_SHOWN])}{more} as well: engines name temporary files by process "
        "id, which is the same in every pod",
        "give each workload a directory of its own",
        _fix(kind, workload, at),
    )


def _apart(one: Workload, other: Workload) -> bool:
    """Whether no node can have both, by their selectors."""
    mine, theirs = one.spec.get("nodeSelector"), other.spec.get("nodeSelector")
    if mine is None or theirs is None:
        return False
    wanted = {key: value.text for key, value in mine.items()}
    return any(wanted.get(key, value.text) != value.text for key, value in theirs.items())


def _fix(kind: str, workload: Workload, at: Value) -> Fix | None:
    if kind != "hostPath" or not workload.object.name:
        return None
    to = f"{at.text.rstrip('/')}/{workload.object.name}"
    return Fix(f"move it to {to}", (Replace(at, to),), safe=False)


RULE = Rule(
    name="cache-shared-by-workloads",
    area="compile",
    severity=Severity.WARNING,
    documentation=__doc__ or "",
    everything=_check,
)
