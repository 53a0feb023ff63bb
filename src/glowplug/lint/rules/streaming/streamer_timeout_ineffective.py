"""A request timeout under four seconds changes nothing.

## What it does
Finds `RUNAI_STREAMER_S3_REQUEST_TIMEOUT_MS` with a value below 4000 where the pod streams from S3.

## Why is this bad
The variable sets the length of the SDK's low-speed window, in whole seconds, and at least three: the guide's 3000,
the default of 1000 and 3999 are the same. *Measured*: a server that waits eight seconds before its first byte fails
the load after 36 seconds either way; with 30000 it succeeds. That happens across regions, and while S3 scales a
prefix up.

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
            - name: RUNAI_STREAMER_S3_REQUEST_TIMEOUT_MS
              value: "3000"
```
Finds `"3000"`.

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
            - name: RUNAI_STREAMER_S3_REQUEST_TIMEOUT_MS
              value: "30000"
```

## Fix safety
Safe: the value becomes 30000, as in profile `auto`. A load that succeeds today succeeds with it; a connection that
hangs is given up later.

## Source
aws-sdk-cpp `S3CrtClient.cpp` (init); measured with runai-model-streamer 0.17.1; `docs/guide-errata.md`, c;
modelexpress#638.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.catalog.limits import fact
from glowplug.lint import mending
from glowplug.lint.rule import Problem, Rule, Severity
from glowplug.lint.rules.streaming import repairs
from glowplug.lint.rules.streaming.weights import stream_of, whole_number
from glowplug.plan.assumptions import assumed
from glowplug.plan.guide import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Workload

_MS = 1000


def _check(workload: Workload) -> Iterator[Problem]:
    stream = stream_of(workload)
    variable = stream.environment.get(TIMEOUT) if stream is not None and stream.scheme == "s3" else None
    number = whole_number(variable.value) if variable is not None else None
    least = int(fact("streamer.request_timeout_ms_min").value)
    if variable is None or number is None or not 0 <= number < least + _MS:
        return
    helpful = str(int(assumed("streamer.request_timeout_ms_helpful").value))
    yield Problem(
        variable.at,
        f"{TIMEOUT}={number} changes nothing: the window is {least // _MS} whole seconds at least, which is the default",
        f"set {helpful}, which survives a slow first byte",
        repairs.fix(f"set {helpful}", mending.set_variable(workload.container, TIMEOUT, helpful)),
    )


RULE = Rule(
    name="streamer-timeout-ineffective",
    area="streaming",
    severity=Severity.INFO,
    documentation=__doc__ or "",
    workload=_check,
)
