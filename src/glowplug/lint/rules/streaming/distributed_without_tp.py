"""`distributed` shares the reading among ranks, and there is only one.

## What it does
Finds `"distributed": true` where tensor, pipeline and data parallel size are all 1.

## Why is this bad
With one rank there is nobody to share the reading with: the streamer falls back without a word. The setting says
that the model is split over GPUs, which it is not; usually `--tensor-parallel-size` was forgotten, or `distributed`
was copied.

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
          image: vllm/vllm-openai:v0.33.0
          args:
            - --model=s3://models/llama-70b
            - --load-format=runai_streamer
            - '--model-loader-extra-config={"concurrency":18,"distributed":true}'
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
            - '--model-loader-extra-config={"concurrency":18}'
          env:
            - name: RUNAI_STREAMER_CHUNK_BYTESIZE
              value: "4294967296"
```

## Fix safety
Safe: the key is removed, which changes nothing for one rank.

## Source
AWS guide ("Leave it unset (or `false`) for TP=1"); model-streamer `distributed_streamer.py` (a group of one falls
back).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.lint import mending
from glowplug.lint.rule import Problem, Rule, Severity
from glowplug.lint.rules.streaming import repairs
from glowplug.lint.rules.streaming.weights import stream_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Workload


def _check(workload: Workload) -> Iterator[Problem]:
    stream = stream_of(workload)
    part = stream.part("distributed") if stream is not None and not stream.sharded else None
    if stream is None or part is None or part.data is not True or not stream.one_rank:
        return
    yield Problem(
        part.key_at,
        "`distributed` shares the reading among ranks, and this engine has one",
        "remove it, or set the tensor parallel size that was meant",
        repairs.fix("remove `distributed`", mending.remove_extra(workload, "distributed")),
    )


RULE = Rule(
    name="distributed-without-tp",
    area="streaming",
    severity=Severity.WARNING,
    documentation=__doc__ or "",
    workload=_check,
)
