"""Nothing keeps pods off a new node until its compile cache is there.

## What it does
Looks at shared mode, in which all pods of a node use one directory that something else fills. It speaks of a GPU
NodePool without the startup taint

- where `glowplug agent --mode=shared`, which removes that taint (`--taint`, by default `glowplug.dev/prewarming`),
  is among what was given. A taint of that key among the lasting `taints` is not meant either: Karpenter would buy
  nodes for no pod that does not tolerate it;
- where another DaemonSet writes the directory in which a pod of that NodePool keeps its compile cache, and the
  NodePool has no startup taint at all.

A cache that only the pods themselves write needs no taint, and neither do glowplug's modes `direct` and `node`.

## Why is this bad
The scheduler places pods on a new node as soon as it is ready, which is before the cache has been copied to it. The
first pods then compile everything anew (50 to 80 s in AWS's measurements, instead of 6), and write into the
directory while it is being filled. It goes wrong exactly on the new nodes that the copy is for.

## Example
```yaml
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: gpu-pool
spec:
  template:
    spec:
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g6e.12xlarge]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: glowplug-agent
  namespace: glowplug-system
spec:
  selector:
    matchLabels: {app: glowplug-agent}
  template:
    metadata:
      labels: {app: glowplug-agent}
    spec:
      tolerations:
        - operator: Exists
      containers:
        - name: agent
          image: registry.example/glowplug:1
          command: [glowplug, agent]
          args: [--mode=shared, --store=s3://cache]
```
Finds `gpu-pool`.

## Use instead
```yaml
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: gpu-pool
spec:
  template:
    spec:
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g6e.12xlarge]}
      startupTaints:
        - {key: glowplug.dev/prewarming, effect: NoSchedule}
---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: glowplug-agent
  namespace: glowplug-system
spec:
  selector:
    matchLabels: {app: glowplug-agent}
  template:
    metadata:
      labels: {app: glowplug-agent}
    spec:
      tolerations:
        - operator: Exists
      containers:
        - name: agent
          image: registry.example/glowplug:1
          command: [glowplug, agent]
          args: [--mode=shared, --store=s3://cache]
```

## Fix safety
The taint that the agent removes is added to `startupTaints`, and taken out of `taints`. Unsafe: a change of a
NodePool's template makes Karpenter replace the nodes that it has.

## Source
The AWS guide "Accelerate model loading on Amazon EKS" ("download the cached artifacts … before inference Pods are
scheduled"); kubernetes-sigs/karpenter v1.14.1, startup taints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.lint.rules.kubernetes import daemons, pools, selection, taints
from glowplug.manifests.edit import Insert, Put, Remove

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.rules.kubernetes.daemons import Agent
    from glowplug.lint.view import Manifests, Node, Workload
    from glowplug.manifests.edit import Operation
    from glowplug.manifests.values import Value


def _check(manifests: Manifests) -> Iterator[Problem]:
    agents = [one for one in daemons.agents(manifests) if one.shared and not one.release]
    nodes = tuple(pools.with_gpus(manifests))
    for agent in agents:
        for node in nodes:
            if agent.taint and selection.may_land(agent.pod, node):
                yield from _of_agent(agent, node)
    if agents:
        return
    for workload in manifests.workloads:
        yield from _of_another(workload, manifests)


def _of_agent(agent: Agent, node: Node) -> Iterator[Problem]:
    template = node.pool.value.get("spec", "template", "spec")
    own = [taint for taint in taints.of(node) if taint.key == agent.taint]
    if template is None or any(taint.startup for taint in own):
        return
    others = [taint.key for taint in taints.of(node) if taint.startup]
    if own:
        message = f"{agent.taint} is one of the lasting taints: Karpenter does not know that the agent removes it"
        hint = "move it to startupTaints"
    else:
        instead = f" (it has {', '.join(others)})" if others else ""
        message = (
            f"the NodePool {node.pool.name} has no startup taint {agent.taint}{instead}, which {agent.object.title} removes: pods "
            "start before the cache is there"
        )
        hint = f"add it to startupTaints: {{key: {agent.taint}, effect: NoSchedule}}"
    at = own[0].at.get("key") if own else None
    fix = Fix(f"add the startup taint {agent.taint}", _add(template, agent.taint, own), safe=False)
    yield Problem(at or pools.name(node), message, hint, fix)


def _add(template: Value, key: str, lasting: list[taints.Taint]) -> tuple[Operation, ...]:
    entry = {"key": key, "effect": "NoSchedule"}
    present = template.get("startupTaints")
    added: Operation
    if present is not None and present.elements():
        added = Insert(present, entry)
    else:
        after = next((name for name in ("taints", "requirements") if template.get(name) is not None), "")
        added = Put(template, "startupTaints", [entry], after=after)
    sequence = template.get("taints")
    if not lasting or sequence is None:
        return (added,)
    if len(sequence.elements()) == len(lasting):
        return (added, Remove(template, "taints"))
    gone = {id(taint.at) for taint in lasting}
    return (added, *(Remove(sequence, place) for place, entry in enumerate(sequence.elements()) if id(entry) in gone))


def _of_another(workload: Workload, manifests: Manifests) -> Iterator[Problem]:
    """A DaemonSet of somebody's own that fills the directory."""
    root = workload.cache_root
    mount = workload.container.mount_of(root) if root else None
    if mount is None or mount.kind != "hostPath" or mount.host_path is None:
        return
    filling = next(daemons.writing(manifests, mount.host_path), None)
    if filling is None:
        return
    for node in workload.nodes:
        if not any(taint.startup for taint in taints.of(node)):
            yield Problem(
                pools.name(node),
                f"nothing keeps pods off a new node of the NodePool {node.pool.name} until {filling.title} has prepared "
                f"{mount.host_path}: {workload.object.title} may start before it",
                "give the NodePool a startup taint, and let the DaemonSet tolerate and remove it",
            )


RULE = Rule(
    name="startup-taint-missing",
    area="kubernetes",
    severity=Severity.WARNING,
    documentation=__doc__,
    everything=_check,
)
