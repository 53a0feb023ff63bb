"""`--enforce-eager` and its equals turn torch.compile and CUDA graphs off.

## What it does

Finds what keeps the engine from compiling: `--enforce-eager`, `-O0`, compilation mode 0, the compilation backend `eager`,
`TORCH_COMPILE_DISABLE=1`, `TORCHDYNAMO_DISABLE=1`.

## Why is this bad

The pod starts sooner, and pays for it with every token: compiled code serves 5 to 30 % more requests, and without CUDA graphs
small batches wait for the CPU. A cached compilation gives both: AWS measured 4 to 6 seconds for it instead of 50 to 80. Older
guides say that the flag selects vLLM's V0 engine; that engine is gone since 0.11.0.

It is right while debugging, where GPU memory has no room for graphs, and for models that do not compile.

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
          args:
            - --model=/models/llama
            - --enforce-eager
          resources:
            limits: {nvidia.com/gpu: "1"}
```

Finds `--enforce-eager`.

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
          args:
            - --model=/models/llama
          resources:
            limits: {nvidia.com/gpu: "1"}
```

## Fix safety

Unsafe: it removes the flag or the variable. The first start then takes longer, and graphs take GPU memory. A mode inside
`--compilation-config` is left to you.

## Source

AWS, Accelerate model loading on Amazon EKS, "The --enforce-eager trade-off"; vllm-project/vllm#25033 (V0 removed);
vllm config/vllm.py and config/compilation.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.lint.rules.compile.off import compiling_off

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Workload


def _check(workload: Workload) -> Iterator[Problem]:
    for off in compiling_off(workload):
        fix = Fix(off.title, off.undo, safe=False) if off.undo else None
        yield Problem(
            off.at,
            f"{off.why}: the pod starts sooner and serves 5 to 30 % less",
            "remove it, and keep compiled artifacts in a cache",
            fix,
        )


RULE = Rule(name="eager-mode", area="compile", severity=Severity.WARNING, documentation=__doc__ or "", workload=_check)
