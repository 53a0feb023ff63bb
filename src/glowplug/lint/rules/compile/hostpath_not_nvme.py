"""The cache's hostPath is not on the instance store of these nodes.

## What it does

Compares the hostPath of the compile cache, those of one compiler's cache alone (at `~/.triton`, or where `TRITON_CACHE_DIR`
points), and those of glowplug's node store with the place where the nodes mount their NVMe disks: `/mnt/k8s-disks/0` on Amazon
Linux, `/mnt/.ephemeral` on Bottlerocket, under Karpenter too, and on EKS Auto Mode. What the nodes are is read from the NodePools
and node classes given with the pod, else from `--compute`. Where that leaves the image open, both places are right; a path that
looks like a disk mounted by your own user data is left alone, unless the node class is there and has none.

## Why is this bad

`DirectoryOrCreate` makes the directory on EBS without a word: on the root volume, or on Bottlerocket's data volume. The cache
works, at EBS's 1 GB/s or so instead of 30, on a small disk that images and logs fill, and where glowplug's agent looks for the
node store there is nothing. On Bottlerocket most of the root is read-only, and the pod does not start.

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
            path: /var/lib/compile-cache
            type: DirectoryOrCreate
```

Finds `/var/lib/compile-cache`.

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

Safe where the node class or Auto Mode says where the disk is mounted and the volume's type is `DirectoryOrCreate`: the path moves
there, and the cache begins empty once. Unsafe where that is only likely (Karpenter without its node class: Amazon Linux is
taken). No fix where nothing says what the nodes are.

## Source

AWS, Accelerate model loading on Amazon EKS, "Set the cache path to NVMe instance store"; awslabs/amazon-eks-ami,
setup-local-disks; bottlerocket-os/bottlerocket-core-kit, ephemeral_storage.rs; docs/guide-errata.md (h).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from glowplug.engines.defaults import is_default
from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.lint.rules.compile.disks import (
    AL2023,
    BOTTLEROCKET,
    MOUNTED,
    Disks,
    disks,
    host_path,
    owner_of,
    root_of,
    without_instance_store,
)
from glowplug.lint.rules.compile.keeping import below, keeping, normal, placed, pointing
from glowplug.manifests import recipe
from glowplug.manifests.edit import Replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Mount, Workload
    from glowplug.manifests.values import Value

_ROOT_VOLUME: Final = (
    "/tmp",  # noqa: S108 - of the node, recognised
    "/var",
    "/opt",
    "/home",
    "/root",
    "/srv",
    "/usr",
    "/etc",
)
_LOOKS_LIKE_A_DISK: Final = re.compile(r"nvme|disk|ssd|ephemeral|local|instance|scratch|raid|md\d")
# A directory of its own for each, where a pod has a volume for each.
_OF_ONE_COMPILER: Final = (
    "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "FLASHINFER_WORKSPACE_BASE",
    "DG_JIT_CACHE_DIR",
)
_OF_THE_AGENT: Final = (recipe.STORE_MOUNT, recipe.OUTBOX_MOUNT)


def _check(workload: Workload) -> Iterator[Problem]:
    kept = keeping(workload)
    mounts = [kept.mount] if kept.mount is not None and kept.meant else []
    mounts += [one for one in workload.container.mounts if one.path in _OF_THE_AGENT]
    mounts += [one for one in _others(workload) if one not in mounts]
    for mount in mounts:
        at = host_path(mount.volume)
        if mount.host_path is not None and at is not None:
            yield from _problem(workload, mount, at)


def _others(workload: Workload) -> list[Mount]:
    """Volumes for the cache of one compiler alone: at its default directory, or where its variable points."""
    names = list(placed(workload, recipe.CACHE_ROOT))
    pointed = [one.value for one in pointing(workload).values() if one.value]
    found = [workload.container.mount_of(value) for value in pointed]
    found += [one for one in workload.container.mounts if any(is_default(name, one.path) for name in names)]
    return [one for one in found if one is not None and one.kind == "hostPath"]


def _problem(workload: Workload, mount: Mount, at: Value) -> Iterator[Problem]:
    path = normal(at.text)
    there = disks(workload)
    bare = ", ".join(without_instance_store(workload))
    if bare:
        yield Problem(at, f"`{path}` is on EBS: {bare} has no instance store", "choose a type with NVMe disks")
        return
    if not path.startswith("/") or _may_be(workload, path, there):
        return
    right = " or ".join(f"`{root}`" for root in sorted(there.roots))
    yield Problem(
        at,
        f"`{path}` is on {_volume(there)}: {there.who} mount their instance store at {right}",
        f"use `{_moved(path, mount, there)}`",
        _fix(workload, mount, at, path, there),
    )


def _volume(there: Disks) -> str:
    """What holds directories that are no mount: Bottlerocket's are on a second volume of EBS, since its root is read-only."""
    if there.roots == {BOTTLEROCKET}:
        return "the node's data volume on EBS"
    return "the root volume" if there.roots == {AL2023} else "a volume of EBS"


def _may_be(workload: Workload, path: str, there: Disks) -> bool:
    """Whether that path can be on an instance store of these nodes."""
    if any(below(path, root) for root in there.roots):
        return True
    if root_of(path):
        return False
    if owner_of(path):
        return True  # kubelet's directory and the like, which the node binds onto the array: another rule's
    if below(path, "/mnt/k8s-disks") and AL2023 in there.roots:
        return True  # nodeadm's strategy `Mount`: one directory a disk
    if there.only or any(below(path, one) for one in _ROOT_VOLUME):
        return False
    return workload.compute != "karpenter" or _LOOKS_LIKE_A_DISK.search(path) is not None


def _moved(path: str, mount: Mount, there: Disks) -> str:
    root = AL2023 if AL2023 in there.roots else next(iter(there.roots))
    if mount.path in _OF_THE_AGENT:
        inside = path.partition("/glowplug/")[2]
        return f"{recipe.agent_root(root)}/{inside}" if inside else recipe.agent_root(root)
    if not (mount.path in _OF_THE_AGENT or root_of(path)) and any(
        is_default(name, mount.path) for name in _OF_ONE_COMPILER
    ):
        return f"{root}/{mount.path.rstrip('/').rpartition('/')[2].lstrip('.')}"
    old = root_of(path)
    moved = f"{root}/{path.removeprefix(old).strip('/')}" if old else recipe.shared_directory(root)
    return moved if moved.rstrip("/") not in MOUNTED and not owner_of(moved) else recipe.shared_directory(root)


def _fix(workload: Workload, mount: Mount, at: Value, path: str, there: Disks) -> Fix | None:
    if len(there.roots) != 1 and workload.compute != "karpenter":
        return None
    kind = mount.volume.get("hostPath", "type") if mount.volume is not None else None
    safe = len(there.roots) == 1 and kind is not None and kind.text == "DirectoryOrCreate"
    to = _moved(path, mount, there)
    return Fix(f"move it to {to}", (Replace(at, to),), safe=safe)


RULE = Rule(
    name="hostpath-not-nvme", area="compile", severity=Severity.ERROR, documentation=__doc__ or "", workload=_check
)
