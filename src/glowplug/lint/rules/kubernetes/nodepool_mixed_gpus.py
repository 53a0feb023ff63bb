"""A NodePool buys several kinds of GPU for pods that do not say which.

## What it does
Speaks of a GPU NodePool whose requirements allow instance types with different GPUs. Where pods that may land on it
were given too, it speaks only if one of them is not held to one kind by its own node selector or affinity.

## Why is this bad
What torch.compile makes is for one kind of GPU (sm_89 for L4, sm_90 for H100), so a cache that was filled on one is
a miss on the next, and which one a pod gets is Karpenter's choice, by price. A100 is two cards under one name.
Sizes that were planned for one (`--tensor-parallel-size`, `--max-model-len`) may not fit into the memory of
another: the pod starts on Monday and not on Tuesday.

## Example
```yaml
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: gpu
spec:
  template:
    spec:
      requirements:
        - key: karpenter.k8s.aws/instance-family
          operator: In
          values: [g6e, p5]
      nodeClassRef:
        group: karpenter.k8s.aws
        kind: EC2NodeClass
        name: default
```
Finds `karpenter.k8s.aws/instance-family`.

## Use instead
```yaml
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: gpu
spec:
  template:
    spec:
      requirements:
        - key: karpenter.k8s.aws/instance-family
          operator: In
          values: [g6e]
      nodeClassRef:
        group: karpenter.k8s.aws
        kind: EC2NodeClass
        name: default
```

## Fix safety
No fix: which GPU it is to be is yours to say. A NodePool for each kind, and pods that select it, is the usual way.

## Source
The AWS guide "Accelerate model loading on Amazon EKS" ("homogeneous GPUs"; GPU type as the first parameter that has
to match); glowplug's catalogue of instance types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.lint.rule import Problem, Rule, Severity
from glowplug.lint.rules.kubernetes import parallel, pools

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Machine, Manifests, Node, Workload
    from glowplug.manifests.values import Value

_SHOWN: Final = 4
# The requirement that most plainly decides it, to point at.
_DECIDING: Final = (
    "instance-gpu-name",
    "node.kubernetes.io/instance-type",
    "instance-family",
    "instance-category",
    "instance-gpu-manufacturer",
    "instance-gpu-count",
)


def _check(manifests: Manifests) -> Iterator[Problem]:
    for node in pools.with_gpus(manifests):
        kinds = _kinds(node.machines)
        if len(kinds) < 2:
            continue
        pods = [one for one in manifests.workloads if node in one.nodes and parallel.asked(one.container)]
        free = [one for one in pods if len(_kinds(one.machines)) != 1]
        if pods and not free:
            continue
        yield Problem(
            _at(node),
            f"the NodePool {node.pool.name} buys nodes with {_named(kinds)}{_whose(free)}: what was compiled for one is a miss on "
            "the others",
            "let the NodePool, or the pods, name one GPU",
        )


def _kinds(machines: tuple[Machine, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(machine.gpu.name for machine in machines if machine.gpu is not None))


def _named(kinds: tuple[str, ...]) -> str:
    shown = ", ".join(kinds[:_SHOWN])
    return shown if len(kinds) <= _SHOWN else f"{shown} and {len(kinds) - _SHOWN} more"


def _whose(pods: list[Workload]) -> str:
    return f", and {pods[0].object.title} takes any" if pods else ""


def _at(node: Node) -> Value:
    requirements = node.pool.value.get("spec", "template", "spec", "requirements")
    found = {
        key.text: key
        for one in (requirements.elements() if requirements is not None else ())
        if (key := one.get("key")) is not None
    }
    for wanted in _DECIDING:
        for text, key in found.items():
            if text.endswith(wanted):
                return key
    return pools.name(node)


RULE = Rule(
    name="nodepool-mixed-gpus",
    area="kubernetes",
    severity=Severity.WARNING,
    documentation=__doc__,
    everything=_check,
)
