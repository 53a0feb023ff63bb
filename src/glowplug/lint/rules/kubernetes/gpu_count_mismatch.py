"""The engine needs another number of GPUs than the pod asks for.

## What it does
Compares three numbers: the GPUs that the engine takes by its own options (tensor × pipeline × local data parallel),
the `nvidia.com/gpu` that its container asks for, and the GPUs that the machines have on which the pod may run.
Requests and limits of `nvidia.com/gpu` have to be equal, too.

It says nothing where ranks are on several nodes (LeaderWorkerSet, Ray, `--nnodes`), where a file or
`CUDA_VISIBLE_DEVICES` decides, or where the command cannot be followed.

## Why is this bad
With fewer GPUs than ranks vLLM ends at once: it looks for Ray, finds no cluster, and the pod is in a crash loop.
With more GPUs than ranks the others are paid for and idle, and no other pod gets them: p5.48xlarge costs the same
with two of eight GPUs at work. A pod that asks for more GPUs than a machine has stays Pending for ever, and
Karpenter buys nothing for it. A GPU in the requests alone, or another number there, is refused by the API server:
extended resources cannot be overcommitted.

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
          args: ["s3://models/llama", "--tensor-parallel-size=4"]
          resources:
            limits:
              nvidia.com/gpu: 2
```
Finds `2` in line 22.

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
          args: ["s3://models/llama", "--tensor-parallel-size=4"]
          resources:
            limits:
              nvidia.com/gpu: 4
```

## Fix safety
Making requests and limits equal is safe where one of them is what the engine takes, or where there are no limits:
the API server refuses the pod as it is. Setting both to what the engine takes is unsafe: the parallel size may be
the number that is wrong. No fix asks for more GPUs than a machine has on which the pod may run.

## Source
vLLM `config/parallel.py` (world size, choice of the executor); Kubernetes, Schedule GPUs ("you can specify GPU
limits without requests … both must be equal"); EC2 instance types as in glowplug's catalogue.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from glowplug.catalog.instances import instances
from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.lint.rules.kubernetes import parallel, pools, selection
from glowplug.lint.rules.kubernetes.parallel import GPU
from glowplug.manifests.edit import Put

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.catalog.instances import Instance
    from glowplug.lint.view import Container, Workload
    from glowplug.manifests.edit import Operation
    from glowplug.manifests.values import Value


def _check(workload: Workload) -> Iterator[Problem]:
    container = workload.container
    needed = parallel.needed(workload)
    refused = _refused(workload, needed.gpus if needed else None)
    if refused is not None:
        yield refused
        return
    gpus, at = parallel.asked(container), _at(container)
    if not gpus or at is None:
        return
    if needed is not None and (needed.gpus > gpus or (needed.gpus < gpus and parallel.all_known(workload.engine))):
        yield _mismatch(workload, needed, gpus, at)
        return
    yield from _machines(workload, at)


def _refused(workload: Workload, needed: int | None) -> Problem | None:
    """What the API server does not take."""
    container = workload.container
    limit, request = (container.quantity(kind, GPU) for kind in ("limits", "requests"))
    at = container.value.get("resources", "requests", GPU)
    if request is None or at is None or request == limit:
        return None
    if limit is None:
        if container.value.get("resources", "limits", GPU) is not None or request == 0:
            return None
        return Problem(
            at,
            f"{request} × {GPU} in the requests and none in the limits: the API server refuses the pod",
            f"set the same number under `limits`: requests of {GPU} follow them",
            Fix(f"set the limit of {GPU} to {request}", _set(container, "limits", request))
            if _fits(workload, request)
            else None,
        )
    meant = needed if needed in (limit, request) and _fits(workload, needed) else None
    wrong = "requests" if meant == limit else "limits"
    fix = Fix(f"set {GPU} to {meant} in both", _set(container, wrong, meant)) if meant is not None else None
    return Problem(
        at,
        f"requests say {request} × {GPU} and limits {limit}: the API server refuses the pod",
        "write the same number in both, or in the limits alone",
        fix,
    )


def _mismatch(workload: Workload, needed: parallel.Needed, gpus: int, at: Value) -> Problem:
    container = workload.container
    if needed.gpus > gpus:
        message = f"the engine needs {needed.gpus} GPUs ({needed.written}) and the pod has {gpus}: it ends at once"
        if not _fits(workload, needed.gpus):
            most, who = _largest(workload)
            return Problem(
                at,
                f"{message}; {who} has {most}, so that these ranks need several nodes",
                f"lower the parallel size to {most} at most, or spread the ranks over pods (LeaderWorkerSet, Ray)",
            )
        hint = f"ask for {needed.gpus} GPUs, or lower the parallel size"
    else:
        idle = gpus - needed.gpus
        message = f"the engine uses {needed.gpus} of {gpus} GPUs ({needed.written}): {idle} {'is' if idle == 1 else 'are'} idle"
        hint = f"ask for {needed.gpus}, or let the engine use all: --tensor-parallel-size, --data-parallel-size"
    operations = tuple(
        operation
        for kind in ("limits", "requests")
        if container.value.get("resources", kind, GPU) is not None
        for operation in _set(container, kind, needed.gpus)
    )
    return Problem(at, message, hint, Fix(f"ask for {needed.gpus} × {GPU}", operations, safe=False))


def _fits(workload: Workload, gpus: int) -> bool:
    """Whether some machine may have so many GPUs: one of the pod's own, or, where those are not known, any."""
    return gpus <= _largest(workload)[0]


def _largest(workload: Workload) -> tuple[int, str]:
    """The most GPUs of one machine, and whose they are. A device plugin counts a part of a card as one."""
    known = [machine.instance for machine in workload.machines]
    named = [one for one in known if one is not None]
    if named and len(named) == len(known):
        return max(1, *(one.gpus for one in named)), _names(named)
    return _most(), "the largest machine of EC2"


@functools.cache
def _most() -> int:
    return max(one.gpus for one in instances())


def _machines(workload: Workload, at: Value) -> Iterator[Problem]:
    """Whether any machine that the pod may run on has so many GPUs."""
    found = [machine.instance for machine in workload.machines]
    known = [one for one in found if one is not None]
    if not known or len(known) < len(found) or workload.compute == "nodegroup" or not _all_known(workload):
        return
    gpus = parallel.asked_by_pod(workload)
    largest = max(known, key=lambda one: one.gpus)
    if largest.gpus >= gpus:
        return
    if largest.gpus == 0:
        why = f"EC2 counts no GPU on {_names(known)}, so a pod that asks for {GPU} is never planned onto it"
        yield Problem(at, why, f"choose a type with a whole {largest.gpu.name.upper()}")
        return
    yield Problem(
        at,
        f"the pod asks for {gpus} GPUs; {_names(known)} has {largest.gpus}: it stays Pending",
        "choose a larger instance type, or a smaller parallel size",
    )


def _all_known(workload: Workload) -> bool:
    """Whether no machine is possible that the catalogue does not have."""
    if pools.is_complete(selection.required(workload.spec)):
        return True
    return bool(workload.nodes) and all(pools.is_complete(selection.of_pool(node)) for node in workload.nodes)


def _names(known: list[Instance]) -> str:
    several = list(dict.fromkeys(one.name for one in known))
    return (
        several[0]
        if len(several) == 1
        else f"the largest of {len(several)} possible types, {max(known, key=lambda one: one.gpus).name},"
    )


def _at(container: Container) -> Value | None:
    return container.value.get("resources", "limits", GPU) or container.value.get("resources", "requests", GPU)


def _set(container: Container, kind: str, count: int) -> tuple[Operation, ...]:
    resources = container.value.get("resources")
    if resources is None:
        return ()
    quantities = resources.get(kind)
    if quantities is None or not quantities.is_mapping:
        return (Put(resources, kind, {GPU: count}),)
    present = quantities.get(GPU)
    return (Put(quantities, GPU, str(count) if present is not None and present.is_text else count),)


RULE = Rule(
    name="gpu-count-mismatch",
    area="kubernetes",
    severity=Severity.ERROR,
    documentation=__doc__,
    workload=_check,
)
