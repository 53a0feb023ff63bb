"""Without `distributed` every rank reads the whole model.

## What it does
Finds tensor parallelism without `"distributed": true` where the engine's version knows the key and gives each model
its own copy of a tensor (vLLM from 0.22.0 on), and `RUNAI_STREAMER_DIST=0`, which turns it off again.

It says nothing for versions in which `distributed` is not safe (`distributed-corrupts`), and where the size of the
model and the GPU are known and leave no room for its two staging buffers.

## Why is this bad
There is no broadcast from rank 0, as the AWS guide has it: each rank opens the streamer with the list of all files.
With tensor parallel 8, eight processes read the whole model over one network card: eight times the bytes, the
requests to S3, and what a NAT gateway charges (0.045 USD a GB, secondary source).

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
            - --tensor-parallel-size=8
            - '--model-loader-extra-config={"concurrency":8}'
          env:
            - name: RUNAI_STREAMER_CHUNK_BYTESIZE
              value: "4294967296"
```
Finds `{"concurrency":8}`.

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
            - --tensor-parallel-size=8
            - '--model-loader-extra-config={"concurrency":8,"distributed":true}'
          env:
            - name: RUNAI_STREAMER_CHUNK_BYTESIZE
              value: "4294967296"
```

## Fix safety
Safe for images with streamer 0.17.0 or newer (vLLM 0.32.0): it shares one memory limit among the ranks, and falls
back where a GPU has no room. Unsafe before: 0.15.0 to 0.16.1 ignore their memory limit with `distributed`.

## Source
vLLM `runai_streamer_loader.py`; vllm#27230 (the key), vllm#43464 (the copy); `docs/guide-errata.md`, a.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.lint import mending
from glowplug.lint.rule import Problem, Rule, Severity
from glowplug.lint.rules.streaming import planned, repairs
from glowplug.lint.rules.streaming.weights import stream_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.rule import Fix
    from glowplug.lint.rules.streaming.weights import Stream
    from glowplug.lint.view import Workload

_SWITCH: Final = "RUNAI_STREAMER_DIST"


def _check(workload: Workload) -> Iterator[Problem]:
    stream = stream_of(workload)
    if stream is None or not stream.remote or stream.sharded or (stream.tensor_parallel or 1) < 2:
        return
    if not stream.loader.shares or stream.loader.behaviour("distributed_safe").value != "yes":
        return
    repeated = f"each of {stream.tensor_parallel} ranks reads the whole model"
    off = stream.environment.get(_SWITCH)
    if stream.distributed and off is not None and off.value == "0":
        remove = repairs.fix(f"remove {_SWITCH}", mending.remove_variable(workload.container, _SWITCH), safe=False)
        yield Problem(off.at, f"{_SWITCH}=0 turns `distributed` off: {repeated}", "remove the variable", remove)
    if stream.distributed is not False or not planned.has_room_for_staging(stream):
        return
    part = stream.part("distributed")
    at = part.at if part is not None else stream.extra.option.at if stream.extra is not None else stream.at
    certain = "" if stream.version else ", where the image has vllm 0.22.0 or newer"
    hint = f'set `"distributed": true` in --model-loader-extra-config{certain}'
    yield Problem(at, f"without `distributed` {repeated}", hint, _fix(stream))


def _fix(stream: Stream) -> Fix | None:
    safe = stream.streamer is not None and not stream.streamer.unlimited(distributed=True)
    return repairs.fix("set `distributed`", repairs.with_key(stream, "distributed", True), safe=safe)


RULE = Rule(
    name="distributed-missing",
    area="streaming",
    severity=Severity.WARNING,
    documentation=__doc__ or "",
    workload=_check,
)
