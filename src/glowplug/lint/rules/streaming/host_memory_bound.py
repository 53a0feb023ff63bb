"""The memory limit is below what loading the weights fills.

## What it does
Where the size of the model is known (`--size`, or the annotation `glowplug.dev/weights`): adds up the streamer's
buffers, by the rules of the version in the image and by `memory_limit`, and the engine's processes, and compares
the sum with the container's memory limit. What the S3 clients' pools may take on top is in the message, and not
counted: it is a bound, and seldom reached.

## Why is this bad
The kernel kills the engine in the middle of the load, with OOMKilled and no line in its log, and the pod starts
again from the first byte. The streamer's default is 40 GB of buffers a process, or all ranks together
from 0.17.0 on with `distributed`; 0.15.0 to 0.16.1 with `distributed` ignore any limit and hold the whole model;
each client may take up to 2 GiB more.

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
      annotations:
        glowplug.dev/weights: 140GB
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
          resources:
            limits:
              memory: 32Gi
              nvidia.com/gpu: "1"
```
Finds `32Gi`.

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
      annotations:
        glowplug.dev/weights: 140GB
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
          resources:
            limits:
              memory: 96Gi
              nvidia.com/gpu: "1"
```

## Fix safety
Unsafe: the limit is raised to the bound, and a request above it with it; the nodes may not have so much. A smaller
`memory_limit` for the streamer is the other way, at some cost in speed.

## Source
model-streamer `requests_iterator.py` and `docs/src/env-vars.md` (RUNAI_STREAMER_MEMORY_LIMIT);
`docs/guide-errata.md`, g.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from glowplug.core.units import format_size
from glowplug.lint import mending
from glowplug.lint.rule import Problem, Rule, Severity
from glowplug.lint.rules.streaming import planned, repairs
from glowplug.lint.rules.streaming.weights import stream_of
from glowplug.plan import hosting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Workload

_GIB: Final = 1 << 30


def _check(workload: Workload) -> Iterator[Problem]:
    limit = workload.container.quantity("limits", "memory") if workload.weights_bytes else None
    at = workload.container.value.get("resources", "limits", "memory")
    stream = stream_of(workload) if limit is not None else None
    if stream is None or stream.sharded or stream.streamer is None or limit is None or at is None:
        return
    clients = stream.concurrency.number if stream.concurrency is not None else 1
    load = planned.reading(stream, clients)
    if load is None:
        return
    filled = hosting.ring_bytes(load, stream.streamer) + hosting.base_bytes(load.ranks)
    if limit >= filled:
        return
    bound = hosting.resources(load, stream.streamer).host_memory_bytes
    more = f", and may take {format_size(bound)}" if bound > filled and stream.remote else ""
    new = f"{math.ceil(max(bound, filled) / _GIB)}Gi"
    raised = mending.set_field(workload.container.value, ("resources", "limits", "memory"), new)
    yield Problem(
        at,
        f"loading fills {format_size(round(filled))} of host memory{more}; the limit is {format_size(limit)}: the engine is killed",
        f"raise the limit to {new}, or set `memory_limit` in --model-loader-extra-config",
        repairs.fix(f"raise the limit to {new}", raised, safe=False),
    )


RULE = Rule(
    name="host-memory-bound",
    area="streaming",
    severity=Severity.ERROR,
    documentation=__doc__ or "",
    workload=_check,
)
