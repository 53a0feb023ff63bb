"""The compile cache lies in an `emptyDir`, and nothing fills it.

## What it does

Finds an `emptyDir` that is meant for compiled artifacts in a pod that glowplug's launcher does not start. With the launcher an
`emptyDir` is right: each pod gets its own writable copy of what the store has. Scratch directories (`/tmp`) that hold a cache
only because the user may write nowhere else are left alone.

## Why is this bad

An `emptyDir` begins empty and ends with the pod. It spares a compilation only when the container restarts within its pod; each
new pod, on the same node too, compiles for 50 to 80 seconds.

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
          emptyDir: {}
```

Finds `{}`.

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

Unsafe: the volume becomes a hostPath on the nodes' instance store, as in the AWS guide, which the namespace's Pod Security level
has to allow. Offered where the manifests or `--compute` say what the nodes are, and the pod runs as root and is not made by
Knative, which refuses hostPaths by default. `glowplug inject`
keeps the `emptyDir` and adds the launcher instead.

## Source

AWS, Accelerate model loading on Amazon EKS, "Cache torch.compile artifacts on the same node"; Kubernetes documentation, Volumes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.lint.knative import makes_pods
from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.lint.rules.compile.disks import disks
from glowplug.lint.rules.compile.keeping import keeping, runs_as_root
from glowplug.lint.rules.compile.off import compiling_off
from glowplug.manifests import recipe
from glowplug.manifests.edit import Put, Remove

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Workload
    from glowplug.manifests.values import Value


def _check(workload: Workload) -> Iterator[Problem]:
    kept = keeping(workload)
    mount = kept.mount
    if kept.launcher or not kept.meant or mount is None or mount.kind != "emptyDir" or mount.volume is None:
        return
    if any(compiling_off(workload)):
        return
    yield Problem(
        mount.volume.get("emptyDir") or mount.volume,
        f"the compile cache at `{mount.path}` is an emptyDir that begins empty in every pod, and nothing restores it",
        "let glowplug fill it (`glowplug inject`), or use a hostPath on the nodes' instance store",
        _fix(workload, mount.volume),
    )


def _fix(workload: Workload, volume: Value) -> Fix | None:
    roots = disks(workload).roots
    if len(roots) != 1 or not runs_as_root(workload) or makes_pods(workload.object) is not False:
        return None
    path = recipe.shared_directory(next(iter(roots)))
    host_path = {"path": path, "type": "DirectoryOrCreate"}
    return Fix(
        f"make it the hostPath {path}", (Put(volume, "hostPath", host_path), Remove(volume, "emptyDir")), safe=False
    )


RULE = Rule(
    name="cache-on-emptydir", area="compile", severity=Severity.WARNING, documentation=__doc__ or "", workload=_check
)
