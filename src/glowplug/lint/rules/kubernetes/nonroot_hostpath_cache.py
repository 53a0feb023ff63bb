"""The container is not root, and its compile cache is a directory of the node that belongs to root.

## What it does
Looks at engines that run as another user than root (`runAsUser`, `runAsNonRoot`) and keep their compile cache, or
one of its parts, on a hostPath that Kubernetes makes (`DirectoryOrCreate`, or no type).

It says nothing where somebody else may have prepared the directory: an init container that mounts it, a DaemonSet
among what was given that mounts it (glowplug's agent does), a hostPath of type `Directory`, or a privileged init
container.

## Why is this bad
kubelet makes a missing hostPath as root with mode 0755, and `fsGroup` does not apply to a hostPath. The engine
cannot write there, and it does not run cold: vLLM ends with `PermissionError: [Errno 13]` and the pod is in a crash
loop. Where a pod of root was there first, it works on that node and on no new one.

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
      securityContext: {runAsUser: 1000}
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.21.0
          command: [vllm, serve]
          args: [/models/llama]
          env:
            - {name: VLLM_CACHE_ROOT, value: /compile-cache/vllm}
          volumeMounts:
            - {name: compile-cache, mountPath: /compile-cache}
      volumes:
        - name: compile-cache
          hostPath: {path: /mnt/k8s-disks/0/compile-cache, type: DirectoryOrCreate}
```
Finds `/mnt/k8s-disks/0/compile-cache`.

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
      securityContext: {runAsUser: 1000}
      initContainers:
        - name: owner
          image: busybox:1.37
          command: [chown, "1000:1000", /compile-cache]
          securityContext: {runAsUser: 0}
          volumeMounts:
            - {name: compile-cache, mountPath: /compile-cache}
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.21.0
          command: [vllm, serve]
          args: [/models/llama]
          env:
            - {name: VLLM_CACHE_ROOT, value: /compile-cache/vllm}
          volumeMounts:
            - {name: compile-cache, mountPath: /compile-cache}
      volumes:
        - name: compile-cache
          hostPath: {path: /mnt/k8s-disks/0/compile-cache, type: DirectoryOrCreate}
```

## Fix safety
No fix: the ways out differ in what they need. A container of root that changes the owner, a DaemonSet that does, or
an emptyDir with one of glowplug's modes (`glowplug inject`), which asks for no rights.

## Source
llm-d/llm-d#485; Kubernetes, Volumes ("the files or directories created on the underlying hosts are only writable by
root"); vLLM, which makes its cache directory at the start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.lint.rule import Problem, Rule, Severity
from glowplug.lint.rules.kubernetes import daemons

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Mount, Workload
    from glowplug.manifests.values import Value

_VARIABLES: Final = (
    "VLLM_CACHE_ROOT",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "XDG_CACHE_HOME",
    "FLASHINFER_WORKSPACE_BASE",
    "SGLANG_CACHE_DIR",
)
_MADE: Final = ("", "DirectoryOrCreate")


def _check(workload: Workload) -> Iterator[Problem]:
    user = _user(workload)
    if user is None:
        return
    for mount in _caches(workload):
        path = mount.volume.get("hostPath", "path") if mount.volume is not None else None
        if path is None or _prepared(workload, mount):
            continue
        yield Problem(
            path,
            f"the container runs as {user}, and Kubernetes makes {path.text} as root with mode 0755: the engine cannot write its "
            f"cache at {mount.path} and ends",
            "let a container of root or a DaemonSet change the owner, or use an emptyDir: `glowplug inject`",
        )


def _user(workload: Workload) -> str | None:
    """Whom the container certainly runs as in words, None for root and where only the image says it."""
    own, pod = workload.container.value.get("securityContext"), workload.spec.get("securityContext")
    for name in ("runAsUser", "runAsNonRoot"):
        found = _said(own, name) or _said(pod, name)
        if found is None:
            continue
        if name == "runAsUser":
            return None if found.text == "0" or not found.text.isdigit() else f"user {found.text}"
        return "a user other than root" if found.data is True else None
    return None


def _said(context: Value | None, name: str) -> Value | None:
    found = context.get(name) if context is not None else None
    return found if found is not None and found.data is not None else None


def _caches(workload: Workload) -> Iterator[Mount]:
    """Mounts of directories of the node in which the engine keeps compile caches, each once."""
    values = (workload.container.environment.value(name) for name in _VARIABLES)
    seen = set()
    for path in (workload.cache_root, *values):
        mount = workload.container.mount_of(path) if path and path.startswith("/") else None
        if mount is None or mount.kind != "hostPath" or mount.read_only or mount.name in seen:
            continue
        seen.add(mount.name)
        yield mount


def _prepared(workload: Workload, mount: Mount) -> bool:
    """Whether somebody else may have given it away."""
    kind = mount.volume.get("hostPath", "type") if mount.volume is not None else None
    if kind is not None and kind.text not in _MADE:
        return True
    for container in workload.init_containers:
        privileged = container.value.get("securityContext", "privileged")
        if any(one.name == mount.name for one in container.mounts) or (
            privileged is not None and privileged.data is True
        ):
            return True
    everything = workload.everything
    path = mount.host_path or ""
    return everything is not None and any(True for _ in daemons.mounting(everything, path))


RULE = Rule(
    name="nonroot-hostpath-cache",
    area="kubernetes",
    severity=Severity.ERROR,
    documentation=__doc__,
    workload=_check,
)
