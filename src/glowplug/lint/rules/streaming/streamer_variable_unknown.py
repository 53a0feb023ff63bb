"""A variable that looks like one of the streamer's, which nobody reads.

## What it does
Compares variables that begin like the streamer's (`RUNAI_STREAMER_`, and `AWS_` or `AZURE_STORAGE_` where the pod
streams from such a store) with all that any of its versions reads, and with those of the AWS and Azure SDKs.

## Why is this bad
Variables are read by exact names: a misspelt one does nothing, and nothing says so. A missing region or endpoint
shows as `File access error`, a missing limit as a load that is slower than planned. `AWS_ENDPOINT_URL_S3` is right
for the AWS SDK for Python, which lists the model; the streamer, which reads it, knows `AWS_ENDPOINT_URL` only.

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
            - name: RUNAI_STREAMER_CHUNK_SIZE
              value: "4294967296"
```
Finds `RUNAI_STREAMER_CHUNK_SIZE`.

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
Renaming is safe where the right name is not set: it is what was meant. Unsafe is it for `AWS_ENDPOINT_URL`, which
other services of AWS obey as well, and for a key of a ConfigMap, which other pods may ask for by its name. A name that
is like none stays.

## Source
runai-model-streamer 0.8.0 to 0.17.1, `docs/src/env-vars.md` and its code; AWS SDKs and Tools Reference Guide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.catalog import spelling, streamer
from glowplug.lint import mending
from glowplug.lint.rule import Problem, Rule, Severity
from glowplug.lint.rules.streaming import repairs, typos
from glowplug.lint.rules.streaming.weights import ENDPOINT, PREFIX, lacks_streamer, stream_of, weights_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.rule import Fix
    from glowplug.lint.view import Variable, Workload

_STORES: Final = {"AWS_": "s3", "AZURE_STORAGE_": "az"}
# Families that are made for trials, of which the table has only what was seen.
_INTERNAL: Final = (f"{PREFIX}INTERNAL_", f"{PREFIX}EXPERIMENTAL_")


def _check(workload: Workload) -> Iterator[Problem]:
    if workload.engine.name not in ("vllm", "sglang"):
        return
    weights = weights_of(workload)
    if weights is not None and lacks_streamer(weights):
        return
    stream = stream_of(workload)
    scheme = stream.scheme if stream is not None else None
    for name, variable in workload.container.environment.variables.items():
        store = next((store for prefix, store in _STORES.items() if name.startswith(prefix)), None)
        if store is not None and store != scheme:
            continue
        near = typos.variable_meant(name)
        if near is not None and (store is None or workload.container.environment.get(near) is None):
            yield _misspelt(workload, variable, near)
        elif near is None and _is_nobodys(name):
            yield Problem(
                variable.name_at, f"no version of the streamer reads {spelling.shown(name)[1:-1]}", "remove it"
            )


def _is_nobodys(name: str) -> bool:
    return name.startswith(PREFIX) and not name.startswith(_INTERNAL) and streamer.variable(name) is None


def _misspelt(workload: Workload, variable: Variable, near: str) -> Problem:
    message = f"the streamer does not read {spelling.shown(variable.name)[1:-1]}"
    if workload.container.environment.get(near) is not None:
        return Problem(variable.name_at, f"{message}; {near} is set beside it", "remove it")
    return Problem(variable.name_at, message, f"did you mean {near}?", _fix(workload, variable, near))


def _fix(workload: Workload, variable: Variable, near: str) -> Fix | None:
    operations = mending.rename_variable(workload.container, variable.name, near)
    # Other pods, which may not be in the input, may ask for a key of a ConfigMap by its name.
    return repairs.fix(f"rename it {near}", operations, safe=near != ENDPOINT and variable.holder is None)


RULE = Rule(
    name="streamer-variable-unknown",
    area="streaming",
    severity=Severity.WARNING,
    documentation=__doc__ or "",
    workload=_check,
)
