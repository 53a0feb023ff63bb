"""An S3-compatible server is asked under bucket.host.

## What it does
Finds an `AWS_ENDPOINT_URL` that is not AWS's where `RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING` is not `0`, and one
that is turned on for an address, a single word or a Service of the cluster. Providers that answer only under
bucket.host are left alone.

## Why is this bad
The streamer puts the bucket in front of the host by default: `models.minio.storage.svc`. MinIO, SeaweedFS, Ceph and
Services of a cluster have no such name, unless somebody made a wildcard record: the load ends with `File access
error`, while boto3, which lists the model, finds out by itself.

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
              value: "4294967296"
            - name: AWS_ENDPOINT_URL
              value: http://minio.storage.svc:9000
```
Finds `http://minio.storage.svc:9000`.

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
            - name: AWS_ENDPOINT_URL
              value: http://minio.storage.svc:9000
            - name: RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING
              value: "0"
```

## Fix safety
The variable is set to `0`. Safe for addresses, single words and Services of a cluster, where bucket.host is no
name; unsafe for public hosts, of which some may want it so.

## Source
model-streamer issue 120 and `docs/src/env-vars.md`; vLLM documentation, Run:ai Model Streamer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from glowplug.catalog import endpoints
from glowplug.core import redact
from glowplug.lint import mending
from glowplug.lint.rule import Problem, Rule, Severity
from glowplug.lint.rules.streaming import repairs
from glowplug.lint.rules.streaming.weights import ENDPOINT, stream_of, whole_number
from glowplug.plan.auto import PATH_STYLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Workload

_SHOWN: Final = 100


def _check(workload: Workload) -> Iterator[Problem]:
    stream = stream_of(workload)
    if stream is None or stream.scheme != "s3" or stream.on_aws is not False or stream.endpoint is None:
        return
    address = stream.endpoint.value or ""
    host = _host(address)
    if not host or endpoints.only_virtual(host):
        return
    inside = endpoints.never_virtual(host)
    style = stream.environment.get(PATH_STYLE)
    if style is None and not stream.environment.whole:
        return
    # Somebody who turns it on for a public host knows the host; elsewhere it cannot work.
    if style is not None and (not whole_number(style.value) or not inside):
        return
    shown = redact.value(ENDPOINT, address)[:_SHOWN]
    yield Problem(
        stream.endpoint.at if style is None else style.at,
        f"the bucket is put in front of the host of {shown}, which S3-compatible servers seldom answer to",
        f"set {PATH_STYLE}=0",
        repairs.fix(f"set {PATH_STYLE}=0", mending.set_variable(workload.container, PATH_STYLE, "0"), safe=inside),
    )


def _host(address: str) -> str:
    try:
        return urlsplit(address if "://" in address else f"//{address}").hostname or ""
    except ValueError:
        return ""


RULE = Rule(
    name="endpoint-virtual-hosted",
    area="streaming",
    severity=Severity.WARNING,
    documentation=__doc__ or "",
    workload=_check,
)
