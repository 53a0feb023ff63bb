"""Weights are streamed from an object store with the streamer's conservative defaults.

## What it does
Looks at a pod that streams from an object store and sets no concurrency (the loader's key,
`RUNAI_STREAMER_CONCURRENCY` or `RUNAI_STREAMER_OBJ_CONCURRENCY`), or, on AWS's S3, no
`RUNAI_STREAMER_CHUNK_BYTESIZE`. S3-compatible servers are left with the default chunk: nobody has measured others
there. It says nothing of a default that `glowplug plan` would set as well, where it can plan (see below), and nothing
of a setting that is there under a misspelt name: that is `loader-key-unknown` or `streamer-variable-unknown`.

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

from typing import TYPE_CHECKING, Final

from glowplug.lint import mending
from glowplug.lint.rule import Problem, Rule, Severity
from glowplug.lint.rules.streaming import planned, repairs, typos
from glowplug.lint.rules.streaming.weights import CONCURRENCY, OBJECTS_CONCURRENCY, binary, stream_of
from glowplug.plan.guide import CHUNK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.rule import Fix
    from glowplug.lint.rules.streaming.weights import Stream
    from glowplug.lint.view import Workload
    from glowplug.plan.outcome import Streaming

_CLIENTS: Final = "`concurrency` in --model-loader-extra-config"


def _check(workload: Workload) -> Iterator[Problem]:
    stream = stream_of(workload)
    if stream is None or not stream.remote or stream.sharded:
        return
    clients = stream.concurrency
    if clients is None:
        return
    plan = planned.settings(stream)
    said, wanted = [], []
    by_default = clients.at is None and not typos.is_misspelt(stream, "concurrency", CONCURRENCY, OBJECTS_CONCURRENCY)
    of_clients = by_default and (plan is None or plan.concurrency != clients.number)
    if of_clients:
        said.append(f"{clients.number} clients")
        wanted.append(_CLIENTS)
    chunk = stream.chunk_bytes
    by_default = stream.environment.lacks(CHUNK) and stream.on_aws is True and not typos.is_misspelt(stream, "", CHUNK)
    of_chunk = by_default and chunk is not None and (plan is None or plan.chunk_bytes != chunk)
    if of_chunk and chunk is not None:
        said.append(f"chunks of {binary(chunk)}")
        wanted.append(CHUNK)
    if said:
        message = f"weights are streamed with the streamer's defaults: {' and '.join(said)}"
        hint = f"set {' and '.join(wanted)}; `glowplug plan` computes {'both' if len(wanted) > 1 else 'it'}"
        yield Problem(stream.at, message, hint, _fix(stream, plan, clients=of_clients, chunk=of_chunk))


def _fix(stream: Stream, plan: Streaming | None, *, clients: bool, chunk: bool) -> Fix | None:
    if plan is None:
        return None
    groups = []
    if clients:
        groups.append(repairs.with_key(stream, "concurrency", plan.concurrency))
    if chunk:
        container = stream.workload.container
        groups.append(mending.set_variable(container, CHUNK, str(plan.chunk_bytes)))
    return repairs.fix("set what `glowplug plan` sets", *groups, safe=False)


RULE = Rule(
    name="streamer-untuned",
    area="streaming",
    severity=Severity.WARNING,
    documentation=__doc__ or "",
    workload=_check,
)
