"""A compile cache is kept for an engine that compiles nothing.

## What it does

Finds a volume for compiled artifacts, or glowplug's launcher, in a pod whose engine has torch.compile turned off.

## Why is this bad

vLLM makes the cache directory and never writes to it, so each start is what it was, and the volume, the variables and the
warming of nodes do nothing at all. One of the two is a leftover: quick-start guides set `--enforce-eager`.

## Example

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
          args: [--model=/models/llama, --enforce-eager]
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

Finds `/compile-cache` in line 25.

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

Unsafe: it removes what turns compilation off, so the pod compiles. Whether the flag or the cache is the leftover, only you know.

## Source

AWS, Accelerate model loading on Amazon EKS, "Cache torch.compile artifacts on the same node" (Important).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.lint.rules.compile.keeping import keeping
from glowplug.lint.rules.compile.off import compiling_off

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Workload


def _check(workload: Workload) -> Iterator[Problem]:
    causes = list(compiling_off(workload))
    if not causes:
        return
    kept = keeping(workload)
    if not kept.kept or kept.mount is None:
        return
    undo = [operation for off in causes for operation in off.undo or ()]
    whole = all(off.undo for off in causes)
    title = " and ".join(off.title for off in causes)
    yield Problem(
        kept.mount.value.get("mountPath") or kept.mount.value,
        f"nothing is ever written to the compile cache at `{kept.mount.path}`: {causes[0].why}",
        "remove what turns it off, or the cache",
        Fix(title, tuple(undo), safe=False) if whole else None,
    )


RULE = Rule(
    name="cache-without-compile", area="compile", severity=Severity.ERROR, documentation=__doc__ or "", workload=_check
)
