"""The startup probe gives up before a cold start can be over.

## What it does
Adds up what the startup probe allows until its last failure, `initialDelaySeconds + periodSeconds ×
(failureThreshold − 1)`: kubelet asks first somewhere in the period after the delay, and then every period. That is
compared with one and a half times the cold start that `glowplug plan` estimates: the weights at half the speed of the
slowest path planned for, 80 s of compiling, 60 s for everything else.

What is not known makes the estimate smaller. Without a size (`--size 67GB`, or the annotation
`glowplug.dev/weights: 67GB`) the weights count for nothing, and 210 s are asked for: 140 s for compiling and the
engine's own start, and half of that again. Where it is not certain that anything is compiled (`--enforce-eager`, vLLM
before 0.11, an image whose tag names no version) it is 90 s; `vllm/vllm-openai` without a tag, as `latest` or as
`nightly` counts as the newest, which compiles. Without a machine it is the fastest that has so many GPUs. A warm start
is shorter, but nothing makes sure of one: the first pod of a new node, of a new version and after a lost cache starts
cold.

It looks at probes that the engine itself answers (HTTP or TCP on its port), on pods that ask for a GPU.

## Why is this bad
kubelet ends the container when the probe gives up, and the next start begins as cold as this one: the pod never
gets ready, and it looks like a broken model. It shows only on new nodes, that is, when one scales up.

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
          startupProbe:
            httpGet: {path: /health, port: 8000}
            periodSeconds: 10
            failureThreshold: 12
```
Finds `12`.

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
          startupProbe:
            httpGet: {path: /health, port: 8000}
            periodSeconds: 10
            failureThreshold: 63
```

## Fix safety
`failureThreshold` is raised to what `glowplug render` would allow: one and a half times the cold start, and never less
than the AWS guide's probe, whose 30 s and 60 × 10 s end a start after 620 s at the earliest. So the number is larger
than what the finding asks for. Safe: a longer probe ends no pod that a shorter one keeps, it only brings the news of a
broken one later.

## Source
The AWS guide "Accelerate model loading on Amazon EKS" (startup probe of 30 s and 60 × 10 s; compiling 53 to 80 s without a
cache); glowplug's limits `guide.compile_seconds_max` and `plan.init_seconds`; Kubernetes, Configure Liveness,
Readiness and Startup Probes; kubelet's `pkg/kubelet/prober/worker.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.lint.rules.kubernetes import cold, parallel
from glowplug.manifests.edit import Put
from glowplug.render import budget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Workload


def _check(workload: Workload) -> Iterator[Problem]:
    probe = workload.container.value.get("startupProbe")
    if probe is None or not probe.is_mapping or not parallel.asked(workload.container):
        return
    allowed = cold.allowed(probe)
    if allowed is None or not cold.asks_engine(workload, probe):
        return
    estimate = cold.estimate(workload)
    if allowed.seconds >= cold.MARGIN * estimate.seconds:
        return
    tries = budget.failures(estimate.startup, allowed.period, allowed.delay)
    then = budget.earliest_end(allowed.delay, allowed.period, tries)
    yield Problem(
        probe.get("failureThreshold") or workload.container.value.key("startupProbe") or probe,
        f"the startup probe may end the start after {allowed.seconds} s ({allowed.written}); a cold start takes about "
        f"{estimate.seconds:.0f} s ({estimate.words}) and is to have half of that again, {cold.MARGIN * estimate.seconds:.0f} s",
        f"set failureThreshold: {tries}, for the {then} s that `glowplug render` would allow",
        Fix(
            f"set failureThreshold to {tries}",
            (Put(probe, "failureThreshold", tries, after="periodSeconds"),),
        ),
    )


RULE = Rule(
    name="startup-probe-too-short",
    area="kubernetes",
    severity=Severity.ERROR,
    documentation=__doc__,
    workload=_check,
)
