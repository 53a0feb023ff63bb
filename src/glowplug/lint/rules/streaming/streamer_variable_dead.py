"""A variable that the streamer no longer reads.

## What it does
Finds `RUNAI_STREAMER_S3_ENDPOINT` where the version in the image's tag has a streamer without it, which is every
vLLM from 0.10.0 on and every SGLang that streams. Its successor is `AWS_ENDPOINT_URL`.

## Why is this bad
The streamer dropped it in 0.12.0. Guides still name it, and vLLM still copies `AWS_ENDPOINT_URL` into it. With it
alone the pod does not ask the server that was meant, but AWS: the load ends with `File access error`, and sends
that server's credentials elsewhere.

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
            - name: RUNAI_STREAMER_S3_ENDPOINT
              value: https://s3.example
            - name: RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING
              value: "0"
```
Finds `RUNAI_STREAMER_S3_ENDPOINT`.

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
Where `AWS_ENDPOINT_URL` is set, the dead variable is removed, which is safe. Else it is renamed, which is unsafe: a
pod that reads from AWS today would ask another server.

## Source
model-streamer tags 0.11.2 and 0.12.0, `cpp/s3`; model-streamer issue 69, vllm#19192.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.catalog import streamer
from glowplug.lint import mending
from glowplug.lint.rule import Problem, Rule, Severity
from glowplug.lint.rules.streaming import repairs
from glowplug.lint.rules.streaming.weights import stream_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.rule import Fix
    from glowplug.lint.view import Workload

_DEAD = tuple(one for one in streamer.variables() if one.dead)


def _check(workload: Workload) -> Iterator[Problem]:
    stream = stream_of(workload)
    if stream is None or stream.streamer is None:
        return
    for dead in _DEAD:
        variable = stream.environment.get(dead.name)
        if variable is None or variable.value == "" or dead.known_to(stream.streamer.version):
            continue
        yield Problem(
            variable.name_at,
            f"the streamer does not read {dead.name} since {dead.until}",
            f"set {dead.instead} instead" if stream.environment.get(dead.instead) is None else "remove it",
            _fix(workload, dead.name, dead.instead),
        )


def _fix(workload: Workload, name: str, instead: str) -> Fix | None:
    if workload.container.environment.get(instead) is not None:
        return repairs.fix("remove it", mending.remove_variable(workload.container, name))
    return repairs.fix(f"rename it {instead}", mending.rename_variable(workload.container, name, instead), safe=False)


RULE = Rule(
    name="streamer-variable-dead",
    area="streaming",
    severity=Severity.ERROR,
    documentation=__doc__ or "",
    workload=_check,
)
