"""The weights lie in an object store, and are not streamed.

## What it does
Finds an engine without a Run:ai loader that is given `s3://…` or `--load-format=runai_streamer` (TensorRT-LLM,
SGLang before 0.5.10), vLLM with an object's address and a load format that cannot read one, and an init container
that copies the model from a bucket into an emptyDir for an engine that could stream it.

## Why is this bad
An engine that cannot read the address ends at once. vLLM refuses other formats with a ValueError. A copy is read
twice, over the network and from the disk, before the first byte is on the GPU, for each pod again: in AWS's
measurements streaming 64 GB took 12 s of a start of 16 s that was 82 s.

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
            - --load-format=safetensors
```
Finds `safetensors`.

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
For vLLM the load format becomes `runai_streamer`: safe where nothing is told to the other loader, since the engine
ends as it is. There is no fix for a copy, nor for an engine without a loader.

## Source
vLLM `config/vllm.py`; sglang#17948; AWS guide, "Run:ai Model Streamer performance tuning"; cases in
`docs/guide-errata.md`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from glowplug.lint import mending
from glowplug.lint.rule import Problem, Rule, Severity
from glowplug.lint.rules.streaming import repairs
from glowplug.lint.rules.streaming.weights import EXTRA, FORMAT, SHARDED, lacks_streamer, weights_of
from glowplug.plan.loaders import STREAMER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.rules.streaming.weights import Weights
    from glowplug.lint.view import Container, Workload
    from glowplug.manifests.values import Value

# vLLM's own check; tensorizer has addresses of its own.
_READ_OBJECTS: Final = frozenset((STREAMER, SHARDED, "modelexpress", "tensorizer", "auto"))
_COPY: Final = re.compile(
    r"\b(?:aws\s+(?:\S+\s+)*?s3\s+(?:sync|cp)|s5cmd\s+(?:\S+\s+)*?(?:cp|sync)|rclone\s+(?:copy|sync)|gsutil\s+(?:\S+\s+)*?(?:cp|rsync)"
    r"|gcloud\s+storage\s+(?:cp|rsync))\b"
)
_BUCKET: Final = re.compile(r"\b(?:s3|gs)://[^\s\"']+")
_OWN_LOADER: Final = ("auto", "safetensors", "hf", "fastsafetensors")


def _check(workload: Workload) -> Iterator[Problem]:
    weights = weights_of(workload)
    if weights is None or weights.scheme is None:
        return
    if lacks_streamer(weights):
        yield from _without_loader(weights)
    elif weights.scheme and workload.engine.name == "vllm" and weights.load_format not in (*_READ_OBJECTS, None):
        yield _wrong_format(weights)
    elif not weights.scheme and weights.load_format in _OWN_LOADER:
        yield from _copied(weights)


def _without_loader(weights: Weights) -> Iterator[Problem]:
    asked = weights.load_format in (STREAMER, SHARDED)
    if not asked and not weights.scheme:
        return
    loader = weights.loader
    first = loader.first_with("load_format", STREAMER)
    hint = f"{loader.engine} {first} and newer stream; else " if first else ""
    yield Problem(
        weights.at if asked else weights.model.at,
        f"{loader.name} has no Run:ai loader: it cannot stream weights from an object store",
        f"{hint}copy the model to the node's disk in an init container, as `glowplug render` does",
    )


def _wrong_format(weights: Weights) -> Problem:
    safe = weights.extra is None and weights.workload.engine.lacks(EXTRA) and not weights.newer_than_known
    return Problem(
        weights.at,
        f"vllm cannot load {weights.scheme}:// with --load-format={weights.load_format}: it ends with a ValueError",
        f"set --load-format={STREAMER}",
        repairs.fix(f"set --load-format={STREAMER}", mending.set_option(weights.workload, FORMAT, STREAMER), safe=safe),
    )


def _copied(weights: Weights) -> Iterator[Problem]:
    path = weights.model.value or ""
    mount = weights.workload.container.mount_of(path) if path.startswith("/") else None
    if mount is None or mount.kind != "emptyDir":
        return
    for container in weights.workload.init_containers:
        if all(other.name != mount.name for other in container.mounts):
            continue
        found = _copy(container)
        if found is not None:
            name = weights.workload.engine.name
            yield Problem(
                found,
                f"each pod copies the model to a disk before {name} starts, which could stream it into GPU memory",
                f"name the bucket as the model, with --load-format={STREAMER}",
            )
            return


def _copy(container: Container) -> Value | None:
    """The word or script that copies from a bucket."""
    words = [
        word
        for key in ("command", "args")
        if (list_ := container.value.get(key)) is not None
        for word in list_.elements()
    ]
    text = " ".join(word.text for word in words)
    if not _COPY.search(text):
        return None
    return next((word for word in words if _BUCKET.search(word.text)), None)


RULE = Rule(
    name="streamer-missing",
    area="streaming",
    severity=Severity.WARNING,
    documentation=__doc__ or "",
    workload=_check,
)
