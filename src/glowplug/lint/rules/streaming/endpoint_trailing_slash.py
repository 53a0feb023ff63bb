"""The endpoint ends with a slash, with which the streamer fails.

## What it does
Finds an `AWS_ENDPOINT_URL` with a slash at its end where the pod streams from `s3://`.

## Why is this bad
The streamer takes what stands behind the scheme for the host: with a slash every request is refused, and the engine
ends with `File access error`. The AWS CLI and boto3 take such an address, so that listing the model by hand works.

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
            - name: AWS_ENDPOINT_URL
              value: https://s3.example/
            - name: RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING
              value: "0"
```
Finds `https://s3.example/`.

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
            - name: AWS_ENDPOINT_URL
              value: https://s3.example
            - name: RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING
              value: "0"
```

## Fix safety
Safe: the slash is removed. The pod does not load as it is.

## Source
model-streamer issues 46 and 69; `cpp/s3/client/client.cc` (the host is used as it is).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.core import redact
from glowplug.lint import mending
from glowplug.lint.rule import Problem, Rule, Severity
from glowplug.lint.rules.streaming import repairs
from glowplug.lint.rules.streaming.weights import ENDPOINT, stream_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Workload


def _check(workload: Workload) -> Iterator[Problem]:
    stream = stream_of(workload)
    variable = stream.endpoint if stream is not None and stream.scheme == "s3" else None
    if variable is None or variable.value is None or not variable.value.endswith("/"):
        return
    bare = str(variable.value).rstrip("/")
    host = bare.partition("://")[2] if "://" in variable.value else bare
    fix = repairs.fix("remove the slash", mending.set_variable(workload.container, ENDPOINT, bare)) if host else None
    yield Problem(
        variable.at,
        f"{ENDPOINT} {redact.value(ENDPOINT, variable.value)} ends with a slash, with which the streamer fails",
        "remove the slash",
        fix,
    )


RULE = Rule(
    name="endpoint-trailing-slash",
    area="streaming",
    severity=Severity.ERROR,
    documentation=__doc__ or "",
    workload=_check,
)
