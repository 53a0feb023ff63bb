"""The engine cannot write its compile cache, and ends at the start.

## What it does

Finds a compile cache on a mount with `readOnly: true`, on a volume that is read-only by itself or by its kind (ConfigMap, Secret,
image), on a claim that is only `ReadOnlyMany`, and a cache directory outside every volume of a container with
`readOnlyRootFilesystem`.

## Why is this bad

Engines write to a cache that they only read: locks, temporary files, the same artifact again. Where they cannot, vLLM does not
run without a cache but exits with `OSError: Read-only file system` or `PermissionError`, and the pod restarts for ever.
glowplug's launcher falls back to a private directory, and nothing is restored.

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
              readOnly: true
      volumes:
        - name: compile-cache
          hostPath:
            path: /mnt/k8s-disks/0/compile-cache
            type: DirectoryOrCreate
```

Finds `true`.

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

Unsafe: it removes `readOnly`, and `recursiveReadOnly` with it. Compiled artifacts are code, so who may write them can run
code in every pod that shares the directory; if that is why it is read-only, let glowplug copy them into an `emptyDir` of each
pod (`glowplug inject`). No fix for a volume that is read-only by itself or by its kind.

## Source

Measured with vLLM 0.32.0 (exit 1, `OSError … inductor/locks`, `PermissionError … torch_aot_compile`); Kubernetes
documentation, Volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.lint.rules.compile.filesystems import read_only
from glowplug.lint.rules.compile.keeping import keeping, overwritten, pointing
from glowplug.lint.rules.compile.off import compiling_off
from glowplug.manifests.edit import Remove

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.rules.compile.keeping import Keeping
    from glowplug.lint.view import Mount, Workload
    from glowplug.manifests.edit import Operation


def _check(workload: Workload) -> Iterator[Problem]:
    if any(compiling_off(workload)):
        return
    kept = keeping(workload)
    root = kept.root if not kept.launcher else None
    mount = (workload.container.mount_of(root) if root is not None else None) or kept.mount
    if mount is not None:
        yield from _mounted(workload, kept, mount)
    if kept.mount is None and not kept.launcher:
        yield from _in_the_container(workload, kept)


def _mounted(workload: Workload, kept: Keeping, mount: Mount) -> Iterator[Problem]:
    copied = "let glowplug copy it into an emptyDir of each pod"
    end = "nothing is restored" if kept.launcher else "the engine exits at the start"
    found = read_only(workload, mount)
    if found is not None:
        # Whatever its mount says: that one is not worth a word before the volume is another.
        at, what = found
        hint = f"mount a volume that can be written, or {copied}"
        yield Problem(at, f"the compile cache at `{mount.path}` is {what}, which cannot be written: {end}", hint)
    elif mount.read_only:
        flag = mount.value.get("readOnly")
        fix = Fix("mount it writable", _writable(mount), safe=False) if flag is not None else None
        yield Problem(
            flag or mount.value,
            f"the compile cache at `{mount.path}` is mounted read-only: {end}",
            f"mount it writable, or {copied}",
            fix,
        )


def _writable(mount: Mount) -> tuple[Operation, ...]:
    """`recursiveReadOnly` without `readOnly` is refused by the API server."""
    recursive = mount.value.get("recursiveReadOnly")
    stays = recursive is None or recursive.text in ("", "Disabled")
    keys = ("readOnly",) if stays else ("readOnly", "recursiveReadOnly")
    return tuple(Remove(mount.value, key) for key in keys)


def _in_the_container(workload: Workload, kept: Keeping) -> Iterator[Problem]:
    """Directories of the container itself, whose file system is read-only."""
    flag = workload.container.value.get("securityContext", "readOnlyRootFilesystem")
    if flag is None or flag.data is not True:
        return
    wanted = {name: (one, one.value) for name, one in pointing(workload).items() if not overwritten(workload, name)}
    if kept.root_by is not None:
        wanted[kept.root_by.name] = (kept.root_by, kept.root)
    for variable, path in wanted.values():
        if variable.value and path and path.startswith("/") and workload.container.mount_of(path) is None:
            yield Problem(
                variable.at,
                f"`{path}` is in no volume and the container's file system is read-only: the engine exits at the start",
                "mount an emptyDir or a hostPath there",
            )


RULE = Rule(
    name="cache-not-writable", area="compile", severity=Severity.ERROR, documentation=__doc__ or "", workload=_check
)
