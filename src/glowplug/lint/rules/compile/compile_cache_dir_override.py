"""A fixed `cache_dir` makes vLLM load artifacts without checking that they fit.

## What it does

Finds `cache_dir` in vLLM's `--compilation-config`, as JSON or as `-cc.cache_dir=…`.

## Why is this bad

vLLM names its cache directory after a digest of configuration, code and compiler. A directory of your own replaces the name, and
with it the check: after a new argument, model or image the old artifacts are loaded, and the engine crashes, in a loop, or
answers wrongly (ls1intum/edutelligence#579). Ahead-of-time artifacts do not go there at all. Older documentation of Ray
recommends it.

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
            - --compilation-config={"cache_dir":"/compile-cache/llama"}
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

Finds `"/compile-cache/llama"`.

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

Safe where vLLM's own directory lies on a volume of the pod: the key goes, and vLLM keeps its tree there. Unsafe elsewhere,
since the cache would then end with the container.

## Source

ls1intum/edutelligence#579; NovaSky-AI/SkyRL#2138; vllm compilation/backends.py (`if not self.compilation_config.cache_dir`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.lint import json_options, mending
from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.lint.rules.compile.keeping import VLLM, keeping
from glowplug.lint.rules.compile.off import COMPILATION, compiling_off

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Workload


def _check(workload: Workload) -> Iterator[Problem]:
    engine = workload.engine
    if engine.name != VLLM or any(compiling_off(workload)):
        return
    given = json_options.json_option(engine, COMPILATION)
    part = given.parts.get("cache_dir") if given is not None else None
    if part is None or not part.data:
        return
    operations = mending.remove_json(workload, COMPILATION, "cache_dir")
    kept = keeping(workload)
    safe = kept.root is not None and workload.container.mount_of(kept.root) is not None
    yield Problem(
        part.at,
        f"`cache_dir` is `{part.data}` whatever is compiled: vLLM never checks whether the artifacts in it fit",
        "remove it, and place the cache with VLLM_CACHE_ROOT",
        Fix("remove cache_dir", operations, safe=safe) if operations else None,
    )


RULE = Rule(
    name="compile-cache-dir-override",
    area="compile",
    severity=Severity.WARNING,
    documentation=__doc__ or "",
    workload=_check,
)
