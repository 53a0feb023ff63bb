"""glowplug's agent does not tolerate a taint of the nodes that it has to warm.

## What it does
Looks at DaemonSets that run `glowplug agent` and asks that they tolerate

- every taint and startup taint of the GPU NodePools that were given with it,
- in shared mode the startup taint that the agent itself removes (`--taint`, by default `glowplug.dev/prewarming`),
- `nvidia.com/gpu`, by which GPU nodes are kept free of other pods, where no NodePool says otherwise.

## Why is this bad
A node without its agent stays cold, and nothing says so. In shared mode it is worse: the agent waits for a node
that is blocked by the very taint that it would remove. Karpenter has no time limit for that; the node costs money,
takes no pod, and is not replaced.

## Example
```yaml
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
        - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      containers:
        - name: agent
          image: registry.example/glowplug:1
          command: [glowplug, agent]
          args: [--mode=shared, --store=s3://cache]
```
Finds `tolerations`.

## Use instead
```yaml
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
A toleration of every taint is added, as `glowplug render agent` has it. Safe: which nodes the agent runs on is said
by its node affinity.

## Source
kubernetes-sigs/karpenter v1.14.1, `lifecycle/initialization.go`; `glowplug render agent`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.lint.rules.kubernetes import daemons, pools, selection, taints

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.rules.kubernetes.daemons import Agent
    from glowplug.lint.view import Manifests


def _check(manifests: Manifests) -> Iterator[Problem]:
    for agent in daemons.agents(manifests):
        if agent.release or agent.object.kind != "DaemonSet":
            continue
        found = next(_untolerated(agent, manifests), None)
        if found is None:
            continue
        written, whose = found
        yield Problem(
            agent.pod.key("tolerations") or agent.object.value.get("metadata", "name") or agent.pod,
            f"the agent does not tolerate {written}, {whose}: it never gets onto these nodes",
            "tolerate every taint: `- operator: Exists`",
            Fix("tolerate every taint", taints.add(agent.pod, {"operator": "Exists"})),
        )


def _untolerated(agent: Agent, manifests: Manifests) -> Iterator[tuple[str, str]]:
    """Taints that keep it off, the worst first, with what they are."""
    if agent.shared and agent.taint and not taints.tolerates_key(agent.pod, agent.taint):
        yield f"{agent.taint}:NoSchedule", "the startup taint that it removes itself"
    nodes = [node for node in pools.with_gpus(manifests) if selection.may_land(agent.pod, node)]
    for node in nodes:
        for taint in taints.of(node):
            if not taints.tolerated_by_daemons(taint, agent.pod):
                yield taint.written, f"a {'startup ' if taint.startup else ''}taint of the NodePool {node.pool.name}"
    if not nodes and not taints.tolerates_key(agent.pod, taints.GPU):
        yield f"{taints.GPU}:NoSchedule", "the taint of GPU nodes"


RULE = Rule(
    name="agent-tolerations",
    area="kubernetes",
    severity=Severity.ERROR,
    documentation=__doc__,
    everything=_check,
)
