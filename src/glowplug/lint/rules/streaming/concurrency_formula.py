"""The concurrency does not fit the number of chunks.

## What it does
Where the size of the model is known (`--size`, or the annotation `glowplug.dev/weights`): finds the AWS guide's
`ceil(size in GB / 4)` where the chunks are 4 GiB, and a concurrency below both the streamer's own default of 8 and
the number of chunks.

## Why is this bad
The guide divides decimal gigabytes by 4, and sets chunks of 4,294,967,296 bytes, which are 4 GiB: 67 GB are 16
chunks, its concurrency is 17. One client too many does no harm. Too few leave the network idle: 4 clients needed
28.2 s for 15 GB on g5.12xlarge, 16 needed 8.5 s.

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
        glowplug.dev/weights: 67GB
    spec:
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.33.0
          args:
            - --model=s3://models/llama-70b
            - --load-format=runai_streamer
            - '--model-loader-extra-config={"concurrency":17}'
          env:
            - name: RUNAI_STREAMER_CHUNK_BYTESIZE
              value: "4294967296"
```
Finds `17`.

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
        glowplug.dev/weights: 67GB
    spec:
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.33.0
          args:
            - --model=s3://models/llama-70b
            - --load-format=runai_streamer
            - '--model-loader-extra-config={"concurrency":16}'
          env:
            - name: RUNAI_STREAMER_CHUNK_BYTESIZE
              value: "4294967296"
```

## Fix safety
Unsafe: the number is replaced by that of the chunks, at most by the streamer's default where it was lower. It
changes how much host memory the load takes.

## Source
AWS guide, "Calculate optimal concurrency"; `docs/guide-errata.md`, f; model-streamer documentation, benchmarks.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from glowplug.catalog.limits import fact
from glowplug.lint.rule import Problem, Rule, Severity
from glowplug.lint.rules.streaming import planned, repairs
from glowplug.lint.rules.streaming.weights import binary, stream_of
from glowplug.plan import guide

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Workload


def _check(workload: Workload) -> Iterator[Problem]:
    size = workload.weights_bytes
    stream = stream_of(workload) if size else None
    if stream is None or not size or not stream.remote or stream.sharded:
        return
    clients, chunk = stream.concurrency, stream.chunk_bytes
    if clients is None or clients.at is None or chunk is None:
        return
    chunks = max(1, math.ceil(size / chunk))
    default = int(fact("streamer.concurrency").value)
    if clients.number == guide.concurrency(size, chunk) != chunks:
        message = (
            f"concurrency {clients.number} is {size / 1e9:g} GB / 4 GB; chunks are {binary(chunk)}, of which the model has "
            f"{chunks}"
        )
        fix = repairs.concurrency(stream, chunks)
        yield Problem(clients.at, message, "the difference does no harm; count the chunks as the streamer does", fix)
        return
    rank_bytes = size if stream.rank_bytes is None else stream.rank_bytes
    useful = min(default, math.ceil(rank_bytes / chunk))
    if clients.number < useful and planned.holds(stream, useful):
        message = f"concurrency {clients.number} is less than {useful}: a rank has {math.ceil(rank_bytes / chunk)} chunks to read"
        yield Problem(
            clients.at,
            message,
            f"set it to {useful} or more; `glowplug plan` computes it",
            repairs.concurrency(stream, useful),
        )


RULE = Rule(
    name="concurrency-formula",
    area="streaming",
    severity=Severity.INFO,
    documentation=__doc__ or "",
    workload=_check,
)
