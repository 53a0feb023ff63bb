r"""The limit of open files is below what the clients need.

## What it does
Multiplies the concurrency by the 64 open files that a client needs, for each process, and compares that with a
`ulimit -n` in the container's command, and with the most that a container can have (1,048,576).

## Why is this bad
The streamer raises the soft limit by itself, up to the hard one, which `ulimit -n` lowers too. *Measured*: a hard
limit of 1024 fails a load with 32 clients (`Increase process fd limit or decrease the concurrency level`), minutes
after the pod has started.

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
          command:
            - sh
            - -c
          args:
            - |
              ulimit -n 1024
              exec vllm serve s3://models/llama-70b --load-format=runai_streamer \
                --model-loader-extra-config.concurrency=32
          env:
            - name: RUNAI_STREAMER_CHUNK_BYTESIZE
              value: "4294967296"
```
Finds `1024`.

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
          command:
            - sh
            - -c
          args:
            - |
              ulimit -n 65536
              exec vllm serve s3://models/llama-70b --load-format=runai_streamer \
                --model-loader-extra-config.concurrency=32
          env:
            - name: RUNAI_STREAMER_CHUNK_BYTESIZE
              value: "4294967296"
```

## Fix safety
Unsafe: the number is raised to what is needed, at least 65536. A container whose own hard limit is lower refuses
that.

## Source
Measured with runai-model-streamer 0.17.1; Linux `fs.nr_open`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from glowplug.catalog.limits import fact
from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.lint.rules.streaming.weights import stream_of
from glowplug.manifests.edit import Splice
from glowplug.manifests.source import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Container, Workload
    from glowplug.manifests.values import Value

# With -S alone the hard limit stays, up to which the streamer raises it again.
_ULIMIT: Final = re.compile(r"\bulimit\s+(?:-H\s+)?-(?:H|SH|HS)?n\s+(\d{1,9})\b")
_ENOUGH: Final = 65536


def _check(workload: Workload) -> Iterator[Problem]:
    stream = stream_of(workload)
    if stream is None or not stream.remote or stream.concurrency is None:
        return
    clients = stream.concurrency.number
    needed = clients * int(fact("streamer.descriptors_per_client").value)
    message = f"concurrency {clients} needs about {needed:,} open files in each process"
    found = _limit(workload.container)
    if found is not None:
        value, start, end, limit = found
        if limit < needed:
            more = str(max(_ENOUGH, 1 << (needed - 1).bit_length()))
            yield Problem(
                Place(value.source, value.part(start, end)),
                f"{message}; `ulimit -n {limit}` allows {limit:,}",
                "raise it, or lower the concurrency",
                Fix(f"raise it to {more}", (Splice(value, start, end, more),), safe=False),
            )
        return
    most = int(fact("node.open_files_max").value)
    # From 0.17.0 on the streamer itself allows 1024 clients at most.
    bounded = stream.streamer is None or stream.streamer.rings
    if needed > most and stream.concurrency.at is not None and not bounded:
        yield Problem(stream.concurrency.at, f"{message}; a container can have {most:,}", "lower the concurrency")


def _limit(container: Container) -> tuple[Value, int, int, int] | None:
    """The last limit that a script of the container sets, with where its number stands."""
    found = None
    for key in ("command", "args"):
        words = container.value.get(key)
        for word in words.elements() if words is not None else ():
            for match in _ULIMIT.finditer(word.text) if "ulimit" in word.text else ():
                found = (word, match.start(1), match.end(1), int(match[1]))
    return found


RULE = Rule(
    name="file-descriptor-bound",
    area="streaming",
    severity=Severity.WARNING,
    documentation=__doc__ or "",
    workload=_check,
)
