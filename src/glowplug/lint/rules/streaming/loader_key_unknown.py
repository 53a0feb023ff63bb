"""A key of `--model-loader-extra-config` that this loader does not know.

## What it does
Compares the keys with those that the Run:ai loaders know, by load format and by the version in the image's tag, and
finds the streamer's keys where another loader gets them. For versions that are not known, or newer than any that
was read, only what is a misspelling is found.

## Why is this bad
vLLM to 0.23.0 ignores such a key without a word, so that the setting does nothing; from 0.24.0 on it ends with
`ValueError: Unexpected extra config keys`. `runai_streamer_sharded` has always refused all but `pattern`, whatever
the documentation says, and the loader of other formats refuses the streamer's keys.

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
            - '--model-loader-extra-config={"concurency":18}'
          env:
            - name: RUNAI_STREAMER_CHUNK_BYTESIZE
              value: "4294967296"
```
Finds `"concurency"`.

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
Renaming a misspelt key is safe: it is what was meant, or the engine ends with it. Unsafe is it for `distributed` in
a version that can load corrupt weights with it. Keys that are like none stay.

## Source
vLLM `runai_streamer_loader.py` of 0.21.0, 0.24.0 and 0.32.0, `sharded_state_loader.py`, `default_loader.py`;
vllm#30100; sglang#17948.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.catalog import spelling
from glowplug.lint import mending
from glowplug.lint.rule import Problem, Rule, Severity
from glowplug.lint.rules.streaming import repairs, typos
from glowplug.lint.rules.streaming.weights import SHARDED, lacks_streamer, weights_of
from glowplug.plan.loaders import STREAMER, all_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.rule import Fix
    from glowplug.lint.rules.streaming.weights import Weights
    from glowplug.lint.view import JsonPart, Workload

# Formats of vLLM's DefaultModelLoader, which refuses every key but its own.
_DEFAULT_FORMATS: Final = frozenset(("auto", "hf", "safetensors", "pt", "npcache", "mistral", "fastsafetensors"))


def _check(workload: Workload) -> Iterator[Problem]:
    weights = weights_of(workload)
    if weights is None or weights.load_format is None or weights.extra is None or lacks_streamer(weights):
        return
    if workload.engine.name == "vllm" and weights.load_format in _DEFAULT_FORMATS and weights.scheme == "":
        yield from _of_another_loader(weights)
        return
    known = [one.name for one in all_keys(workload.engine.name, weights.load_format)]
    if not known:
        return
    certain = not weights.newer_than_known
    here = typos.known_keys(weights)
    for key, part in weights.extra.parts.items():
        if key in here:
            continue
        near = typos.key_meant(weights, key, here)
        if certain or near:
            yield _problem(weights, key, part, near, here)


def _problem(weights: Weights, key: str, part: JsonPart, near: str, here: list[str]) -> Problem:
    shown = spelling.shown(key).replace("'", "`")
    who = weights.loader.name if weights.version else weights.workload.engine.name
    message = f"{shown} is no key of {who}'s loader for {weights.load_format}{_outcome(weights)}"
    first = next(
        (one.first for one in all_keys(weights.workload.engine.name, weights.load_format or "") if one.name == key), ""
    )
    if first:
        return Problem(part.key_at, message, f"{weights.workload.engine.name} knows it from {first} on")
    names = ", ".join(f"`{one}`" for one in here)
    hint = f"did you mean `{near}`?" if near else f"it knows {names}; remove this one"
    return Problem(part.key_at, message, hint, _fix(weights, key, near))


def _outcome(weights: Weights) -> str:
    if weights.load_format == SHARDED:
        return ": the engine ends with a ValueError"
    if weights.load_format != STREAMER or not weights.version:
        return ""
    outcome = weights.loader.behaviour("unknown_keys").value
    return {"refused": ": the engine ends with a ValueError", "ignored": " and is ignored without a word"}.get(
        outcome, ""
    )


def _fix(weights: Weights, key: str, near: str) -> Fix | None:
    if not near or weights.part(near) is not None:
        return None
    unsafe = near == "distributed" and weights.loader.behaviour("distributed_safe").value != "yes"
    return repairs.fix(f"rename it `{near}`", mending.rename_extra(weights.workload, key, near), safe=not unsafe)


def _of_another_loader(weights: Weights) -> Iterator[Problem]:
    if weights.extra is None:
        return
    streamers = {one.name for one in all_keys(weights.workload.engine.name, STREAMER)}
    for key, part in weights.extra.parts.items():
        if key in streamers:
            yield Problem(
                part.key_at,
                f"`{key}` is for the streamer; the loader for {weights.load_format} refuses it: the engine ends with a ValueError",
                f"set --load-format={STREAMER}, or remove the key",
            )


RULE = Rule(
    name="loader-key-unknown",
    area="streaming",
    severity=Severity.ERROR,
    documentation=__doc__ or "",
    workload=_check,
)
