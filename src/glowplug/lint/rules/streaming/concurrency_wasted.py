"""More clients than the streamer can use at once.

## What it does
Counts how many reads of that chunk size a rank can have in flight in this version of the streamer (inferred from
the image's tag): from 0.17.0 on the ring's 18 buffers, before that the chunks of the rank. Without the size of the
model only what holds for any model is found.

## Why is this bad
Streamer 0.17 reads through a ring of 18 buffers that share at most 40 GB; a chunk of 4 GiB is larger than a buffer, so that
18 clients are busy and the others wait. *Measured*: with rings of 1, 2 and 4 buffers and concurrency 32, chunks of
4 GiB kept 3, 4 and 6 clients busy. Each client still costs up to 2 GiB of host memory and 25 connections.

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
            - '--model-loader-extra-config={"concurrency":35}'
          env:
            - name: RUNAI_STREAMER_CHUNK_BYTESIZE
              value: "4294967296"
```
Finds `35`.

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
Unsafe: the concurrency is lowered to what can be used. That the image has the streamer of its release day is
likely, not certain.

## Source
model-streamer `requests_iterator.py` (RUNAI_STREAMER_RING_BUFFERS) and `cpp/streamer/impl/assigner`;
`docs/guide-errata.md`, g.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.lint.rule import Problem, Rule, Severity
from glowplug.lint.rules.streaming import planned, repairs
from glowplug.lint.rules.streaming.weights import binary, stream_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Workload


def _check(workload: Workload) -> Iterator[Problem]:
    stream = stream_of(workload)
    if stream is None or not stream.remote or stream.sharded or stream.streamer is None:
        return
    clients, chunk = stream.concurrency, stream.chunk_bytes
    useful = planned.useful_clients(stream)
    if clients is None or clients.at is None or chunk is None or useful is None or clients.number <= useful:
        return
    why = "has a ring of so many buffers" if stream.streamer.rings else "gives each chunk to one client"
    yield Problem(
        clients.at,
        f"with chunks of {binary(chunk)} at most {useful} of {clients.number} clients can read at once: streamer "
        f"{stream.streamer.version} {why}",
        f"set it to {useful}: the others cost host memory and connections",
        repairs.concurrency(stream, useful),
    )


RULE = Rule(
    name="concurrency-wasted",
    area="streaming",
    severity=Severity.INFO,
    documentation=__doc__ or "",
    workload=_check,
)
