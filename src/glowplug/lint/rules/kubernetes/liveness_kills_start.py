"""A liveness probe without a startup probe ends the engine while it starts.

## What it does
Looks at engines with a livenessProbe and no startupProbe, and adds up what the liveness probe allows from the start
of the container until its last failure, `initialDelaySeconds + periodSeconds × (failureThreshold − 1)`: kubelet asks
first somewhere in the period after the delay, and then every period. It speaks where that is less than the cold start
that `glowplug plan` estimates. What is not known makes the estimate smaller: without a size of the weights it is
140 s, and 60 s where it is not certain that anything is compiled.

It looks at probes that the engine itself answers (HTTP or TCP on its port), on pods that ask for a GPU.

## Why is this bad
An engine answers nothing before its weights are loaded and its graphs are captured. Without a startup probe the
liveness probe counts from the first second: kubelet ends the container in the middle of the start, again and again.
A long `initialDelaySeconds` is no way out, since it also delays the probe of an engine that hangs later, after each
restart.

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
          livenessProbe:
            httpGet: {path: /health, port: 8000}
            initialDelaySeconds: 60
            periodSeconds: 10
```
Finds `livenessProbe`.

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
          livenessProbe:
            httpGet: {path: /health, port: 8000}
            periodSeconds: 10
```

## Fix safety
A startupProbe is added that asks what the liveness probe asks, for as long as `glowplug render` would allow (620 s
at least, as the AWS guide's). Safe: the liveness probe begins when it has passed, and nothing else changes.

## Source
Kubernetes, Configure Liveness, Readiness and Startup Probes ("protect slow starting containers"), and kubelet's
`pkg/kubelet/prober/worker.go`; the AWS guide
"Accelerate model loading on Amazon EKS", whose Deployment has a startup probe and no liveness probe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.lint.rules.kubernetes import cold, parallel
from glowplug.manifests.edit import Put
from glowplug.render import budget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Workload
    from glowplug.manifests.values import Value

_ASKED: Final = ("httpGet", "tcpSocket")
_PERIOD: Final = 10


def _check(workload: Workload) -> Iterator[Problem]:
    container = workload.container.value
    probe = container.get("livenessProbe")
    if probe is None or not probe.is_mapping or not parallel.asked(workload.container):
        return
    started = container.get("startupProbe")
    if started is not None and started.data:
        return
    allowed = cold.allowed(probe)
    if allowed is None or not cold.asks_engine(workload, probe):
        return
    estimate = cold.estimate(workload)
    if allowed.seconds >= estimate.seconds:
        return
    yield Problem(
        container.key("livenessProbe") or probe,
        f"the liveness probe may end the container after {allowed.seconds} s ({allowed.written}), and a cold start takes about "
        f"{estimate.seconds:.0f} s ({estimate.words}); no startup probe holds it back",
        "add a startupProbe that asks the same and allows a cold start",
        Fix(
            "add a startupProbe",
            (Put(container, "startupProbe", _startup(probe, estimate.startup), after=_after(container)),),
        ),
    )


def _startup(probe: Value, seconds: int) -> dict[str, Any]:
    asked = {name: found.data for name in _ASKED if (found := probe.get(name)) is not None}
    timeout = probe.get("timeoutSeconds")
    more = {"timeoutSeconds": timeout.data} if timeout is not None else {}
    return {**asked, "periodSeconds": _PERIOD, **more, "failureThreshold": budget.failures(seconds, _PERIOD)}


def _after(container: Value) -> str:
    """Before the liveness probe, where something that can be named stands there."""
    names = [name for name, _ in container.items()]
    place = names.index("livenessProbe") if "livenessProbe" in names else 0
    return names[place - 1] if place > 0 else "livenessProbe"


RULE = Rule(
    name="liveness-kills-start",
    area="kubernetes",
    severity=Severity.ERROR,
    documentation=__doc__,
    workload=_check,
)
