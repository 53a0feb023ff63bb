"""The S3 gateway endpoint: weights and cache past the NAT gateway, without its shared bandwidth and its price for each gigabyte.

A route table takes the endpoint's route for everything behind it, not for inference pods alone, and image layers come from S3 too.
So a policy that names only our buckets would stop nodes from pulling images. The policy here names what is needed, ours and the
nodes', and lets everything else through until somebody who has looked says otherwise (the parameter OtherS3Access).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from glowplug.manifests.writing import Noted, noted
from glowplug.render import cloudformation, permissions
from glowplug.render.cloudformation import parameter, ref, sub

if TYPE_CHECKING:
    from glowplug.render.cloudformation import Parameters, Template
    from glowplug.render.options import Options
    from glowplug.render.permissions import Statement

_DESCRIPTION: Final = (
    "Gateway endpoint for S3: nodes in private subnets reach S3 without the NAT gateway. Name the route table of every subnet that "
    "holds GPU nodes; one that is missing keeps the path through NAT. A route table that has such an endpoint already refuses a "
    "second one. Connections to S3 that are open while it is made are cut once. Buckets of other regions still go through NAT."
)
# Objects in S3 that nodes read without anybody asking for them.
_NODES: Final = {
    "ImageLayers": (
        "Layers of images in ECR (EKS's own add-ons among them), and of registry.k8s.io, which sends AWS's addresses to S3.",
        ("prod-${AWS::Region}-starport-layer-bucket", "prod-registry-k8s-io-${AWS::Region}"),
    ),
    "SystemPackages": (
        "Packages of Amazon Linux 2023, and what Systems Manager's agent fetches where nodes run it.",
        (
            "al2023-repos-${AWS::Region}-de612dc2",
            "amazon-ssm-${AWS::Region}",
            "amazon-ssm-packages-${AWS::Region}",
            "aws-ssm-document-attachments-${AWS::Region}",
            "patch-baseline-snapshot-${AWS::Region}",
            "${AWS::Region}-birdwatcher-prod",
        ),
    ),
}

_OTHERS: Final[Parameters] = {
    "OtherS3Access": parameter(
        "String",
        "Whether S3 requests that the policy does not name may pass. Deny holds back everything else behind these route tables, "
        "of other workloads too: look at what they use first.",
        "Allow",
        AllowedValues=["Allow", "Deny"],
    )
}


def template(options: Options) -> Template:
    """The endpoint, with a policy where MODEL or --store names a bucket. Raises BadInputError for an s3:// URL that is none."""
    ours = _ours(options)
    policy = {"PolicyDocument": {"Version": "2012-10-17", "Statement": [*ours, *_nodes(), _the_rest()]}} if ours else {}
    endpoint: dict[str, Any] = {
        "VpcEndpointType": "Gateway",
        "ServiceName": sub("com.amazonaws.${AWS::Region}.s3"),
        "VpcId": ref("VpcId"),
        "RouteTableIds": noted(
            ref("RouteTableIds"), "Of every subnet with GPU nodes; `glowplug check network` lists them."
        ),
        **policy,
    }
    return cloudformation.template(
        _DESCRIPTION,
        _where(options) | (_OTHERS if policy else {}),
        {"S3Endpoint": {"Type": "AWS::EC2::VPCEndpoint", "Properties": endpoint}},
        {"S3EndpointId": {"Description": "For bucket policies: aws:SourceVpce.", "Value": ref("S3Endpoint")}},
        {"OthersAllowed": {"Fn::Equals": [ref("OtherS3Access"), "Allow"]}} if policy else None,
    )


def text(options: Options) -> str:
    """What `glowplug render network` prints."""
    return cloudformation.text(template(options))


def notes(options: Options) -> tuple[str, ...]:
    """What a person still has to do, in sentences for stderr."""
    return cloudformation.asks(template(options))


def _where(options: Options) -> Parameters:
    tables = ",".join(options.route_tables) or None
    return {
        "VpcId": parameter("AWS::EC2::VPC::Id", "VPC of the cluster.", options.vpc),
        "RouteTableIds": parameter("CommaDelimitedList", "Route tables of all subnets with GPU nodes.", tables),
    }


def _ours(options: Options) -> list[Statement]:
    """What glowplug and the engines use. A policy here bounds what passes and grants nothing; roles still have to allow it."""
    model = permissions.place(options.model, "Model") if options.model else None
    store = permissions.place(options.store, "Store") if options.store else None
    found = [*(permissions.read_model(model) if model else []), *(permissions.pass_store(store) if store else [])]
    return [_for_everybody(statement) for statement in found]


def _nodes() -> list[Noted]:
    return [
        noted(_for_everybody(permissions.read_buckets(sid, buckets)), why) for sid, (why, buckets) in _NODES.items()
    ]


def _the_rest() -> Noted:
    everything = {"Sid": "Others", "Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": "*"}
    return noted(
        {"Fn::If": ["OthersAllowed", everything, ref("AWS::NoValue")]},
        "Everything else that is behind these route tables. Roles and bucket policies still decide; see OtherS3Access.",
    )


def _for_everybody(statement: Statement) -> Statement:
    """With the principal that an endpoint's policy has to name. Image layers come by signed URLs of others, so it is everybody."""
    sid, effect, *rest = statement.items()
    return dict([sid, effect, ("Principal", "*"), *rest])
