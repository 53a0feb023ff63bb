"""Nodes on which a cache lies on NVMe and not, without a word, on EBS: for Karpenter, for EKS Auto Mode, for managed node groups.

What decides is one line in each: Karpenter's `instanceStorePolicy`, Auto Mode's `ephemeralStorage.size` below the instance's NVMe,
a node group's `localStorage` in its user data. The startup taint is there in shared mode alone: it holds pods back until the agent
removes it, and where no agent does, nothing else ever will. A managed node group is no Kubernetes object; it is CloudFormation
(`nodegroup.py`), so `documents` has nothing for it and `text` prints the template.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

from glowplug.core.errors import UsageError
from glowplug.manifests import recipe
from glowplug.manifests.writing import noted, stream
from glowplug.render import cloudformation, nodegroup
from glowplug.render.machines import architecture, gpus_of, machines, smallest_disk
from glowplug.render.options import Compute, Mode

if TYPE_CHECKING:
    from glowplug.catalog.instances import Instance
    from glowplug.manifests.writing import Noted
    from glowplug.render.options import Options

_PRIVATE_SUBNETS: Final = "kubernetes.io/role/internal-elb"
CLUSTER: Final = "CLUSTER_NAME"
"""Stands for the cluster's name where none was given: valid, and plainly to be replaced."""

_AUTO_MODE_ROLE: Final = "AmazonEKSAutoNodeRole"
_NAME: Final = re.compile(r"(?=.{1,63}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_GIB: Final = 1 << 30
_AUTO_MODE_DEFAULT_GIB: Final = 80
_LEAST_NODES: Final = 4


def documents(options: Options) -> list[dict[str, Any]]:
    """The node class and the NodePool, in the order in which they are applied; none for a managed node group.

    Raises UsageError for names that these objects cannot have, and what `machines` raises.
    """
    if options.compute is Compute.NODEGROUP:
        return []
    pool = machines(options)
    node_class = _node_class(options, pool) if options.compute is Compute.AUTO_MODE else _ec2_node_class(options)
    return [node_class, _node_pool(options, pool)]


def text(options: Options) -> str:
    """What `glowplug render nodepool` prints: manifests, or the CloudFormation template of a managed node group."""
    if options.compute is Compute.NODEGROUP:
        return cloudformation.text(nodegroup.template(options))
    return stream(documents(options))


def notes(options: Options) -> tuple[str, ...]:
    """What a person still has to do, in sentences for stderr."""
    found: list[str] = []
    if options.compute is Compute.NODEGROUP:
        asked = cloudformation.asks(nodegroup.template(options))
        return (*found, *(f"`glowplug render nodepool` prints CloudFormation for a node group; {one}" for one in asked))
    if options.compute is Compute.AUTO_MODE:
        found.append(
            f"nodes go into all subnets with the tag {_PRIVATE_SUBNETS}=1 and into the cluster's own security group: compare with "
            "`kubectl get nodeclass default -o yaml`, and name subnets by id where several VPCs have that tag"
        )
    if options.cluster is None:
        found.append(f"replace {CLUSTER} by the name of your cluster, or give --cluster NAME")
    if options.node_role is None:
        found.append(f"the role {_role(options)} has to be the one of your nodes (--node-role NAME)")
    return tuple(found)


def name(options: Options) -> str:
    """The pool's name: `--nodepool`, else after what it buys. Raises UsageError for one that no object can have."""
    given = options.nodepool or "gpu-" + smallest_disk(machines(options)).name.replace(".", "-")
    if not _NAME.fullmatch(given):
        raise UsageError(
            f"--nodepool: {given!r} is no name of a NodePool", hint="use lower-case letters, digits and `-`"
        )
    return given


def _node_pool(options: Options, pool: tuple[Instance, ...]) -> dict[str, Any]:
    group, kind = _class_kind(options.compute)
    spec: dict[str, Any] = {
        "nodeClassRef": {"group": group, "kind": kind, "name": name(options)},
        "requirements": [
            _one_of("node.kubernetes.io/instance-type", *(one.name for one in pool)),
            noted(
                _one_of("karpenter.sh/capacity-type", "on-demand", "reserved"),
                "Spot would take a node, and the cache on its NVMe, away within two minutes. `reserved` counts once the node class "
                "names a capacity reservation (capacityReservationSelectorTerms).",
            ),
            _one_of("kubernetes.io/arch", architecture(pool)),
        ],
        "taints": noted(
            [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
            "Pods that need no GPU stay off nodes that cost as one.",
        ),
        **_startup_taints(options),
        "expireAfter": _expire_after(options.compute),
    }
    nodes = _most_nodes(options)
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name(options)},
        "spec": {
            "template": {"spec": spec},
            "disruption": _disruption(),
            "limits": noted(
                {"nvidia.com/gpu": gpus_of(pool) * nodes},
                f"{nodes} nodes: a roof over what a mistake can buy. Raise it before you scale beyond.",
            ),
        },
    }


def _most_nodes(options: Options) -> int:
    """Nodes that the pool may have: twice what the replicas need, and what the plan was made for."""
    if options.plan is None:
        return _LEAST_NODES
    needed = math.ceil(options.replicas / max(options.plan.placement.pods_per_node, 1))
    return max(_LEAST_NODES, 2 * needed, options.plan.nodes)


def _disruption() -> dict[str, Any]:
    return {
        "consolidationPolicy": noted(
            "WhenEmpty", "Moving a running pod to save a node costs a start of the engine, and a second node meanwhile."
        ),
        "consolidateAfter": noted(
            "10m", "An empty node, with its warm cache, waits this long for the next wave of pods."
        ),
        "budgets": [
            {"nodes": "10%"},
            noted(
                {"nodes": "1", "reasons": ["Drifted"]},
                "A new image replaces every node, and each replacement begins with an empty disk: one at a time.",
            ),
        ],
    }


def _startup_taints(options: Options) -> dict[str, Any]:
    if options.mode is not Mode.SHARED:
        return {}
    return {
        "startupTaints": noted(
            [{"key": options.startup_taint, "effect": "NoSchedule"}],
            "Keeps inference pods off until the cache is on the node. glowplug's agent removes it after the node has registered, "
            "`glowplug agent release` where the agent cannot; Karpenter itself never would. The device plugin has to tolerate it.",
        )
    }


def _expire_after(compute: Compute) -> Noted:
    if compute is Compute.AUTO_MODE:
        return noted(
            "336h",
            "Auto Mode's default. It replaces nodes for a new image about weekly, and after 21 days at the latest.",
        )
    return noted("720h", "Karpenter's default. The node's NVMe, and what is cached on it, goes with the node.")


def _class_kind(compute: Compute) -> tuple[str, str]:
    return ("eks.amazonaws.com", "NodeClass") if compute is Compute.AUTO_MODE else ("karpenter.k8s.aws", "EC2NodeClass")


def _ec2_node_class(options: Options) -> dict[str, Any]:
    mount = recipe.nvme_mount(options.compute.value, options.ami)
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": name(options)},
        "spec": {
            "role": noted(_role(options), "The role of the nodes, from the set-up of Karpenter."),
            "amiSelectorTerms": noted(
                [{"alias": f"{options.ami}@latest"}],
                f"Each new image replaces all nodes, and their caches with them. For production pin one: {_PINNED[options.ami]}.",
            ),
            "subnetSelectorTerms": _discovery(options),
            "securityGroupSelectorTerms": _discovery(options),
            "instanceStorePolicy": noted(
                "RAID0",
                f"Without it the NVMe disks stay unused and every hostPath lies on EBS. They are mounted at {mount}, "
                "and kubelet's and containerd's own directories lie on them too.",
            ),
            "blockDeviceMappings": _VOLUMES[options.ami],
        },
    }


def _node_class(options: Options, pool: tuple[Instance, ...]) -> dict[str, Any]:
    smallest = smallest_disk(pool)
    most = largest_below(smallest.nvme_bytes)
    return {
        "apiVersion": "eks.amazonaws.com/v1",
        "kind": "NodeClass",
        "metadata": {"name": name(options)},
        "spec": {
            "role": noted(
                _role(options),
                "`kubectl get nodeclass default -o yaml` shows role, subnets and groups that already work in this cluster. "
                "Another role needs an access entry of type EC2 with AmazonEKSAutoNodePolicy.",
            ),
            "subnetSelectorTerms": noted(
                [{"tags": {_PRIVATE_SUBNETS: "1"}}],
                "Private subnets, as EKS and eksctl tag them for load balancers. The tag is of no one cluster: with other VPCs in "
                "the account, or without it, name them by id: subnet-….",
            ),
            "securityGroupSelectorTerms": noted(
                [{"tags": {"aws:eks:cluster-name": options.cluster or CLUSTER}}],
                "The group that EKS makes for each cluster; it puts this tag on it, and back on it.",
            ),
            "ephemeralStorage": {
                "size": noted(
                    f"{min(_AUTO_MODE_DEFAULT_GIB, most)}Gi",
                    f"Has to stay below the NVMe of {smallest.name} ({smallest.nvme_bytes // 10**9} GB): at most {most}Gi. Only "
                    "then does Auto Mode format the instance store and mount it at /mnt/.ephemeral; otherwise that path is EBS.",
                )
            },
        },
    }


def largest_below(nvme_bytes: int) -> int:
    """The most GiB that `ephemeralStorage.size` may ask for so that Auto Mode uses an instance store of `nvme_bytes`.

    Strictly below its capacity, and within what the field takes (59,000Gi). EC2 states instance stores in units of 10^9 bytes.
    """
    return min((nvme_bytes - 1) // _GIB, 59_000)


def _role(options: Options) -> str:
    if options.node_role is not None:
        return options.node_role
    if options.compute is Compute.AUTO_MODE:
        return _AUTO_MODE_ROLE
    return f"KarpenterNodeRole-{options.cluster or CLUSTER}"


def _discovery(options: Options) -> list[dict[str, Any]]:
    return [{"tags": {"karpenter.sh/discovery": options.cluster or CLUSTER}}]


def _one_of(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


def _volume(device: str, size: str) -> dict[str, Any]:
    return {
        "deviceName": device,
        "ebs": {"volumeType": "gp3", "volumeSize": size, "encrypted": True, "deleteOnTermination": True},
    }


_VOLUMES: Final[dict[str, list[Any]]] = {
    "al2023": [noted(_volume("/dev/xvda", "50Gi"), "The system only: images and emptyDirs lie on NVMe.")],
    "bottlerocket": [
        noted(_volume("/dev/xvda", "4Gi"), "The system, read-only."),
        noted(_volume("/dev/xvdb", "50Gi"), "Bottlerocket's data volume; images and emptyDirs lie on NVMe."),
    ],
}
_PINNED: Final = {"al2023": "al2023@vYYYYMMDD", "bottlerocket": "bottlerocket@vX.Y.Z"}
