"""The cache's hostPath is a directory in which the node keeps other programs' files.

## What it does

Finds a compile cache at `kubelet`, `containerd`, `soci-snapshotter-grpc` or `pods` below `/mnt/k8s-disks/0`, at `._…` below
`/mnt/.ephemeral`, at `/var/lib/kubelet` and the like, at the agent's own `glowplug`, or at the root of the instance store itself.

## Why is this bad

The node binds these directories of its array onto `/var/lib/kubelet`, `/var/lib/containerd` and `/var/log/pods`. An engine that
writes there, as root, writes between the volumes of all pods and the layers of all images; what kubelet and containerd clean up
is the cache. A pod that mounts the whole disk can read the Secrets of every pod on the node.

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
          hostPath:
            path: /mnt/k8s-disks/0/pods
            type: DirectoryOrCreate
```

Finds `/mnt/k8s-disks/0/pods`.

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

Safe: the path becomes `compile-cache` on the same disk. It is a cache, so it begins empty once. Unsafe where the volume's type
is not `DirectoryOrCreate`, since the directory may not be there.

## Source

awslabs/amazon-eks-ami, setup-local-disks; bottlerocket-os/bottlerocket-core-kit, ephemeral_storage.rs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.lint.rules.compile.disks import MOUNTED, disks, host_path, owner_of, root_of
from glowplug.lint.rules.compile.keeping import keeping, normal
from glowplug.manifests import recipe
from glowplug.manifests.edit import Replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Workload


def _check(workload: Workload) -> Iterator[Problem]:
    kept = keeping(workload)
    mount = kept.mount
    at = host_path(mount.volume) if mount is not None else None
    if mount is None or at is None or mount.host_path is None:
        return
    path = normal(mount.host_path)
    owner = owner_of(path)
    if path in MOUNTED:
        message = f"`{path}` is the whole instance store, with kubelet's and containerd's own directories in it"
    elif owner:
        message = f"`{path}` is a directory of the node's own, for {owner}"
    else:
        return
    roots = disks(workload).roots
    root = next(iter(roots)) if len(roots) == 1 else root_of(path)
    to = recipe.shared_directory(root) if root else ""
    kind = mount.volume.get("hostPath", "type") if mount.volume is not None else None
    safe = kind is not None and kind.text == "DirectoryOrCreate"
    yield Problem(
        at,
        message,
        f"use `{to}`" if to else "use a directory of its own on the instance store",
        Fix(f"move it to {to}", (Replace(at, to),), safe=safe) if to else None,
    )


RULE = Rule(
    name="hostpath-name-reserved",
    area="compile",
    severity=Severity.ERROR,
    documentation=__doc__ or "",
    workload=_check,
)
