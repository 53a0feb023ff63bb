"""A value of `--model-loader-extra-config` has the wrong type, or is out of bounds.

## What it does
Looks at the keys that the Run:ai loader knows: `distributed` is `true` or `false`, `concurrency` a whole number
from 1 on, `memory_limit` one from -1 on, `pattern` a string. It also finds a config that is no JSON object, and a
`memory_limit` below 1 MiB: it is in bytes, `5` is five of them, and the load fails with a limit that the model's
largest tensor does not fit into.

## Why is this bad
vLLM to 0.23.0 ignores a value of the wrong type without a word: `"17"` in quotes leaves the default of 8 clients.
`"concurrency": true` counts as a number in Python and reaches the streamer as the text `True`, which ends the start
with `Invalid request parameters`; so does 0. From 0.24.0 on each of them is a ValueError.

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
            - '--model-loader-extra-config={"concurrency":"18"}'
          env:
            - name: RUNAI_STREAMER_CHUNK_BYTESIZE
              value: "4294967296"
```
Finds `"18"`.

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
Quotes around a number or a boolean are removed; `1` and `0` for `distributed` become `true` and `false`. That is
safe: it is what was meant. It is unsafe where `distributed` becomes true in a version that can load corrupt weights
with it.

## Source
vLLM `runai_streamer_loader.py` of 0.21.0 and 0.32.0; measured with runai-model-streamer 0.17.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from glowplug.lint import mending
from glowplug.lint.rule import Problem, Rule, Severity
from glowplug.lint.rules.streaming import repairs
from glowplug.lint.rules.streaming.weights import stream_of, whole_number
from glowplug.plan.loaders import all_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.rule import Fix
    from glowplug.lint.rules.streaming.weights import Stream
    from glowplug.lint.view import JsonPart, Workload
    from glowplug.plan.loaders import Key

_WORDS = {"boolean": "`true` or `false`", "integer": "a whole number", "text": "a string"}
_SHOWN = 40


def _check(workload: Workload) -> Iterator[Problem]:
    stream = stream_of(workload)
    extra = stream.extra if stream is not None else None
    if stream is None or extra is None or stream.load_format is None:
        return
    if extra.error:
        yield Problem(
            extra.option.at,
            f"--model-loader-extra-config is no JSON object: {extra.error}",
            'write it as {"concurrency": 16}',
        )
        return
    for key in all_keys(workload.engine.name, stream.load_format):
        part = extra.parts.get(key.name)
        problem = _problem(stream, key, part) if part is not None else None
        if problem is not None:
            yield problem


def _problem(stream: Stream, key: Key, part: JsonPart) -> Problem | None:
    refused = bool(stream.version) and stream.loader.behaviour("unknown_keys").value == "refused"
    if _fits(key, part.data):
        if key.name == "memory_limit" and stream.is_too_small(part.data):
            message = (
                f"`memory_limit` is {_shown(part.data)} bytes, less than the model's largest tensor: the load fails"
            )
            return Problem(part.at, message, "write bytes, 40000000000 for 40 GB; -1 is no limit")
        if key.minimum is None or part.data >= key.minimum:
            return None
        if key.name != "concurrency" and not refused:
            return None
        message = f"`{key.name}` is {_shown(part.data)}, and must be {key.minimum} or more: the load fails"
        return Problem(part.at, message, f"write a whole number from {key.minimum} on")
    message = f"`{key.name}` must be {_WORDS[key.type]}, not {_shown(part.data)}"
    if refused or (key.type == "integer" and isinstance(part.data, bool)):
        message += ": the load fails"
    elif stream.version and stream.loader.behaviour("unknown_keys").value == "ignored":
        message += f": {stream.loader.name} ignores it without a word"
    return Problem(part.at, message, f"write {_WORDS[key.type]} without quotes", _fix(stream, key, part.data))


def _fits(key: Key, data: Any) -> bool:
    if key.type == "boolean":
        return isinstance(data, bool)
    if key.type == "integer":
        return isinstance(data, int) and not isinstance(data, bool)
    return isinstance(data, str)


def _shown(data: Any) -> str:
    text = {True: "true", False: "false", None: "null"}.get(data) if data is None or isinstance(data, bool) else None
    if isinstance(data, str):
        text = f'"{data[:_SHOWN]}"'
    return f"`{(text or str(data))[: _SHOWN + 2]}`"


def _fix(stream: Stream, key: Key, data: Any) -> Fix | None:
    meant = _meant(key, data)
    if meant is None or (key.minimum is not None and meant < key.minimum):
        return None
    unsafe = meant is True and stream.loader.behaviour("distributed_safe").value != "yes"
    operations = mending.set_extra(stream.workload, key.name, meant)
    return repairs.fix(f"write {_shown(meant)}", operations, safe=not unsafe)


def _meant(key: Key, data: Any) -> Any:
    """The value that was plainly meant, None where that is not plain."""
    if key.type == "integer":
        if isinstance(data, float) and data.is_integer():
            return int(data)
        return whole_number(data.strip()) if isinstance(data, str) else None
    if key.type == "boolean":
        text = data.strip().lower() if isinstance(data, str) else str(data) if data in (0, 1) else ""
        return {"true": True, "1": True, "false": False, "0": False}.get(text)
    return None


RULE = Rule(
    name="loader-key-type",
    area="streaming",
    severity=Severity.ERROR,
    documentation=__doc__ or "",
    workload=_check,
)
