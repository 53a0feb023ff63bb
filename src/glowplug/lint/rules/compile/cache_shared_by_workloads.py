"""Several workloads write their compile caches into one directory.

## What it does

Finds workloads of the input whose compile cache is the same hostPath, or the same PersistentVolumeClaim, mounted writable. Silent
for workloads whose node selectors exclude each other, and for the pods of one workload, which the AWS guide lets share a
directory. Documents of one kind, name and namespace are one workload, in however many files it stands.

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

Unsafe: each hostPath gets a directory of its own below the shared one, named after its workload, and after its namespace and
kind where another workload has that name, too. What is cached there is compiled once more, and an agent of glowplug's shared
mode fills the common directory only. No fix for claims, nor where the directory has the workload's name already. `glowplug
inject` gives each pod its own copy.

## Source

NovaSky-AI/SkyRL#2138; vllm-project/vllm#24601; torch/_inductor/codecache.py write_atomic; vllm compilation/decorators.py.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.lint.rules.compile.disks import host_path
from glowplug.lint.rules.compile.keeping import keeping, normal
from glowplug.lint.rules.compile.off import compiling_off
from glowplug.manifests.edit import Replace

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from glowplug.lint.view import Manifests, Mount, Workload
    from glowplug.manifests.values import Value

_SHOWN: Final = 3
_HOST_PATH: Final = "hostPath"


def _check(manifests: Manifests) -> Iterator[Problem]:
    writers: dict[tuple[str, ...], list[_Writer]] = defaultdict(list)
    for workload in manifests.workloads:
        mount = keeping(workload).mount
        if mount is not None and not mount.read_only and not any(compiling_off(workload)):
            where = _where(workload, mount)
            if where:
                writers[where].append(_Writer(workload, mount, _selector(workload) if where[0] == _HOST_PATH else ()))
    for found in writers.values():
        if len({one.identity for one in found}) > 1:
            yield from _problems(found)


@dataclass(frozen=True)
class _Writer:
    """`selector`: what the pod asks of its node, () for a directory that all nodes have in common."""

    workload: Workload
    mount: Mount
    selector: tuple[tuple[str, str], ...]

    @property
    def title(self) -> str:
        return self.workload.object.title

    @property
    def identity(self) -> Hashable:
        """What the workload is to Kubernetes: the same object can stand in several files (overlays, a copy with a comment)."""
        whole = self.workload.object
        # What has a generateName is another object each time.
        named = whole.value.get("metadata", "name")
        return (whole.group, whole.title) if named is not None and named.text else id(whole)

    @property
    def directories(self) -> tuple[str, ...]:
        """Names for a directory of its own: the workload's own, and longer ones for where another workload is called so."""
        whole = self.workload.object
        if not whole.name:
            return ()
        first = f"{whole.namespace}." if whole.namespace else ""
        kind = whole.kind.lower()
        return whole.name, f"{first}{kind}.{whole.name}", f"{first}{kind}.{whole.group or 'core'}.{whole.name}"


def _where(workload: Workload, mount: Mount) -> tuple[str, ...]:
    """What names the directory that is written, () where it is not one that others can have."""
    if mount.value.get("subPathExpr") is not None or mount.volume is None:
        return ()
    if mount.host_path:
        return (_HOST_PATH, normal(mount.host_path))
    claim = mount.volume.get("persistentVolumeClaim", "claimName")
    inside = mount.value.get("subPath")
    return (
        ("claim", workload.object.namespace, claim.text, "" if inside is None else inside.text)
        if claim is not None
        else ()
    )


def _problems(writers: list[_Writer]) -> Iterator[Problem]:
    """One for each writer that can meet another one; those with one selector are looked at together."""
    alike: dict[tuple[tuple[str, str], ...], list[_Writer]] = defaultdict(list)
    for one in writers:
        alike[one.selector].append(one)
    names = _names(writers)
    for selector, group in alike.items():
        near: dict[Hashable, str] = {}
        for other, others in alike.items():
            if not _apart(dict(selector), dict(other)):
                near.update((one.identity, one.title) for one in others)
        if len(near) > 1:
            for one in group:
                others_ = (title for identity, title in near.items() if identity != one.identity)
                yield from _problem(
                    one, list(itertools.islice(others_, _SHOWN)), len(near) - 1, names.get(one.identity, "")
                )


def _names(writers: list[_Writer]) -> dict[Hashable, str]:
    """What the directory of each is called: the first of its names that no other one may have."""
    users: dict[str, set[Hashable]] = defaultdict(set)
    for one in writers:
        for name in one.directories:
            users[name].add(one.identity)
    own = {one.identity: next((name for name in one.directories if len(users[name]) == 1), "") for one in writers}
    return {identity: name for identity, name in own.items() if name}


def _problem(writer: _Writer, others: list[str], number: int, directory: str) -> Iterator[Problem]:
    volume = writer.mount.volume
    if volume is None:
        return
    at: Value = host_path(volume) or volume.get("persistentVolumeClaim", "claimName") or volume
    more = f" and {number - len(others)} more" if number > len(others) else ""
    yield Problem(
        at,
        f"`{at.text}` is the compile cache of {', '.join(others)}{more} as well: engines name temporary files by process "
        "id, which is the same in every pod",
        "give each workload a directory of its own",
        _fix(writer, at, directory),
    )


def _selector(workload: Workload) -> tuple[tuple[str, str], ...]:
    selector = workload.spec.get("nodeSelector")
    return tuple(sorted((key, value.text) for key, value in selector.items())) if selector is not None else ()


def _apart(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether no node can have both."""
    return any(one.get(key, value) != value for key, value in other.items())


def _fix(writer: _Writer, at: Value, directory: str) -> Fix | None:
    path = at.text.rstrip("/")
    if not writer.mount.host_path or not directory or path.endswith(f"/{directory}"):
        return None
    to = f"{path}/{directory}"
    return Fix(f"move it to {to}", (Replace(at, to),), safe=False)


RULE = Rule(
    name="cache-shared-by-workloads",
    area="compile",
    severity=Severity.WARNING,
    documentation=__doc__ or "",
    everything=_check,
)
