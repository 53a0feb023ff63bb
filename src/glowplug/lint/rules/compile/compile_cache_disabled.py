"""A switch keeps the engine from storing what it compiles.

## What it does

Finds `VLLM_DISABLE_COMPILE_CACHE=1`, `TORCHINDUCTOR_FORCE_DISABLE_CACHES=1` and `force_disable_caches` in vLLM's
`inductor_compile_config`.

## Why is this bad

The engine compiles at every start, for 50 to 80 seconds by AWS's table, and stores nothing, whatever volume it has. vLLM's switch
turns ahead-of-time artifacts off too. These switches are for chasing a wrong artifact; removing the artifact is what mends it.

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
            - name: VLLM_DISABLE_COMPILE_CACHE
              value: "1"
          resources:
            limits:
              nvidia.com/gpu: 1
```

Finds `"1"`.

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
          resources:
            limits:
              nvidia.com/gpu: 1
```

## Fix safety

Unsafe: it removes the variable. Somebody may have set it because of an artifact that was wrong; clear the cache before.

## Source

vllm envs.py; torch/_inductor/config.py; vLLM documentation, "Debugging the vLLM-torch.compile integration".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.lint.rules.compile.off import caches_off

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Workload


def _check(workload: Workload) -> Iterator[Problem]:
    for off in caches_off(workload):
        yield Problem(
            off.at,
            f"{off.why}: every start compiles anew, and nothing is stored",
            "remove it; `glowplug cache rm` and an empty directory are what help against a wrong artifact",
            Fix(off.title, off.undo, safe=False) if off.undo else None,
        )


RULE = Rule(
    name="compile-cache-disabled", area="compile", severity=Severity.ERROR, documentation=__doc__ or "", workload=_check
)
