"""A model of a hub is named without the revision that is meant.

## What it does

Finds vLLM and SGLang with a model of Hugging Face or ModelScope (`org/name`) and without `--revision`, or with a branch such as
`main` for it. Silent for addresses of buckets and for directories, and where the hub is offline (`HF_HUB_OFFLINE`).

## Why is this bad

The repository's owner can change weights, `config.json` and code at any time. A new pod then serves another model than its
neighbours. The compile key has the name and the revision, not what is in the files: artifacts of the old configuration are
offered to the new one.

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
          image: vllm/vllm-openai:v0.33.0
          args: [--model=Qwen/Qwen3-8B]
          resources:
            limits: {nvidia.com/gpu: "1"}
```

Finds `Qwen/Qwen3-8B`.

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
          args: [--model=Qwen/Qwen3-8B, --revision=b968826d9c46dd6066d109eabc6255188de91218]
          resources:
            limits: {nvidia.com/gpu: "1"}
```

## Fix safety

No fix: which revision is meant is not written anywhere. The model's page on the hub lists its commits.

## Source

vllm config/model.py compute_hash; Hugging Face documentation, "Download files from the Hub" (revision); docs/cache-key.md.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from glowplug.engines.vllm.command import on
from glowplug.lint.rule import Problem, Rule, Severity
from glowplug.lint.rules.compile.keeping import SGLANG, VLLM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Workload
    from glowplug.manifests.source import Place
    from glowplug.manifests.values import Value

_OF_A_HUB: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}(?::[\w.-]+)?", re.ASCII)
_FILES: Final = (".gguf", ".safetensors", ".bin", ".pt", ".json")
_BRANCHES: Final = frozenset({"main", "master", "head", "dev", "latest"})
_OFFLINE: Final = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def _check(workload: Workload) -> Iterator[Problem]:
    engine = workload.engine
    model = engine.model
    if (
        engine.name not in (VLLM, SGLANG)
        or model is None
        or model.value is None
        or not _of_a_hub(workload, model.value)
    ):
        return
    revision = engine.option("revision")
    at: Value | Place = model.at
    if revision is not None:
        if revision.value is None or revision.value.lower() not in _BRANCHES:
            return
        at, message = revision.at, f"`{revision.value}` of `{model.value}` is a branch, and moves"
    elif engine.lacks("revision", "config"):
        message = f"`{model.value}` is whatever its repository holds at that moment"
    else:
        return
    yield Problem(at, f"{message}: replicas and cached artifacts can be of different ones", "add --revision=COMMIT")


def _of_a_hub(workload: Workload, model: str) -> bool:
    """Whether an engine would fetch it from a hub, rather than find it in a directory."""
    if not _OF_A_HUB.fullmatch(model) or model.lower().endswith(_FILES):
        return False
    environment = workload.container.environment
    if any(on({name: environment.value(name) or ""}, name) for name in _OFFLINE):
        return False
    return workload.container.value.get("workingDir") is None


RULE = Rule(
    name="model-unpinned", area="compile", severity=Severity.WARNING, documentation=__doc__ or "", workload=_check
)
