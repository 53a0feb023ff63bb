"""EKS Auto Mode uses the NVMe disks only when less storage is asked for than they have.

## What it does

Finds a `NodeClass` of EKS Auto Mode whose `ephemeralStorage.size` is not below the instance store of a type that its NodePools
may buy, the smallest of those that have one. Where no NodePool is given: below no type's at all.

## Why is this bad

At or above the capacity, Auto Mode backs `/mnt/.ephemeral` by the EBS volume instead, by AWS's guide to model loading; another
page of AWS says that the disks are exposed directly. Below it, they are formatted, as RAID 0 where there are several, and
everything lies on them. Asking for more gives less. EC2 states capacity in GB (10^9 bytes), the field takes Gi (2^30): 250 GB
are 232Gi.

## Example

```yaml
apiVersion: eks.amazonaws.com/v1
kind: NodeClass
metadata:
  name: gpu-class
spec:
  role: AmazonEKSAutoNodeRole
  subnetSelectorTerms:
    - tags: {kubernetes.io/role/internal-elb: "1"}
  securityGroupSelectorTerms:
    - tags: {aws:eks:cluster-name: prod}
  ephemeralStorage:
    size: 500Gi
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: gpu
spec:
  template:
    spec:
      nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: gpu-class}
      requirements:
        - key: node.kubernetes.io/instance-type
          operator: In
          values: [g6.2xlarge]
      taints:
        - {key: nvidia.com/gpu, effect: NoSchedule}
```

Finds `500Gi`.

Linted with --compute auto-mode.

## Use instead

```yaml
apiVersion: eks.amazonaws.com/v1
kind: NodeClass
metadata:
  name: gpu-class
spec:
  role: AmazonEKSAutoNodeRole
  subnetSelectorTerms:
    - tags: {kubernetes.io/role/internal-elb: "1"}
  securityGroupSelectorTerms:
    - tags: {aws:eks:cluster-name: prod}
  ephemeralStorage:
    size: 80Gi
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: gpu
spec:
  template:
    spec:
      nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: gpu-class}
      requirements:
        - key: node.kubernetes.io/instance-type
          operator: In
          values: [g6.2xlarge]
      taints:
        - {key: nvidia.com/gpu, effect: NoSchedule}
```

## Fix safety

Unsafe: the size becomes Auto Mode's default of 80Gi, or the largest below the disk. The nodes are replaced, and then have as much
storage as their disk: less than was asked for.

## Source

AWS, Accelerate model loading on Amazon EKS, "Set the cache path to NVMe instance store"; EKS user guide, "Learn about Amazon EKS
Auto Mode managed instances" and "Create a Node Class for Amazon EKS".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.catalog.instances import instances
from glowplug.catalog.limits import fact
from glowplug.lint.quantities import quantity
from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.manifests.edit import Replace
from glowplug.render.nodepool import largest_below

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.catalog.instances import Instance
    from glowplug.lint.view import Manifests, Object

_GIB: Final = 1 << 30
_GROUP: Final = "eks.amazonaws.com"


def _check(manifests: Manifests) -> Iterator[Problem]:
    for one in manifests.of_kind("NodeClass"):
        size = one.value.get("spec", "ephemeralStorage", "size")
        asked = quantity(size.text) if size is not None else None
        if one.group != _GROUP or size is None or asked is None:
            continue
        smallest = _smallest(manifests, one)
        if smallest is None or asked < smallest.nvme_bytes:
            continue
        most = largest_below(smallest.nvme_bytes)
        default = int(fact("auto_mode.ephemeral_storage_bytes").value) // _GIB
        to = f"{min(default, most)}Gi"
        yield Problem(
            size,
            f"`{size.text}` is not below the instance store of {smallest.name} ({smallest.nvme_bytes // 10**9} GB), so "
            "/mnt/.ephemeral may lie on EBS",
            f"ask for at most {most}Gi",
            Fix(f"ask for {to}", (Replace(size, to),), safe=False),
        )


def _smallest(manifests: Manifests, node_class: Object) -> Instance | None:
    """The type with the smallest instance store that nodes of this class can be; without a NodePool the one with the largest there
    is, so that only what no type has counts."""
    users = [node for node in manifests.nodes if node.node_class is node_class]
    if not users:
        return max((one for one in instances() if one.auto_mode), key=lambda one: one.nvme_bytes)
    found = [
        machine.instance
        for node in users
        for machine in node.machines
        if machine.instance is not None and machine.instance.nvme_bytes
    ]
    return min(found, key=lambda one: one.nvme_bytes, default=None)


RULE = Rule(
    name="auto-mode-ephemeral-too-large",
    area="compile",
    severity=Severity.WARNING,
    documentation=__doc__ or "",
    everything=_check,
)
