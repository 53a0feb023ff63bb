"""SGLang does not use torch.compile unless it is told to, and the pod keeps a cache for it.

## What it does

Finds SGLang with a volume for compiled artifacts, or with glowplug's launcher, and without `--enable-torch-compile` or
`--piecewise-cuda-graph-compiler=inductor`. vLLM compiles by default; TensorRT-LLM's switch is in its configuration file, which is
not seen.

## Why is this bad

The volume gets what Triton, FlashInfer and DeepGEMM compile, but no compiled model: the throughput that torch.compile brings,
5 to 30 % by AWS's guide, is not there, and neither is what the cache was made for.

## Example

```yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: sglang
spec:
  selector:
    matchLabels: {app: sglang}
  template:
    metadata:
      labels: {app: sglang}
    spec:
      tolerations:
        - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      containers:
        - name: sglang
          image: lmsysorg/sglang:v0.5.23
          command: [python3, -m, sglang.launch_server]
          args: [--model-path=/models/llama]
          env:
            - name: SGLANG_CACHE_DIR
              value: /compile-cache/sglang
            - name: TORCHINDUCTOR_CACHE_DIR
              value: /compile-cache/inductor
            - name: TRITON_CACHE_DIR
              value: /compile-cache/triton
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

Finds `sglang.launch_server`.

## Use instead

```yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: sglang
spec:
  selector:
    matchLabels: {app: sglang}
  template:
    metadata:
      labels: {app: sglang}
    spec:
      tolerations:
        - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      containers:
        - name: sglang
          image: lmsysorg/sglang:v0.5.23
          command: [python3, -m, sglang.launch_server]
          args: [--model-path=/models/llama, --enable-torch-compile]
          env:
            - name: SGLANG_CACHE_DIR
              value: /compile-cache/sglang
            - name: TORCHINDUCTOR_CACHE_DIR
              value: /compile-cache/inductor
            - name: TRITON_CACHE_DIR
              value: /compile-cache/triton
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

Unsafe: it adds `--enable-torch-compile`. The first start takes longer, and memory and kernels change.

## Source

AWS, Accelerate model loading on Amazon EKS, "Optimize torch.compile cold start"; SGLang documentation, "Enabling cache for
torch.compile" and "Piecewise CUDA Graph" (compiler `eager` by default).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.lint import mending
from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.lint.rules.compile.keeping import SGLANG, keeping
from glowplug.lint.rules.compile.off import compiling_off

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Workload
    from glowplug.manifests.source import Place
    from glowplug.manifests.values import Value

_SWITCH = "enable-torch-compile"
_PIECEWISE = "piecewise-cuda-graph-compiler"


def _check(workload: Workload) -> Iterator[Problem]:
    engine = workload.engine
    if engine.name != SGLANG or not engine.lacks(_SWITCH, _PIECEWISE) or any(compiling_off(workload)):
        return
    if not keeping(workload).kept:
        return
    operations = mending.set_option(workload, _SWITCH, None)
    yield Problem(
        _at(workload),
        f"SGLang does not use torch.compile without `--{_SWITCH}`, and the pod keeps a cache for it",
        f"add --{_SWITCH}, or leave the cache out",
        Fix(f"add --{_SWITCH}", operations, safe=False) if operations else None,
    )


def _at(workload: Workload) -> Value | Place:
    """The program, where the option would stand."""
    for key in ("command", "args"):
        listed = workload.container.value.get(key)
        for one in listed.elements() if listed is not None else ():
            if "sglang" in one.text:
                return one
    return workload.container.image or workload.container.value


RULE = Rule(
    name="compile-switch-missing",
    area="compile",
    severity=Severity.WARNING,
    documentation=__doc__ or "",
    workload=_check,
)
