"""The address of the model begins with an upper-case scheme.

## What it does
Finds `S3://`, `GS://` and the like as model or tokenizer of an engine that streams.

## Why is this bad
vLLM takes the address for one of an object store whatever its case; the streamer compares letter for letter. It
lists no file, and copies none (NotImplementedError): the engine ends.

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
            - --model=S3://models/llama-70b
            - --load-format=runai_streamer
            - '--model-loader-extra-config={"concurrency":18}'
          env:
            - name: RUNAI_STREAMER_CHUNK_BYTESIZE
              value: "4294967296"
```
Finds `S3`.

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
Safe: the scheme is written in lower case. The pod does not start as it is.

## Source
vLLM `transformers_utils/runai_utils.py`; measured with runai-model-streamer 0.17.1 (`list_safetensors` gives
nothing).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.lint import places
from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.lint.rules.streaming.weights import lacks_streamer, weights_of
from glowplug.manifests.edit import Splice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Option, Workload
    from glowplug.manifests.source import Place
    from glowplug.manifests.values import Value

_SCHEMES: Final = ("s3", "gs", "az")
_ENGINES: Final = ("vllm", "sglang")


def _check(workload: Workload) -> Iterator[Problem]:
    weights = weights_of(workload)
    if weights is None or workload.engine.name not in _ENGINES or lacks_streamer(weights):
        return
    tokenizer = workload.engine.option("tokenizer", "tokenizer-path")
    for option in (weights.model, *((tokenizer,) if tokenizer is not None else ())):
        scheme, mark, _ = (option.value or "").partition("://")
        if not mark or scheme == scheme.lower() or scheme.lower() not in _SCHEMES:
            continue
        at, fix = _place(workload, option, scheme)
        yield Problem(
            at,
            f"the streamer does not know {scheme}://, which is not {scheme.lower()}:// to it",
            f"write {scheme.lower()}://",
            fix,
        )


def _place(workload: Workload, option: Option, scheme: str) -> tuple[Value | Place, Fix | None]:
    """Where the scheme stands, and a fix where it can be changed alone."""
    words = workload.engine.words
    place = option.first + option.count - 1
    if option.first < 0 or place >= len(words) or option.value is None:
        return option.at, None
    word = words[place]
    begin = len(word.text) - len(option.value)
    if not word.text.endswith(option.value):
        return option.at, None
    at = places.of_word(word, begin, begin + len(scheme))
    found = places.range_of(word.written, begin, begin + len(scheme))
    if found is None or word.shared or word.elsewhere or found.origin.text[found.start : found.end] != scheme:
        return at, None
    lower = scheme.lower()
    return at, Fix(f"write {lower}://", (Splice(found.origin, found.start, found.end, lower),))


RULE = Rule(
    name="scheme-case",
    area="streaming",
    severity=Severity.ERROR,
    documentation=__doc__ or "",
    workload=_check,
)
