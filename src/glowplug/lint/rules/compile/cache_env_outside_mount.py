"""A cache variable points outside every volume, although the pod has one for compiled artifacts.

## What it does

Finds variables that place a compile cache (`VLLM_CACHE_ROOT`, `TRITON_CACHE_DIR`, …, or `XDG_CACHE_HOME` where it decides) with a
path that no mount of the container holds, while a volume for compiled artifacts is mounted. Silent where the version is known to
overwrite the variable (vLLM's ahead-of-time path does so with `TORCHINDUCTOR_CACHE_DIR` from 0.20.2 on), for
`VLLM_ASSETS_CACHE`, and where the pod has no such volume.

## Why is this bad

What is written there lies in the container's own layer and ends with the container. The volume beside it stays empty, or gets
only a part, and a part hits nothing: every start compiles for 50 to 80 seconds. glowplug's launcher keeps a variable that you
set, so it cannot mend this either.

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
              value: /cache/vllm
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

Finds `/cache/vllm`.

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

Safe: the variable gets the directory on the volume that `glowplug render` would give it. `XDG_CACHE_HOME` stays as it is, since
other programs read it, and the engine's own variable is added. No fix where the value comes from a ConfigMap or a script.

## Source

AWS, Accelerate model loading on Amazon EKS, "Add cache environment variables"; vllm envs.py and compilation/decorators.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.lint import mending
from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.lint.rules.compile.filesystems import is_fit, is_surely_writable
from glowplug.lint.rules.compile.keeping import keeping, overwritten, placed, pointing
from glowplug.lint.rules.compile.off import compiling_off

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.rules.compile.keeping import Keeping
    from glowplug.lint.view import Variable, Workload

_OWN = {"vllm": "VLLM_CACHE_ROOT"}


def _check(workload: Workload) -> Iterator[Problem]:
    kept = keeping(workload)
    if not kept.kept or kept.mount is None or any(compiling_off(workload)):
        return
    fit, safe = is_fit(workload, kept.mount), is_surely_writable(workload, kept.mount)
    for variable in _outside(workload, kept):
        own = _OWN.get(workload.engine.name, "") if variable.name == "XDG_CACHE_HOME" else variable.name
        value = placed(workload, kept.cache_root).get(own)
        operations = mending.set_variable(workload.container, own, value) if value and fit else None
        yield Problem(
            variable.at,
            f"`{variable.name}={variable.value}` is in no volume: what is compiled ends with the container, beside an unused "
            f"cache at `{kept.mount.path}`",
            f"set `{own}={value}`" if value else f"point it below `{kept.mount.path}`",
            Fix(f"set {own} to {value}", operations, safe=safe) if operations else None,
        )


def _outside(workload: Workload, kept: Keeping) -> Iterator[Variable]:
    for name, variable in pointing(workload).items():
        if overwritten(workload, name) is False and _is_outside(workload, variable.value):
            yield variable
    decides = kept.root_by
    if decides is not None and decides.name == "XDG_CACHE_HOME" and _is_outside(workload, decides.value):
        yield decides


def _is_outside(workload: Workload, path: str | None) -> bool:
    return path is not None and path.startswith("/") and workload.container.mount_of(path) is None


RULE = Rule(
    name="cache-env-outside-mount",
    area="compile",
    severity=Severity.ERROR,
    documentation=__doc__ or "",
    workload=_check,
)
