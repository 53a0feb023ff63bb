"""A variable has a value with which the streamer does not load.

## What it does
Compares values with what the streamer takes: whole numbers without a unit, without a blank behind and without a
sign, `0` or `1` for switches, bounds, and one of a list of words; and finds a `RUNAI_STREAMER_MEMORY_LIMIT` below
1 MiB, which is in bytes and has to hold the model's largest tensor. Only variables are looked at whose wrong values
were seen to fail (or to be taken for another value), and that the streamer of the image's version knows.

## Why is this bad
`RUNAI_STREAMER_CHUNK_BYTESIZE=4GiB` ends the start with `Invalid request parameters`,
`RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING=false` with `Unknown Error`: the streamer reads switches as numbers.
Neither message names the variable.

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
              value: 4GiB
```
Finds `4GiB`.

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
Safe: sizes with a unit become bytes (`4GiB` is 4294967296, `4GB` 4000000000), `true` and `false` become `1` and
`0`, blanks go. The pod does not load as it is. Other values stay.

## Source
Measured with runai-model-streamer 0.17.1; `cpp/utils/env/env.cc`; `py file_streamer/requests_iterator.py`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from glowplug.catalog import streamer
from glowplug.catalog.releases import version_key
from glowplug.core.errors import GlowplugError
from glowplug.core.units import parse_size
from glowplug.lint import mending
from glowplug.lint.rule import Problem, Rule, Severity
from glowplug.lint.rules.streaming import repairs
from glowplug.lint.rules.streaming.weights import MEMORY_LIMIT, stream_of, whole_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.catalog import streamer as catalogue
    from glowplug.lint.rule import Fix
    from glowplug.lint.rules.streaming.weights import Stream
    from glowplug.lint.view import Variable, Workload

_CHECKED: Final = tuple(one for one in streamer.variables() if one.refuses)
_OF_S3: Final = "RUNAI_STREAMER_S3_"
_OF_DISTRIBUTED: Final = ("RUNAI_STREAMER_DIST", "RUNAI_STREAMER_PARTITION_", "RUNAI_STREAMER_CUDA_")
# Before any release of vLLM or SGLang that the catalogue has.
_ALWAYS: Final = "0.13.3"
_SIZE: Final = re.compile(r"\d+(?:\.\d+)?\s*[KMGTkmgt]i?[Bb]?")
_WORDS: Final = {"true": "1", "yes": "1", "on": "1", "false": "0", "no": "0", "off": "0"}
_SHOWN: Final = 40


def _check(workload: Workload) -> Iterator[Problem]:
    stream = stream_of(workload)
    if stream is None:
        return
    for one in _CHECKED:
        variable = stream.environment.get(one.name)
        if variable is None or variable.value is None or not _read_here(one, stream):
            continue
        wrong = _wrong(one, variable.value)
        if not wrong and one.name == MEMORY_LIMIT and stream.is_too_small(whole_number(variable.value) or 0):
            wrong = "the bytes of the model's largest tensor or more"
        if wrong:
            message = f"{one.name} must be {wrong}, not `{variable.value[:_SHOWN]}`: the load fails"
            yield Problem(variable.at, message, _hint(one), _fix(workload, one, variable))


def _read_here(one: catalogue.Variable, stream: Stream) -> bool:
    """Whether the streamer of this pod looks at the variable at all."""
    if one.name.startswith(_OF_S3) and stream.scheme != "s3":
        return False
    if one.name.startswith(_OF_DISTRIBUTED) and not (stream.distributed and (stream.tensor_parallel or 1) > 1):
        return False
    if stream.streamer is not None:
        return one.known_to(stream.streamer.version)
    return not one.since or version_key(one.since) <= version_key(_ALWAYS)


def _wrong(one: catalogue.Variable, value: str) -> str:
    """What it must be instead, "" where it is."""
    if "values" in one.refuses:
        return "" if value in one.values else " or ".join(one.values)
    number = whole_number(value)
    what = "0 or 1" if one.type == "boolean" else "a whole number"
    if number is None:
        return what
    if "range" in one.refuses:
        # Above their maximum clients are capped with a warning; an alignment is not.
        above = one.maximum is not None and "capped" not in one.clamping and "as RUNAI" not in one.clamping
        if one.minimum is not None and number < one.minimum:
            return f"{one.minimum:.0f} or more"
        if above and one.maximum is not None and number > one.maximum:
            return f"{one.maximum:.0f} or less"
    elif number < 0:
        return what
    return ""


def _hint(one: catalogue.Variable) -> str:
    unit = f" ({one.unit})" if one.unit and one.type == "integer" else ""
    return f"write a plain number{unit}" if one.type == "integer" else ""


def _fix(workload: Workload, one: catalogue.Variable, variable: Variable) -> Fix | None:
    meant = _meant(one, str(variable.value or "").strip())
    if meant is None or _wrong(one, meant):
        return None
    return repairs.fix(f"write {meant}", mending.set_variable(workload.container, one.name, meant))


def _meant(one: catalogue.Variable, value: str) -> str | None:
    if whole_number(value) is not None:
        return value
    if one.type == "boolean":
        return _WORDS.get(value.lower())
    if one.unit != "bytes" or not _SIZE.fullmatch(value):
        return None
    try:
        return str(parse_size(value if value[-1] in "bB" else value + "B"))
    except GlowplugError:
        return None


RULE = Rule(
    name="streamer-variable-type",
    area="streaming",
    severity=Severity.ERROR,
    documentation=__doc__ or "",
    workload=_check,
)
