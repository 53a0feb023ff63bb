"""A managed node group whose NVMe disks are used: launch template and node group, as CloudFormation.

EKS merges its own user data with what the launch template carries, so that carries the one setting that matters, in the form of
each operating system. No AMI is named: the group follows the AMI type, and a new release is a roll-out that somebody starts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from glowplug.core.errors import UsageError
from glowplug.manifests.writing import noted
from glowplug.render import cloudformation
from glowplug.render.cloudformation import literal, parameter, ref, sub
from glowplug.render.machines import ami_architecture, machines
from glowplug.render.options import GPU_NODE_LABEL, Mode

if TYPE_CHECKING:
    from glowplug.render.cloudformation import Parameters, Template
    from glowplug.render.options import Options

# nodeadm reads the part of this type; EKS adds a part of its own with the cluster's address.
_AL2023: Final = """\
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  instance:
    localStorage:
      strategy: RAID0

--//--
"""
# The commands that Karpenter gives Bottlerocket for instanceStorePolicy: RAID0 (1.14.1).
_BOTTLEROCKET: Final = """\
[settings.bootstrap-commands.000-mount-instance-storage]
commands = [
  ["apiclient", "ephemeral-storage", "init"],
  ["apiclient", "ephemeral-storage", "bind", "--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"],
]
mode = "always"
essential = true
"""
_NAME: Final = re.compile(r"[0-9A-Za-z][A-Za-z0-9_-]{0,62}")
_SYSTEMS: Final = {"al2023": ("AL2023", "_NVIDIA", _AL2023), "bottlerocket": ("BOTTLEROCKET", "_NVIDIA", _BOTTLEROCKET)}
_DEVICES: Final = {"al2023": (("/dev/xvda", 50),), "bottlerocket": (("/dev/xvda", 4), ("/dev/xvdb", 50))}


def template(options: Options) -> Template:
    """Launch template and node group. Raises UsageError for a name that no group can have, and what `machines` raises."""
    pool = machines(options)
    system, suffix, user_data = _SYSTEMS[options.ami]
    nodes: dict[str, Any] = {
        "ClusterName": ref("ClusterName"),
        **_name(options),
        "NodeRole": sub(f"arn:${{AWS::Partition}}:iam::${{AWS::AccountId}}:role/{literal(options.node_role)}")
        if options.node_role
        else ref("NodeRoleArn"),
        "Subnets": ref("SubnetIds"),
        "AmiType": f"{system}_{ami_architecture(pool)}{suffix}",
        "InstanceTypes": [one.name for one in pool],
        "CapacityType": "ON_DEMAND",
        "ScalingConfig": {"MinSize": ref("MinSize"), "MaxSize": ref("MaxSize")},
        "LaunchTemplate": {
            "Id": ref("LaunchTemplate"),
            "Version": {"Fn::GetAtt": ["LaunchTemplate", "LatestVersionNumber"]},
        },
        "UpdateConfig": noted({"MaxUnavailable": 1}, "Every replaced node begins with an empty disk: one at a time."),
        "Labels": noted(
            {GPU_NODE_LABEL: "true"},
            "By this glowplug's agent finds these nodes: EKS labels none of them as having a GPU.",
        ),
        "Taints": _taints(options),
    }
    return cloudformation.template(
        f"GPU nodes for EKS with their NVMe instance store as one RAID 0 array ({', '.join(one.name for one in pool)}).",
        _parameters(options),
        {
            "LaunchTemplate": {
                "Type": "AWS::EC2::LaunchTemplate",
                "Properties": {"LaunchTemplateData": _launch(options, user_data)},
            },
            "NodeGroup": {"Type": "AWS::EKS::Nodegroup", "Properties": nodes},
        },
        {"NodeGroupName": {"Value": {"Fn::GetAtt": ["NodeGroup", "NodegroupName"]}}},
    )


def _name(options: Options) -> dict[str, str]:
    """The group's name, by which pods select it, where one was given; else CloudFormation makes one."""
    if options.nodepool is None:
        return {}
    if not _NAME.fullmatch(options.nodepool):
        raise UsageError(
            f"--nodepool: {options.nodepool!r} is no name of a node group", hint="letters, digits, `-`, `_`"
        )
    return {"NodegroupName": options.nodepool}


def _parameters(options: Options) -> Parameters:
    role = (
        {}
        if options.node_role
        else {"NodeRoleArn": parameter("String", "ARN of the role of the nodes.", AllowedPattern="arn:.+")}
    )
    return {
        "ClusterName": parameter("String", "Name of the EKS cluster.", options.cluster),
        **role,
        "SubnetIds": parameter(
            "List<AWS::EC2::Subnet::Id>", "Subnets of the nodes; their route tables need the S3 endpoint."
        ),
        "MinSize": parameter("Number", "Nodes that are always there.", "0", MinValue=0),
        "MaxSize": parameter(
            "Number", "Nodes at most.", str(max(options.plan.nodes if options.plan else 0, 4)), MinValue=1
        ),
    }


def _launch(options: Options, user_data: str) -> dict[str, Any]:
    return {
        "UserData": noted(
            {"Fn::Base64": user_data},
            "The NVMe disks become one array with a file system. Without this, every hostPath lies on EBS.",
        ),
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        "BlockDeviceMappings": [
            {
                "DeviceName": device,
                "Ebs": {"VolumeType": "gp3", "VolumeSize": size, "Encrypted": True, "DeleteOnTermination": True},
            }
            for device, size in _DEVICES[options.ami]
        ],
    }


def _taints(options: Options) -> list[Any]:
    taints: list[Any] = [{"Key": "nvidia.com/gpu", "Effect": "NO_SCHEDULE"}]
    if options.mode is Mode.SHARED:
        taints.append(
            noted(
                {"Key": options.startup_taint, "Effect": "NO_SCHEDULE"},
                "glowplug's agent removes it once the cache is on the node. By this prefix Cluster Autoscaler knows that it "
                "goes away.",
            )
        )
    return taints
