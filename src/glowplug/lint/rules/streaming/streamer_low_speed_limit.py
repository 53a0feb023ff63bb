"""A speed limit for each connection aborts loads on slow links.

## What it does
Multiplies `RUNAI_STREAMER_S3_LOW_SPEED_LIMIT` with the connections that the pod opens (25 for each client, for each
rank), and finds it where they need more together than the link of 12 MB/s on which such loads were seen to fail.

## Why is this bad
The limit is in bytes a second *for each connection*; one that is slower over the window is dropped. *Measured* with
512 MiB: on a link of 12 MB/s the guide's 1048576 fails the load after 49 seconds and 315 requests, without it the
same load takes 44.8 seconds; on 20 MB/s it takes 22.3 instead of 13.5 seconds. It strikes when many nodes share a
NAT gateway, which is when one scales up.

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
            - '--model-loader-extra-config={"concurrency":18}'
          env:
            - name: RUNAI_STREAMER_CHUNK_BYTESIZE
              value: "4294967296"
            - name: RUNAI_STREAMER_S3_LOW_SPEED_LIMIT
              value: "1048576"
```
Finds `"1048576"`.

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
Safe: the variable is removed. The SDK's own limit of 1 byte a second stays, so that a dead connection is still
dropped.

## Source
aws-sdk-cpp `S3CrtClient.cpp`; measured with runai-model-streamer 0.17.1; `docs/guide-errata.md`, d.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.catalog.limits import fact
from glowplug.core.units import format_size
from glowplug.lint import mending
from glowplug.lint.rule import Problem, Rule, Severity
from glowplug.lint.rules.streaming import repairs
from glowplug.lint.rules.streaming.weights import stream_of, whole_number
from glowplug.plan.guide import LOW_SPEED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Workload


def _check(workload: Workload) -> Iterator[Problem]:
    stream = stream_of(workload)
    variable = stream.environment.get(LOW_SPEED) if stream is not None and stream.scheme == "s3" else None
    limit = whole_number(variable.value) if variable is not None else None
    if stream is None or variable is None or limit is None:
        return
    clients = stream.concurrency.number if stream.concurrency is not None else int(fact("streamer.concurrency").value)
    connections = clients * (stream.ranks or 1) * int(fact("streamer.connections_per_client").value)
    if limit * connections <= fact("guide.low_speed_abort_link_bytes_per_second").value:
        return
    yield Problem(
        variable.at,
        f"{LOW_SPEED} counts for each connection: {connections} of them need a link with {format_size(limit * connections)} "
        "a second, else connections are aborted until the load fails",
        "remove it",
        repairs.fix(f"remove {LOW_SPEED}", mending.remove_variable(workload.container, LOW_SPEED)),
    )


RULE = Rule(
    name="streamer-low-speed-limit",
    area="streaming",
    severity=Severity.WARNING,
    documentation=__doc__ or "",
    workload=_check,
)
