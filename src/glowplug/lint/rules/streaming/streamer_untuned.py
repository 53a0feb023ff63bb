"""Weights are streamed from an object store with the streamer's conservative defaults.

## What it does
Looks at a pod that streams from an object store and sets no concurrency (the loader's key,
`RUNAI_STREAMER_CONCURRENCY` or `RUNAI_STREAMER_OBJ_CONCURRENCY`), or, on AWS's S3, no
`RUNAI_STREAMER_CHUNK_BYTESIZE`. S3-compatible servers are left with the default chunk: nobody has measured others
there.

## Why is this bad
The defaults are 8 clients and chunks of 8 MiB. On g5.12xlarge 15 GB took 28.2 s with 4 clients, 8.5 s with 16 and
4.9 s with 32; AWS's tuned load of 64 GB went from 29 to 12 s, one of 203 GB from 423 to 25 s. A safetensors header
moves the borders of 8 MiB chunks off the client's grid, so that each needs two requests: 140 GB are 33,000 instead
of 17,000, where a prefix of S3 gives 5,500 a second to all pods together. Until the weights are there the GPUs are
paid for and idle.

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
```
Finds `runai_streamer`.

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
Unsafe: `--unsafe-fixes` sets what `glowplug plan` would set, which needs the size of the model (`--size`), the
engine's version and the machine. More clients and larger chunks take more host memory.

## Source
AWS guide, "Run:ai Model Streamer performance tuning"; model-streamer documentation, benchmarks;
`docs/guide-errata.md`, g.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.lint import mending
from glowplug.lint.rule import Problem, Rule, Severity
from glowplug.lint.rules.streaming import planned, repairs
from glowplug.lint.rules.streaming.weights import binary, stream_of
from glowplug.plan.guide import CHUNK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.rule import Fix
    from glowplug.lint.rules.streaming.weights import Stream
    from glowplug.lint.view import Workload

_HINT = (
    "set `concurrency` in --model-loader-extra-config and RUNAI_STREAMER_CHUNK_BYTESIZE; `glowplug plan` computes both"
)


def _check(workload: Workload) -> Iterator[Problem]:
    stream = stream_of(workload)
    if stream is None or not stream.remote or stream.sharded:
        return
    clients = stream.concurrency
    default_clients = clients is not None and clients.at is None
    default_chunk = stream.environment.lacks(CHUNK) and stream.on_aws is True
    if clients is None or not (default_clients or default_chunk):
        return
    said = []
    if default_clients:
        said.append(f"{clients.number} clients")
    if default_chunk and stream.chunk_bytes is not None:
        said.append(f"chunks of {binary(stream.chunk_bytes)}")
    message = f"weights are streamed with the streamer's defaults: {' and '.join(said)}"
    yield Problem(stream.at, message, _HINT, _fix(stream, clients=default_clients, chunk=default_chunk))


def _fix(stream: Stream, *, clients: bool, chunk: bool) -> Fix | None:
    settings = planned.settings(stream)
    if settings is None:
        return None
    groups = []
    if clients:
        groups.append(repairs.with_key(stream, "concurrency", settings.concurrency))
    if chunk:
        container = stream.workload.container
        groups.append(mending.set_variable(container, CHUNK, str(settings.chunk_bytes)))
    return repairs.fix("set what `glowplug plan` sets", *groups, safe=False)


RULE = Rule(
    name="streamer-untuned",
    area="streaming",
    severity=Severity.WARNING,
    documentation=__doc__ or "",
    workload=_check,
)
