"""Nothing tells the streamer the bucket's region.

## What it does
Finds a pod that streams from AWS's S3 where neither `AWS_REGION` nor `AWS_DEFAULT_REGION` is set and nothing else
can bring a region: no profile, no instance metadata (`AWS_EC2_METADATA_DISABLED`, EKS Auto Mode, or node classes with
a hop limit of 1), and credentials of its own in the pod, so that no webhook of IRSA or EKS Pod Identity has to bring
them. It also finds an empty `AWS_DEFAULT_REGION`, and says nothing where the manifest names us-east-1.

Pods that get their role from IRSA or Pod Identity get `AWS_REGION` with it. Whether a service account has such a role
is not in the manifest, so a pod without visible credentials is taken for one of those.

## Why is this bad
The SDK takes the region from `AWS_DEFAULT_REGION`, `AWS_REGION`, the profile, the instance metadata, then
us-east-1. S3 answers 301 for a bucket elsewhere; the streamer does not follow, and the engine ends with `File
access error`, without a status, after the model's configuration was read without fault. An empty
`AWS_DEFAULT_REGION` ends with `Invalid endpoint: https://s3..amazonaws.com`.

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
            - name: AWS_EC2_METADATA_DISABLED
              value: "true"
            - name: AWS_ACCESS_KEY_ID
              value: AKIDEXAMPLE
```
Finds `s3://models/llama-70b`.

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
            - name: AWS_EC2_METADATA_DISABLED
              value: "true"
            - name: AWS_ACCESS_KEY_ID
              value: AKIDEXAMPLE
            - name: AWS_REGION
              value: us-west-2
```

## Fix safety
No fix: which region the bucket is in, the manifest does not say. `aws s3api get-bucket-location --bucket NAME`
prints it.

## Source
aws-sdk-cpp `ClientConfiguration.cpp`; amazon-eks-pod-identity-webhook `pkg/handler/handler.go`; model-streamer
issue 28, vllm#12311; EKS Auto Mode, hop limit.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from glowplug.lint.rule import Problem, Rule, Severity
from glowplug.lint.rules.streaming.weights import stream_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.rules.streaming.weights import Stream
    from glowplug.lint.view import Node, Workload

_FIRST: Final = "AWS_DEFAULT_REGION"
_REGIONS: Final = (_FIRST, "AWS_REGION")
_PROFILES: Final = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")
_NO_METADATA: Final = "AWS_EC2_METADATA_DISABLED"
_KEY: Final = "AWS_ACCESS_KEY_ID"
_DEFAULT: Final = "us-east-1"
_REGISTRY: Final = re.compile(r"\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.")
_LABELS: Final = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone", "topology.k8s.aws/zone-id")
_HINT: Final = "set AWS_REGION to the bucket's region"


def _check(workload: Workload) -> Iterator[Problem]:
    stream = stream_of(workload)
    if stream is None or stream.on_aws is not True:
        return
    given = [found for name in _REGIONS if (found := stream.environment.get(name)) is not None]
    for one in given:
        if one.name == _FIRST and one.value == "":
            yield Problem(one.at, f"{_FIRST} is empty: S3 is asked at https://s3..amazonaws.com", _HINT)
            return
    if any(one.value != "" for one in given) or not _certainly_none(workload, stream):
        return
    at = given[0].at if given else stream.model.at
    yield Problem(at, f"no region is set, and nothing else brings one: the streamer asks S3 in {_DEFAULT}", _HINT)


def _certainly_none(workload: Workload, stream: Stream) -> bool:
    environment = stream.environment
    if not environment.whole or any(environment.get(name) is not None for name in _PROFILES):
        return False
    if any(mount.path.rstrip("/").endswith("/.aws") for mount in workload.container.mounts):
        return False
    return environment.get(_KEY) is not None and _no_metadata(workload, stream) and not _in_default(workload)


def _no_metadata(workload: Workload, stream: Stream) -> bool:
    """Whether the pod certainly cannot ask the instance for its region."""
    if (stream.environment.value(_NO_METADATA) or "").strip().lower() == "true":
        return True
    network = workload.spec.get("hostNetwork")
    if network is not None and network.data is not False:
        return False
    if workload.compute == "auto-mode":
        return True
    return bool(workload.nodes) and all(_one_hop(node) for node in workload.nodes)


def _one_hop(node: Node) -> bool:
    """Karpenter's default is one hop: to the node, and no further to its pods."""
    if node.auto_mode:
        return True
    if node.node_class is None or node.node_class.kind != "EC2NodeClass":
        return False
    hops = node.node_class.value.get("spec", "metadataOptions", "httpPutResponseHopLimit")
    return hops is not None and hops.data == 1


def _in_default(workload: Workload) -> bool:
    """Whether something says that all of this is in the region that is asked by default."""
    image = workload.container.image
    registry = _REGISTRY.search(image.text) if image is not None else None
    if registry is not None and registry[1] == _DEFAULT:
        return True
    labels = (workload.spec.get("nodeSelector", label) for label in _LABELS)
    return any(label is not None and label.text.startswith((_DEFAULT, "use1-")) for label in labels)


RULE = Rule(
    name="region-missing",
    area="streaming",
    severity=Severity.ERROR,
    documentation=__doc__ or "",
    workload=_check,
)
