"""The engine's image has a tag that moves.

## What it does

Finds an engine's image without a tag, with `latest`, `nightly`, `main` and the like, variants (`latest-cu129`) included. Silent
for a version, for a tag with a date or a commit, and for a digest.

## Why is this bad

Version, torch and Triton are part of every compile key. When the tag moves, the next node pulls another engine than its
neighbours have: it compiles anew, finds nothing in the store, and replicas of one Deployment serve with different code. Nobody
can tell afterwards which version a start was.

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
      tolerations:
        - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      containers:
        - name: vllm
          image: vllm/vllm-openai:latest
          args: [--model=/models/llama]
          resources:
            limits: {nvidia.com/gpu: "1"}
```

Finds `vllm/vllm-openai:latest`.

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
      tolerations:
        - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.33.0
          args: [--model=/models/llama]
          resources:
            limits: {nvidia.com/gpu: "1"}
```

## Fix safety

No fix: which version is meant is not written anywhere. `kubectl get pod POD -o jsonpath='{..imageID}'` prints the digest that
runs.

## Source

Kubernetes documentation, Images; docs/cache-key.md.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from glowplug.core import redact
from glowplug.lint.rule import Problem, Rule, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Workload

_MOVES: Final = re.compile(
    r"(?:latest|nightly|main|master|dev|devel|develop|edge|stable|head|rolling|canary|release|prod|production|staging)"
    r"(?:[-_.](?:latest|nightly|dev|cu\d+|cuda[\d.]*|rocm[\d.]*|aarch64|arm64|x86_64|amd64|gpu|cpu|slim|runtime|py\d+|ubuntu[\d.]*))*",
    re.IGNORECASE,
)
_TEMPLATE: Final = ("{{", "$(", "${")


def _check(workload: Workload) -> Iterator[Problem]:
    image = workload.container.image
    text = image.text.strip() if image is not None else ""
    if image is None or not text or "@" in text or any(sign in text for sign in _TEMPLATE):
        return
    repository, colon, tag = text.rpartition(":")
    tagged = bool(colon) and "/" not in tag
    if tagged and not _MOVES.fullmatch(tag):
        return
    what = f"has the tag `{tag}`, which moves" if tagged else "has no tag, which means `latest`"
    shown = redact.value("", repository if tagged else text)
    yield Problem(
        image,
        f"the image `{shown}` {what}: with another engine in it, nothing that was compiled fits",
        "name a version, or a digest",
    )


RULE = Rule(
    name="image-unpinned", area="compile", severity=Severity.WARNING, documentation=__doc__ or "", workload=_check
)
