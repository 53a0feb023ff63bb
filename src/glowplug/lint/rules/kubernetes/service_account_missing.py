"""A pod that reads its model from S3 has no service account, and so no rights of its own.

## What it does
Looks at engines whose model is in S3 (`s3://…`) and whose pod names no `serviceAccountName`. It says nothing where
the pod has credentials in another way: a variable with an access key or a file of credentials (from a Secret, too),
a bucket that is read without any (`RUNAI_STREAMER_S3_UNSIGNED`), an S3-compatible server, the node's network
(`hostNetwork`), or a ServiceAccount `default` among what was given that has a role.

## Why is this bad
The pod runs as the account `default` of its namespace, to which as a rule neither IRSA nor EKS Pod Identity gives a
role. Then the streamer asks the node for its role: on EKS Auto Mode no pod reaches that (IMDS hop limit 1),
elsewhere it is the node's, which every pod of the node shares. What is seen is `AccessDenied`, or a load that hangs
for minutes before it fails.

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
          image: vllm/vllm-openai:v0.21.0
          command: [vllm, serve]
          args: ["s3://models/llama"]
          resources:
            limits:
              nvidia.com/gpu: 1
```
Finds `"s3://models/llama"`.

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
      serviceAccountName: model-reader
      tolerations:
        - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.21.0
          command: [vllm, serve]
          args: ["s3://models/llama"]
          resources:
            limits:
              nvidia.com/gpu: 1
```

## Fix safety
No fix: which account may read the model is not in the manifest. `glowplug render iam` makes the role. Where the
account `default` has one, say so: `serviceAccountName: default`.

## Source
The AWS guide "Accelerate model loading on Amazon EKS" ("Service account with an IAM role that has Amazon S3 read
access"); EKS user guide, Pod Identity and IRSA; EKS Auto Mode, IMDS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.lint.rule import Problem, Rule, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Environment, Workload

_ROLE: Final = "eks.amazonaws.com/role-arn"
_CREDENTIALS: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_CONFIG_FILE",
    "AWS_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "RUNAI_STREAMER_S3_CREDENTIALS",
)
_UNSIGNED: Final = ("RUNAI_STREAMER_S3_UNSIGNED", "AWS_SKIP_SIGNATURE")
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "RUNAI_STREAMER_S3_ENDPOINT", "S3_ENDPOINT_URL")
_OFF: Final = ("", "0", "false", "no")


def _check(workload: Workload) -> Iterator[Problem]:
    model = workload.engine.model
    if model is None or not (model.value or "").lower().startswith("s3://") or _has_account(workload):
        return
    environment = workload.container.environment
    if _other_credentials(environment) or workload.spec.get("hostNetwork") is not None or _default_has_role(workload):
        return
    yield Problem(
        model.at,
        f"the model is read from S3, and the pod of {workload.object.title} names no service account: it has the rights of "
        "`default`, as a rule none",
        "set serviceAccountName to an account with a role that may read the bucket, by EKS Pod Identity or IRSA",
    )


def _has_account(workload: Workload) -> bool:
    named = workload.spec.get("serviceAccountName") or workload.spec.get("serviceAccount")
    return named is not None and bool(named.text)


def _other_credentials(environment: Environment) -> bool:
    """Whether it has them, or may have them, otherwise."""
    if not environment.whole or any(environment.get(name) is not None for name in _CREDENTIALS):
        return True
    for name in _UNSIGNED:
        found = environment.get(name)
        if found is not None and (found.value is None or found.value.lower() not in _OFF):
            return True
    for name in _ENDPOINTS:
        found = environment.get(name)
        if found is not None and (found.value is None or (found.value and ".amazonaws." not in found.value)):
            return True
    return False


def _default_has_role(workload: Workload) -> bool:
    everything = workload.everything
    account = everything.named("ServiceAccount", "default", workload.object.namespace) if everything else None
    return account is not None and account.value.get("metadata", "annotations", _ROLE) is not None


RULE = Rule(
    name="service-account-missing",
    area="kubernetes",
    severity=Severity.WARNING,
    documentation=__doc__,
    workload=_check,
)
