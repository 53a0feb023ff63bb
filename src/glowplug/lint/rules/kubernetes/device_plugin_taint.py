"""The NVIDIA device plugin does not tolerate a taint of the GPU nodes.

## What it does
Compares the tolerations of the device plugin's DaemonSet (or those that a ClusterPolicy of the GPU operator gives
its DaemonSets) with the taints and the startup taints of the GPU NodePools that were given with it. EKS Auto Mode
is left out: there the plugin is part of the node.

## Why is this bad
Without the plugin a node has no `nvidia.com/gpu`, and no pod that asks for one is placed there. With a startup
taint it is a deadlock: Karpenter takes a node for initialized only when it has no startup taint left *and* its GPUs
are allocatable, and until then it neither consolidates nor replaces it, without any time limit. The node costs
money and never takes a pod.

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
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g6e.12xlarge]}
      taints:
        - {key: nvidia.com/gpu, effect: NoSchedule}
      startupTaints:
        - {key: glowplug.dev/prewarming, effect: NoSchedule}
---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: nvidia-device-plugin
  namespace: kube-system
spec:
  selector:
    matchLabels: {app: nvidia-device-plugin}
  template:
    metadata:
      labels: {app: nvidia-device-plugin}
    spec:
      tolerations:
        - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      containers:
        - name: plugin
          image: nvcr.io/nvidia/k8s-device-plugin:v0.17.4
```
Finds `tolerations`.

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
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g6e.12xlarge]}
      taints:
        - {key: nvidia.com/gpu, effect: NoSchedule}
      startupTaints:
        - {key: glowplug.dev/prewarming, effect: NoSchedule}
---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: nvidia-device-plugin
  namespace: kube-system
spec:
  selector:
    matchLabels: {app: nvidia-device-plugin}
  template:
    metadata:
      labels: {app: nvidia-device-plugin}
    spec:
      tolerations:
        - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
        - {key: glowplug.dev/prewarming, operator: Exists, effect: NoSchedule}
      containers:
        - name: plugin
          image: nvcr.io/nvidia/k8s-device-plugin:v0.17.4
```

## Fix safety
The missing tolerations are added. Safe: the plugin does nothing on a node but announce its GPUs.

## Source
kubernetes-sigs/karpenter v1.14.1, `lifecycle/initialization.go` and `scheduling/taints.go`;
NVIDIA/k8s-device-plugin, its static DaemonSet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.lint.rules.kubernetes import daemons, pools, selection, taints

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.rules.kubernetes.daemons import DevicePlugin
    from glowplug.lint.rules.kubernetes.taints import Taint
    from glowplug.lint.view import Manifests, Node


def _check(manifests: Manifests) -> Iterator[Problem]:
    plugins = tuple(daemons.device_plugins(manifests))
    if not plugins:
        return
    missing: dict[DevicePlugin, list[tuple[Node, Taint]]] = {}
    for node in pools.with_gpus(manifests):
        able = [one for one in plugins if one.operator or selection.may_land(one.pod, node)]
        lacking = [(one, _untolerated(one, node)) for one in able]
        if node.auto_mode or any(not found for _, found in lacking):
            continue
        for plugin, found in lacking:
            missing.setdefault(plugin, []).extend((node, taint) for taint in found)
    for plugin, of_pools in missing.items():
        yield _problem(plugin, of_pools)


def _untolerated(plugin: DevicePlugin, node: Node) -> tuple[Taint, ...]:
    if plugin.operator and plugin.pod.get("tolerations") is None:
        # The operator's own manifests tolerate this one.
        return tuple(taint for taint in taints.of(node) if taint.key != taints.GPU)
    return tuple(taint for taint in taints.of(node) if not taints.tolerated_by_daemons(taint, plugin.pod))


def _problem(plugin: DevicePlugin, found: list[tuple[Node, Taint]]) -> Problem:
    keys = {taint.key: taint for _, taint in found}
    node, taint = next(((node, taint) for node, taint in found if taint.startup), found[0])
    what = "the startup taint" if taint.startup else "the taint"
    end = "its nodes are never initialized" if taint.startup else "its nodes have no GPUs to give"
    entries = [taints.toleration(one) for one in keys.values()]
    if plugin.operator and plugin.pod.get("tolerations") is None:
        entries.insert(0, {"key": taints.GPU, "operator": "Exists", "effect": "NoSchedule"})
    return Problem(
        plugin.at,
        f"the device plugin does not tolerate {what} {taint.written} of the NodePool {node.pool.name}: {end}",
        f"tolerate {' and '.join(keys)}",
        Fix(f"tolerate {', '.join(keys)}", taints.add(plugin.pod, *entries)),
    )


RULE = Rule(
    name="device-plugin-taint",
    area="kubernetes",
    severity=Severity.ERROR,
    documentation=__doc__,
    everything=_check,
)
