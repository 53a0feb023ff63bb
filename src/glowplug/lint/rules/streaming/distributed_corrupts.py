"""`distributed` in this version of the engine can load corrupt weights.

## What it does
Finds `"distributed": true` with tensor parallelism where the version in the image's tag hands out buffers that are
overwritten later: vLLM before 0.22.0, and SGLang, which has mended it model by model.

## Why is this bad
The streamer reuses its staging buffer for later tensors. A model class that keeps a tensor until its partner comes
(FP8 weights with their scales, fused projections) then keeps other bytes. Nothing fails: the server starts, is
ready, and answers nonsense. vLLM clones every tensor from 0.22.0 on. Models whose class holds nothing back are not
affected; which ones those are, no version says.

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
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.21.0
          args:
            - --model=s3://models/llama-70b
            - --load-format=runai_streamer
            - --tensor-parallel-size=2
            - '--model-loader-extra-config={"concurrency":17,"distributed":true}'
          env:
            - name: RUNAI_STREAMER_CHUNK_BYTESIZE
              value: "4294967296"
```
Finds `"distributed"`.

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
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.33.0
          args:
            - --model=s3://models/llama-70b
            - --load-format=runai_streamer
            - --tensor-parallel-size=2
            - '--model-loader-extra-config={"concurrency":17,"distributed":true}'
          env:
            - name: RUNAI_STREAMER_CHUNK_BYTESIZE
              value: "4294967296"
```

## Fix safety
Unsafe: the key is removed. Each rank then reads the whole model, so that the load takes up to N times as long,
which a startup probe may not allow. Better is a newer image.

## Source
vllm#41749, vllm#43163, mended by vllm#43464; sglang#22701, #29998, #37369, #37371, #38908; `docs/guide-errata.md`,
e.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.lint import mending
from glowplug.lint.rule import Problem, Rule, Severity
from glowplug.lint.rules.streaming import repairs
from glowplug.lint.rules.streaming.weights import stream_of
from glowplug.plan.guide import corruption

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Workload


def _check(workload: Workload) -> Iterator[Problem]:
    stream = stream_of(workload)
    if stream is None or not stream.version or stream.sharded or not stream.loader.shares:
        return
    part = stream.part("distributed") if (stream.tensor_parallel or 1) > 1 else None
    if part is None or part.data is not True or stream.environment.value("RUNAI_STREAMER_DIST") == "0":
        return
    for unsafe in corruption(stream.loader):
        remove = repairs.fix("remove `distributed`", mending.remove_extra(workload, "distributed"), safe=False)
        yield Problem(part.key_at, unsafe.message, unsafe.hint, remove)


RULE = Rule(
    name="distributed-corrupts",
    area="streaming",
    severity=Severity.ERROR,
    documentation=__doc__ or "",
    workload=_check,
)
