"""Karpenter's node class leaves the NVMe disks of GPU nodes unused.

## What it does

Finds an `EC2NodeClass` without `instanceStorePolicy: RAID0` that a NodePool for GPU types with an instance store uses, that a pod
with a cache on NVMe needs, or whose name says that it is for GPUs. Silent where the class sets the disks up itself: AMI family
Custom, or user data that does.

## Why is this bad

Karpenter then neither formats nor mounts the disks. A hostPath below `/mnt/k8s-disks/0` is made on the EBS root volume without a
word: 1 GB/s or so instead of 30. Images and every emptyDir lie on EBS too, and the node's `ephemeral-storage` is that small
volume.

## Example

```yaml
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata:
  name: gpu-class
spec:
  role: KarpenterNodeRole-prod
  amiSelectorTerms:
    - alias: al2023@v20260601
  subnetSelectorTerms:
    - tags: {karpenter.sh/discovery: prod}
  securityGroupSelectorTerms:
    - tags: {karpenter.sh/discovery: prod}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: gpu
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu-class}
      requirements:
        - key: node.kubernetes.io/instance-type
          operator: In
          values: [g6e.12xlarge]
      taints:
        - {key: nvidia.com/gpu, effect: NoSchedule}
```

Finds `spec` in line 5.

## Use instead

```yaml
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata:
  name: gpu-class
spec:
  role: KarpenterNodeRole-prod
  amiSelectorTerms:
    - alias: al2023@v20260601
  subnetSelectorTerms:
    - tags: {karpenter.sh/discovery: prod}
  securityGroupSelectorTerms:
    - tags: {karpenter.sh/discovery: prod}
  instanceStorePolicy: RAID0
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: gpu
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu-class}
      requirements:
        - key: node.kubernetes.io/instance-type
          operator: In
          values: [g6e.12xlarge]
      taints:
        - {key: nvidia.com/gpu, effect: NoSchedule}
```

## Fix safety

Safe: it adds `instanceStorePolicy: RAID0`. When that is applied, Karpenter counts the nodes of the class as drifted and replaces
them, within the NodePool's disruption budgets.

## Source

AWS, Accelerate model loading on Amazon EKS, "Set the cache path to NVMe instance store"; Karpenter documentation, NodeClasses,
spec.instanceStorePolicy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.lint import mending
from glowplug.lint.gpu_pools import is_for_gpus
from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.lint.rules.compile.disks import ami_family, root_of, sets_up_disks
from glowplug.lint.rules.compile.keeping import keeping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Manifests, Object

_POLICY = "RAID0"


def _check(manifests: Manifests) -> Iterator[Problem]:
    for one in manifests.of_kind("EC2NodeClass"):
        spec = one.value.get("spec")
        if spec is None or ami_family(one) == "custom" or sets_up_disks(one):
            continue
        policy = spec.get("instanceStorePolicy")
        if policy is not None and policy.text == _POLICY:
            continue
        for_gpus = _for_gpus(manifests, one)
        if not for_gpus:
            continue
        operations = mending.set_field(one.value, ("spec", "instanceStorePolicy"), _POLICY)
        yield Problem(
            policy or one.value.key("spec") or one.value,
            f"`{one.name}` leaves NVMe disks unused ({for_gpus}): a hostPath on them lies on EBS without a word",
            f"set instanceStorePolicy: {_POLICY}",
            Fix(f"set instanceStorePolicy: {_POLICY}", operations) if operations else None,
        )


def _for_gpus(manifests: Manifests, node_class: Object) -> str:
    """Why the disks of its nodes matter, "" where nothing says that they do."""
    users = [node for node in manifests.nodes if node.node_class is node_class]
    for node in users:
        if not is_for_gpus(node):
            continue
        found = [one.instance for one in node.machines if one.instance is not None and one.instance.nvme_bytes]
        if found:
            return f"NodePool `{node.pool.name}` buys {found[0].name}"
    for workload in manifests.workloads:
        kept = keeping(workload)
        if kept.mount is None or not root_of(kept.mount.host_path or ""):
            continue
        if any(node.node_class is node_class for node in workload.nodes):
            return f"{workload.object.title} keeps its cache there"
    if not users and "gpu" in node_class.name.lower():
        return "its name says GPU"
    return ""


RULE = Rule(
    name="instance-store-policy-missing",
    area="compile",
    severity=Severity.ERROR,
    documentation=__doc__ or "",
    everything=_check,
)
