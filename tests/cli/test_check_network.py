"""`glowplug check network` on networks that people have, held in moto's EC2 and EKS: the whole text, with names for ids."""

# ruff: noqa: E501 - whole lines of output

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from inline_snapshot import snapshot

from dev import docs
from glowplug.check.results import Checks
from lab import aws
from tests.aws.conftest import forgotten, front, moto, one_front, topologies
from tests.cli.conftest import Answer, Call
from tests.clocks import SLACK

__all__ = ["forgotten", "front", "moto", "one_front", "topologies"]

pytestmark = pytest.mark.slow

LOAD = ("--size", "67GB", "--nodes", "8", "--instance", "p5.48xlarge")
OURS = {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": "*"}


@pytest.fixture
def check(call: Call, front: aws.Front) -> Callable[..., Answer]:
    """`glowplug check network …` before this front (whose variables come after those that `quiet` removes)."""

    def run(*arguments: str) -> Answer:
        return call("check", "network", *arguments)

    return run


Check = Callable[..., Answer]


def test_eksctls_default(check: Check, topologies: aws.Topologies) -> None:
    made = topologies.eksctl("eksctl")
    answer = check("--cluster", "eksctl", *LOAD)
    assert (answer.status, answer.err) == (1, "")
    assert made.named(answer.out) == snapshot("""\
pass     3 subnets of <vpc> in us-west-2 (tag karpenter.sh/discovery=eksctl)
         hint: a node group or EC2NodeClass may select other subnets, which AWS does not say; name those with --subnet
warn     <private-a> (private-a, us-west-2a): NAT gateway <nat>, $0.045 per GB, 5 growing to 100 Gbit/s for all behind it
warn     <private-b> (private-b, us-west-2b): NAT gateway <nat>, $0.045 per GB, 5 growing to 100 Gbit/s for all behind it
warn     <private-c> (private-c, us-west-2c): NAT gateway <nat>, $0.045 per GB, 5 growing to 100 Gbit/s for all behind it
         hint: aws ec2 create-vpc-endpoint --region us-west-2 --vpc-id <vpc> --vpc-endpoint-type Gateway --service-name com.amazonaws.us-west-2.s3 --route-table-ids <rtb-private-a> <rtb-private-b> <rtb-private-c> (or the CloudFormation of `glowplug render network`)
warn     NAT gateway <nat> in us-west-2a carries the S3 traffic of 3 subnets; from us-west-2b, us-west-2c it crosses zones, which costs extra, and ends when us-west-2a fails
         hint: a gateway endpoint takes S3 off it; for the rest, one NAT gateway per zone
pass     <vpc> answers names
warn     67 GB on 8 nodes at once: gateway endpoint 11.6 s at best (S3's request rate for one prefix bounds it), free; NAT 42.9 s at best (the NAT gateway bounds it; 14 min 18 s before it has grown), $24.12 each time

5 warn, 2 pass
""")


def test_a_nat_gateway_per_zone(check: Check, topologies: aws.Topologies) -> None:
    made = topologies.nat_per_zone("per-zone")
    answer = check("--cluster", "per-zone", *LOAD)
    assert answer.status == 1
    assert made.named(answer.out) == snapshot("""\
pass     3 subnets of <vpc> in us-west-2 (tag karpenter.sh/discovery=per-zone)
         hint: a node group or EC2NodeClass may select other subnets, which AWS does not say; name those with --subnet
warn     <private-a> (private-a, us-west-2a): NAT gateway <nat-a>, $0.045 per GB, 5 growing to 100 Gbit/s for all behind it
warn     <private-b> (private-b, us-west-2b): NAT gateway <nat-b>, $0.045 per GB, 5 growing to 100 Gbit/s for all behind it
warn     <private-c> (private-c, us-west-2c): NAT gateway <nat-c>, $0.045 per GB, 5 growing to 100 Gbit/s for all behind it
         hint: aws ec2 create-vpc-endpoint --region us-west-2 --vpc-id <vpc> --vpc-endpoint-type Gateway --service-name com.amazonaws.us-west-2.s3 --route-table-ids <rtb-private-a> <rtb-private-b> <rtb-private-c> (or the CloudFormation of `glowplug render network`)
pass     NAT gateway <nat-a> in us-west-2a carries the S3 traffic of 1 subnet
pass     NAT gateway <nat-b> in us-west-2b carries the S3 traffic of 1 subnet
pass     NAT gateway <nat-c> in us-west-2c carries the S3 traffic of 1 subnet
pass     <vpc> answers names
warn     67 GB on 8 nodes at once: gateway endpoint 11.6 s at best (S3's request rate for one prefix bounds it), free; NAT 14.3 s at best (the NAT gateway bounds it; 4 min 46 s before it has grown), $24.12 each time

4 warn, 5 pass
""")


def test_the_endpoint_in_every_route_table(check: Check, topologies: aws.Topologies) -> None:
    made = topologies.with_endpoint("whole")
    topologies.bucket("weights", "us-west-2")
    answer = check("--cluster", "whole", "s3://weights/llama", *LOAD)
    assert answer.status == 0
    assert made.named(answer.out) == snapshot("""\
pass     3 subnets of <vpc> in us-west-2 (tag karpenter.sh/discovery=whole)
         hint: a node group or EC2NodeClass may select other subnets, which AWS does not say; name those with --subnet
pass     <private-a> (private-a, us-west-2a): gateway endpoint <vpce>, free of charge
pass     <private-b> (private-b, us-west-2b): gateway endpoint <vpce>, free of charge
pass     <private-c> (private-c, us-west-2c): gateway endpoint <vpce>, free of charge
pass     gateway endpoint <vpce>: available, in every route table of these subnets (3)
pass     the policy of <vpce> lets s3://weights be read
pass     <vpc> answers names
pass     s3://weights is in us-west-2, as the subnets are
pass     67 GB on 8 nodes at once: gateway endpoint 11.6 s at best (S3's request rate for one prefix bounds it), free

9 pass
""")


def test_the_endpoint_forgotten_in_one_route_table(check: Check, forgotten: aws.Made) -> None:
    answer = check("--cluster", "forgotten")
    assert answer.status == 1
    assert forgotten.named(answer.out) == snapshot("""\
pass     3 subnets of <vpc> in us-west-2 (tag karpenter.sh/discovery=forgotten)
         hint: a node group or EC2NodeClass may select other subnets, which AWS does not say; name those with --subnet
pass     <private-a> (private-a, us-west-2a): gateway endpoint <vpce>, free of charge
pass     <private-b> (private-b, us-west-2b): gateway endpoint <vpce>, free of charge
warn     <private-c> (private-c, us-west-2c): NAT gateway <nat-c>, $0.045 per GB, 5 growing to 100 Gbit/s for all behind it; gateway endpoint <vpce> is not in its route table <rtb-private-c>
warn     gateway endpoint <vpce>: missing in 1 of 3 route tables of these subnets: <rtb-private-c>
         hint: aws ec2 modify-vpc-endpoint --region us-west-2 --vpc-endpoint-id <vpce> --add-route-table-ids <rtb-private-c>
pass     the policy of <vpce> lets every bucket be read
pass     NAT gateway <nat-c> in us-west-2c carries the S3 traffic of 1 subnet
pass     <vpc> answers names

2 warn, 6 pass
""")


def test_the_endpoint_in_the_main_route_table_only(check: Check, topologies: aws.Topologies) -> None:
    made = topologies.endpoint_on_main("main")
    answer = check("--cluster", "main")
    assert answer.status == 1
    assert made.named(answer.out) == snapshot("""\
pass     3 subnets of <vpc> in us-west-2 (tag karpenter.sh/discovery=main)
         hint: a node group or EC2NodeClass may select other subnets, which AWS does not say; name those with --subnet
warn     <private-a> (private-a, us-west-2a): NAT gateway <nat-a>, $0.045 per GB, 5 growing to 100 Gbit/s for all behind it; gateway endpoint <vpce> is not in its route table <rtb-private-a>
warn     <private-b> (private-b, us-west-2b): NAT gateway <nat-b>, $0.045 per GB, 5 growing to 100 Gbit/s for all behind it; gateway endpoint <vpce> is not in its route table <rtb-private-b>
warn     <private-c> (private-c, us-west-2c): NAT gateway <nat-c>, $0.045 per GB, 5 growing to 100 Gbit/s for all behind it; gateway endpoint <vpce> is not in its route table <rtb-private-c>
warn     gateway endpoint <vpce>: missing in 3 of 3 route tables of these subnets: <rtb-private-a>, <rtb-private-b>, <rtb-private-c>; it is in the main route table <rtb-main>, which subnets with a table of their own do not use
         hint: aws ec2 modify-vpc-endpoint --region us-west-2 --vpc-endpoint-id <vpce> --add-route-table-ids <rtb-private-a> <rtb-private-b> <rtb-private-c>
pass     NAT gateway <nat-a> in us-west-2a carries the S3 traffic of 1 subnet
pass     NAT gateway <nat-b> in us-west-2b carries the S3 traffic of 1 subnet
pass     NAT gateway <nat-c> in us-west-2c carries the S3 traffic of 1 subnet
pass     <vpc> answers names

4 warn, 5 pass
""")


def test_a_policy_that_keeps_the_bucket_out(check: Check, topologies: aws.Topologies) -> None:
    other = ["arn:aws:s3:::other", "arn:aws:s3:::other/*"]
    made = topologies.with_endpoint("strict", policy={"Statement": [{**OURS, "Resource": other}]})
    topologies.bucket("weights", "us-west-2")
    answer = check("--cluster", "strict", "s3://weights/llama")
    assert answer.status == 1
    assert made.named(answer.out) == snapshot("""\
pass     3 subnets of <vpc> in us-west-2 (tag karpenter.sh/discovery=strict)
         hint: a node group or EC2NodeClass may select other subnets, which AWS does not say; name those with --subnet
pass     <private-a> (private-a, us-west-2a): gateway endpoint <vpce>, free of charge
pass     <private-b> (private-b, us-west-2b): gateway endpoint <vpce>, free of charge
pass     <private-c> (private-c, us-west-2c): gateway endpoint <vpce>, free of charge
pass     gateway endpoint <vpce>: available, in every route table of these subnets (3)
fail     the policy of <vpce> refuses s3://weights: no statement allows s3:ListBucket on arn:aws:s3:::weights
         hint: allow s3:ListBucket and s3:GetObject on it: aws ec2 modify-vpc-endpoint --region us-west-2 --vpc-endpoint-id <vpce> --policy-document file://policy.json
warn     the policy of <vpce> does not let image layers through: Amazon ECR has them in prod-us-west-2-starport-layer-bucket
         hint: allow s3:GetObject on arn:aws:s3:::prod-us-west-2-starport-layer-bucket/* in it
pass     <vpc> answers names
pass     s3://weights is in us-west-2, as the subnets are

1 fail, 1 warn, 7 pass
""")


def test_a_policy_with_a_condition(check: Check, topologies: aws.Topologies) -> None:
    condition = {"StringEquals": {"aws:PrincipalOrgID": "o-1"}}
    made = topologies.with_endpoint("condition", policy={"Statement": [{**OURS, "Condition": condition}]})
    topologies.bucket("weights", "us-west-2")
    answer = check("--cluster", "condition", "s3://weights/llama")
    assert answer.status == 0
    assert made.named(answer.out) == snapshot("""\
pass     3 subnets of <vpc> in us-west-2 (tag karpenter.sh/discovery=condition)
         hint: a node group or EC2NodeClass may select other subnets, which AWS does not say; name those with --subnet
pass     <private-a> (private-a, us-west-2a): gateway endpoint <vpce>, free of charge
pass     <private-b> (private-b, us-west-2b): gateway endpoint <vpce>, free of charge
pass     <private-c> (private-c, us-west-2c): gateway endpoint <vpce>, free of charge
pass     gateway endpoint <vpce>: available, in every route table of these subnets (3)
unknown  whether the policy of <vpce> lets s3://weights be read cannot be known from here: s3:ListBucket is allowed under a condition
pass     <vpc> answers names
pass     s3://weights is in us-west-2, as the subnets are

1 unknown, 7 pass
""")


def test_fully_private(check: Check, topologies: aws.Topologies) -> None:
    made = topologies.fully_private("private")
    answer = check("--cluster", "private", *LOAD)
    assert answer.status == 1
    assert made.named(answer.out) == snapshot("""\
pass     3 subnets of <vpc> in us-west-2 (tag karpenter.sh/discovery=private)
         hint: a node group or EC2NodeClass may select other subnets, which AWS does not say; name those with --subnet
warn     <private-a> (private-a, us-west-2a): interface endpoint <vpce-interface>, $0.01 per GB, 10 growing to 100 Gbit/s per zone
warn     <private-b> (private-b, us-west-2b): interface endpoint <vpce-interface>, $0.01 per GB, 10 growing to 100 Gbit/s per zone
warn     <private-c> (private-c, us-west-2c): interface endpoint <vpce-interface>, $0.01 per GB, 10 growing to 100 Gbit/s per zone; it has no address in us-west-2c, so traffic crosses zones
         hint: aws ec2 create-vpc-endpoint --region us-west-2 --vpc-id <vpc> --vpc-endpoint-type Gateway --service-name com.amazonaws.us-west-2.s3 --route-table-ids <rtb-private-a> <rtb-private-b> <rtb-private-c> (or the CloudFormation of `glowplug render network`); then aws ec2 modify-vpc-endpoint --region us-west-2 --vpc-endpoint-id <vpce-interface> --dns-options PrivateDnsOnlyForInboundResolverEndpoint=true
pass     interface endpoint <vpce-interface>: available, with private DNS: S3's names lead to it in this VPC
pass     the policy of <vpce-interface> lets every bucket be read
pass     <vpc> answers names
warn     67 GB on 8 nodes at once: gateway endpoint 11.6 s at best (S3's request rate for one prefix bounds it), free; interface endpoint 21.4 s at best (the interface endpoint bounds it; 3 min 34 s before it has grown), $5.36 each time

4 warn, 4 pass
""")


def test_fully_private_without_private_dns(check: Check, topologies: aws.Topologies) -> None:
    made = topologies.fully_private("named", private_dns=False)
    answer = check("--cluster", "named")
    assert answer.status == 1
    assert made.named(answer.out) == snapshot("""\
pass     3 subnets of <vpc> in us-west-2 (tag karpenter.sh/discovery=named)
         hint: a node group or EC2NodeClass may select other subnets, which AWS does not say; name those with --subnet
warn     <private-a> (private-a, us-west-2a): S3's names lead nowhere (no route leads there in route table <rtb-private-a>); only <vpce-interface>'s own names reach it
warn     <private-b> (private-b, us-west-2b): S3's names lead nowhere (no route leads there in route table <rtb-private-b>); only <vpce-interface>'s own names reach it
warn     <private-c> (private-c, us-west-2c): S3's names lead nowhere (no route leads there in route table <rtb-private-c>); only <vpce-interface>'s own names reach it
         hint: aws ec2 create-vpc-endpoint --region us-west-2 --vpc-id <vpc> --vpc-endpoint-type Gateway --service-name com.amazonaws.us-west-2.s3 --route-table-ids <rtb-private-a> <rtb-private-b> <rtb-private-c> (or the CloudFormation of `glowplug render network`); or aws ec2 modify-vpc-endpoint --region us-west-2 --vpc-endpoint-id <vpce-interface> --private-dns-enabled
pass     interface endpoint <vpce-interface>: available, without private DNS: only clients that name it use it
pass     <vpc> answers names

3 warn, 3 pass
""")


def test_no_way_at_all(check: Check, topologies: aws.Topologies) -> None:
    made = topologies.isolated("isolated")
    answer = check("--cluster", "isolated", *LOAD)
    assert answer.status == 1
    assert made.named(answer.out) == snapshot("""\
pass     3 subnets of <vpc> in us-west-2 (tag karpenter.sh/discovery=isolated)
         hint: a node group or EC2NodeClass may select other subnets, which AWS does not say; name those with --subnet
fail     <private-a> (private-a, us-west-2a): S3 is not reached: no route leads there in route table <rtb-private-a>
fail     <private-b> (private-b, us-west-2b): S3 is not reached: no route leads there in route table <rtb-private-b>
fail     <private-c> (private-c, us-west-2c): S3 is not reached: no route leads there in route table <rtb-private-c>
         hint: aws ec2 create-vpc-endpoint --region us-west-2 --vpc-id <vpc> --vpc-endpoint-type Gateway --service-name com.amazonaws.us-west-2.s3 --route-table-ids <rtb-private-a> <rtb-private-b> <rtb-private-c> (or the CloudFormation of `glowplug render network`)
pass     <vpc> answers names

3 fail, 2 pass
""")


def test_public_subnets(check: Check, topologies: aws.Topologies) -> None:
    made = topologies.public_only("public")
    answer = check("--cluster", "public", *LOAD)
    assert answer.status == 1
    assert made.named(answer.out) == snapshot("""\
pass     3 subnets of <vpc> in us-west-2 (tag karpenter.sh/discovery=public)
         hint: a node group or EC2NodeClass may select other subnets, which AWS does not say; name those with --subnet
warn     <public-a> (public-a, us-west-2a): internet gateway <igw>, free of charge, at 50% of the bandwidth (5 Gbit/s below 32 vCPUs)
warn     <public-b> (public-b, us-west-2b): internet gateway <igw>, free of charge, at 50% of the bandwidth (5 Gbit/s below 32 vCPUs)
warn     <public-c> (public-c, us-west-2c): internet gateway <igw>, free of charge, at 50% of the bandwidth (5 Gbit/s below 32 vCPUs)
         hint: aws ec2 create-vpc-endpoint --region us-west-2 --vpc-id <vpc> --vpc-endpoint-type Gateway --service-name com.amazonaws.us-west-2.s3 --route-table-ids <rtb-public> (or the CloudFormation of `glowplug render network`)
pass     <vpc> answers names
warn     67 GB on 8 nodes at once: gateway endpoint 11.6 s at best (S3's request rate for one prefix bounds it), free; internet 11.6 s at best (S3's request rate for one prefix bounds it), free

4 warn, 2 pass
""")


def test_a_transit_gateway(check: Check, topologies: aws.Topologies) -> None:
    made = topologies.transit("transit")
    answer = check("--cluster", "transit")
    assert answer.status == 0
    assert made.named(answer.out) == snapshot("""\
pass     3 subnets of <vpc> in us-west-2 (tag karpenter.sh/discovery=transit)
         hint: a node group or EC2NodeClass may select other subnets, which AWS does not say; name those with --subnet
unknown  <private-a> (private-a, us-west-2a): the transit gateway <tgw>: what lies behind it cannot be seen from here
unknown  <private-b> (private-b, us-west-2b): the transit gateway <tgw>: what lies behind it cannot be seen from here
unknown  <private-c> (private-c, us-west-2c): the transit gateway <tgw>: what lies behind it cannot be seen from here
         hint: aws ec2 create-vpc-endpoint --region us-west-2 --vpc-id <vpc> --vpc-endpoint-type Gateway --service-name com.amazonaws.us-west-2.s3 --route-table-ids <rtb-private-a> <rtb-private-b> <rtb-private-c> (or the CloudFormation of `glowplug render network`)
pass     <vpc> answers names

3 unknown, 2 pass
""")


def test_auto_mode(check: Check, topologies: aws.Topologies) -> None:
    made = topologies.auto_mode("auto-mode")
    answer = check("--cluster", "auto-mode")
    assert answer.status == 1
    assert made.named(answer.out) == snapshot("""\
pass     3 subnets of <vpc> in us-west-2 (subnet of cluster auto-mode)
         hint: Auto Mode: a NodeClass may select other subnets, which AWS does not say; name those with --subnet
warn     <private-a> (private-a, us-west-2a): NAT gateway <nat>, $0.045 per GB, 5 growing to 100 Gbit/s for all behind it
warn     <private-b> (private-b, us-west-2b): NAT gateway <nat>, $0.045 per GB, 5 growing to 100 Gbit/s for all behind it
warn     <private-c> (private-c, us-west-2c): NAT gateway <nat>, $0.045 per GB, 5 growing to 100 Gbit/s for all behind it
         hint: aws ec2 create-vpc-endpoint --region us-west-2 --vpc-id <vpc> --vpc-endpoint-type Gateway --service-name com.amazonaws.us-west-2.s3 --route-table-ids <rtb-private-a> <rtb-private-b> <rtb-private-c> (or the CloudFormation of `glowplug render network`)
warn     NAT gateway <nat> in us-west-2a carries the S3 traffic of 3 subnets; from us-west-2b, us-west-2c it crosses zones, which costs extra, and ends when us-west-2a fails
         hint: a gateway endpoint takes S3 off it; for the rest, one NAT gateway per zone
pass     <vpc> answers names

4 warn, 2 pass
""")


def test_a_nat_gateway_that_is_gone(check: Check, front: aws.Front, topologies: aws.Topologies) -> None:
    made = topologies.nat_per_zone("gone")
    gone = f"(<natGatewayId>{made.ids['nat-b']}</natGatewayId>(?:(?!</item>).)*?<state>)active"
    front.replace("ec2:DescribeRouteTables", gone, r"\1blackhole")
    answer = check("--subnet", made.ids["private-a"], "--subnet", made.ids["private-b"])
    assert answer.status == 1
    assert made.named(answer.out) == snapshot("""\
pass     2 subnets of <vpc> in us-west-2
warn     <private-a> (private-a, us-west-2a): NAT gateway <nat-a>, $0.045 per GB, 5 growing to 100 Gbit/s for all behind it
fail     <private-b> (private-b, us-west-2b): S3 is not reached: NAT gateway <nat-b>, but its route 0.0.0.0/0 is a blackhole: <nat-b> is gone
         hint: aws ec2 create-vpc-endpoint --region us-west-2 --vpc-id <vpc> --vpc-endpoint-type Gateway --service-name com.amazonaws.us-west-2.s3 --route-table-ids <rtb-private-a> <rtb-private-b> (or the CloudFormation of `glowplug render network`)
pass     NAT gateway <nat-a> in us-west-2a carries the S3 traffic of 1 subnet
pass     <vpc> answers names

1 fail, 1 warn, 3 pass
""")


def test_an_endpoint_that_waits_to_be_accepted(check: Check, front: aws.Front, topologies: aws.Topologies) -> None:
    made = topologies.with_endpoint("waiting")
    front.replace("ec2:DescribeVpcEndpoints", "<state>available", "<state>pendingAcceptance")
    answer = check("--subnet", made.ids["private-a"])
    assert answer.status == 0
    assert made.named(answer.out) == snapshot("""\
pass     1 subnet of <vpc> in us-west-2
unknown  <private-a> (private-a, us-west-2a): gateway endpoint <vpce>, but the endpoint is pendingacceptance, not available
unknown  gateway endpoint <vpce>: pendingacceptance: not available yet
pass     the policy of <vpce> lets every bucket be read
pass     <vpc> answers names

2 unknown, 3 pass
""")


def test_dns_is_off(check: Check, topologies: aws.Topologies) -> None:
    made = topologies.with_endpoint("dumb")
    topologies.run("modify_vpc_attribute", VpcId=made.vpc, EnableDnsSupport={"Value": False})
    answer = check("--subnet", made.ids["private-a"])
    assert answer.status == 1
    assert made.named(answer.out) == snapshot("""\
pass     1 subnet of <vpc> in us-west-2
pass     <private-a> (private-a, us-west-2a): gateway endpoint <vpce>, free of charge
pass     gateway endpoint <vpce>: available, in every route table of these subnets (1)
pass     the policy of <vpce> lets every bucket be read
fail     <vpc> does not answer names (enableDnsSupport is off): S3's address is found only by a resolver of your own
         hint: aws ec2 modify-vpc-attribute --region us-west-2 --vpc-id <vpc> --enable-dns-support

1 fail, 4 pass
""")


def test_a_bucket_of_another_region(check: Check, topologies: aws.Topologies) -> None:
    made = topologies.with_endpoint("far")
    topologies.bucket("far-away", "eu-central-1")
    answer = check("--cluster", "far", "s3://far-away/m")
    assert answer.status == 1
    assert made.named(answer.out) == snapshot("""\
pass     3 subnets of <vpc> in us-west-2 (tag karpenter.sh/discovery=far)
         hint: a node group or EC2NodeClass may select other subnets, which AWS does not say; name those with --subnet
pass     <private-a> (private-a, us-west-2a): gateway endpoint <vpce>, free of charge
pass     <private-b> (private-b, us-west-2b): gateway endpoint <vpce>, free of charge
pass     <private-c> (private-c, us-west-2c): gateway endpoint <vpce>, free of charge
pass     gateway endpoint <vpce>: available, in every route table of these subnets (3)
pass     the policy of <vpce> lets every bucket be read
pass     <vpc> answers names
warn     s3://far-away is in eu-central-1, which no endpoint of us-west-2 serves: it goes by NAT gateway and costs $0.02 per GB besides (the price between us-east-1 and us-west-2)
         hint: copy it: aws s3 sync --source-region eu-central-1 --region us-west-2 s3://far-away s3://…

1 warn, 7 pass
""")


def test_several_buckets_are_looked_at_once_each(check: Check, forgotten: aws.Made, topologies: aws.Topologies) -> None:
    topologies.bucket("weights", "us-west-2")
    answer = check(
        "--subnet",
        forgotten.ids["private-a"],
        "s3://weights/m",
        "--bucket",
        "weights",
        "--store",
        "s3://weights/c",
        "--bucket",
        "nowhere-at-all",
        "--bucket",
        "fast--usw2-az1--x-s3",
        "-o",
        "json",
    )
    found = {one["name"]: one["status"] for one in answer.json["checks"] if one["name"].startswith("bucket:")}
    assert found == {
        "bucket:weights": "pass",
        "bucket:nowhere-at-all": "unknown",
        "bucket:fast--usw2-az1--x-s3": "unknown",
    }


def test_the_document(check: Check, forgotten: aws.Made) -> None:
    answer = check("--cluster", "forgotten", *LOAD, "-o", "json")
    assert answer.status == 1
    assert answer.err == ""
    schema = json.loads(docs.schemas()["docs/schema/check-1.json"])
    jsonschema.Draft202012Validator(schema).validate(answer.json)
    assert answer.json["schema"] == Checks().schema == "glowplug.check/1"
    by_name: dict[str, Any] = {one["name"]: one for one in answer.json["checks"]}
    lacking = by_name[f"path:{forgotten.ids['private-c']}"]
    assert lacking["status"] == "warn"
    assert lacking["evidence"] == {
        "subnet": forgotten.ids["private-c"],
        "name": "private-c",
        "zone": "us-west-2c",
        "vpc": forgotten.vpc,
        "route_table": forgotten.ids["rtb-private-c"],
        "own_route_table": True,
        "path": "nat",
        "via": forgotten.ids["nat-c"],
        "family": "ipv4",
        "usd_per_gb": 0.045,
    }
    assert lacking["hint"] == (
        f"aws ec2 modify-vpc-endpoint --region us-west-2 --vpc-endpoint-id {forgotten.ids['vpce']} "
        f"--add-route-table-ids {forgotten.ids['rtb-private-c']}"
    )
    assert by_name["fleet"]["evidence"]["nat"]["usd"] == pytest.approx(24.12)
    assert by_name["fleet"]["evidence"]["gateway"]["usd"] == 0


@pytest.mark.parametrize(
    "action",
    ["ec2:DescribeNatGateways", "ec2:DescribePrefixLists", "ec2:DescribeVpcAttribute", "ec2:DescribeVpcEndpoints"],
)
def test_what_one_right_hides_is_unknown_and_the_rest_is_said(
    check: Check, front: aws.Front, forgotten: aws.Made, action: str
) -> None:
    front.add(aws.Refusal("UnauthorizedOperation", "You are not authorized."), action)
    answer = check("--cluster", "forgotten", "-o", "json")
    found = {one["name"]: one for one in answer.json["checks"]}
    assert found[f"aws:{action}"]["status"] == "unknown"
    assert action in found[f"aws:{action}"]["hint"]
    ways = [found[f"path:{forgotten.ids[f'private-{zone}']}"]["evidence"]["path"] for zone in "abc"]
    assert ways == ["gateway", "gateway", "nat"]


@pytest.mark.parametrize("action", ["eks:DescribeCluster", "ec2:DescribeSubnets", "ec2:DescribeRouteTables"])
def test_where_nothing_can_be_asked_the_machine_tells_what_it_can(
    check: Check, front: aws.Front, forgotten: aws.Made, action: str
) -> None:
    code = "AccessDeniedException" if action.startswith("eks") else "UnauthorizedOperation"
    front.add(aws.Refusal(code, "You are not authorized."), action)
    answer = check("--cluster", "forgotten", "-o", "json")
    assert answer.status == 3
    assert answer.err.startswith(f"error[access-denied]: AWS refuses {action}")
    names = [one["name"] for one in answer.json["checks"]]
    assert names == ["aws", "local:instance", "local:region", "local:dns", "local:connect", "local:path"]


def test_why_nothing_can_be_asked_stands_in_one_place(check: Check, front: aws.Front, forgotten: aws.Made) -> None:
    front.add(aws.Refusal("UnauthorizedOperation", "You are not authorized."), "ec2:DescribeSubnets")
    answer = check("--cluster", "forgotten")
    assert answer.out.splitlines()[0] == "unknown  AWS does not let itself be asked: the error says why"
    assert "not authorized" not in answer.out
    assert answer.err.count("You are not authorized.") == 1


def test_aws_that_is_silent_is_left_at_the_deadline(check: Check, front: aws.Front, forgotten: aws.Made) -> None:
    front.add(aws.Hang(), "ec2:DescribeRouteTables")
    begin = time.monotonic()
    answer = check("--cluster", "forgotten", "--timeout", "10s")
    assert time.monotonic() - begin < 10 + SLACK
    assert answer.status == 3
    assert answer.err.startswith("error[timeout]: out of time while asking AWS (ec2:DescribeRouteTables)")
    assert "fail" not in answer.out


def test_on_no_instance_and_without_a_question(check: Check, front: aws.Front) -> None:
    answer = check()
    assert answer.status == 0
    assert [line.split()[0] for line in answer.out.splitlines()[:5]] == ["unknown", "pass", "pass", "pass", "unknown"]
    assert front.seen == []


def test_on_an_instance_its_own_subnet_is_looked_up(
    check: Check, forgotten: aws.Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    with aws.metadata(aws.instance(forgotten.ids["private-c"], "c")) as service:
        monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service)
        answer = check("-o", "json")
    found = {one["name"]: one for one in answer.json["checks"]}
    assert found["local:instance"]["status"] == "pass"
    assert found[f"path:{forgotten.ids['private-c']}"]["evidence"]["path"] == "nat"
    assert answer.status == 1


def test_an_instance_without_rights_tells_what_it_can(
    check: Check, front: aws.Front, forgotten: aws.Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    front.add(aws.Refusal("UnauthorizedOperation"), "ec2:DescribeSubnets")
    with aws.metadata(aws.instance(forgotten.ids["private-c"], "c")) as service:
        monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service)
        answer = check("-o", "json")
    found = {one["name"]: one for one in answer.json["checks"]}
    assert (found["aws"]["status"], found["aws"]["evidence"]) == ("unknown", {"code": "access-denied"})
    assert (answer.status, answer.err) == (0, "")


def test_without_boto3(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "boto3" else real(name))
    answer = check("--cluster", "prod")
    assert answer.status == 3
    assert "error[missing-extra]" in answer.err
    assert "extra `aws`" in answer.err


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--cluster", "nope"], 1, "no EKS cluster 'nope' in us-west-2"),
        (["--subnet", "subnet-1"], 1, "no subnet subnet-1"),
        (["--vpc", "vpc-1"], 1, "no subnet of vpc-1"),
        (["--cluster", "a", "--vpc", "b"], 2, "exclude each other"),
        (["--region", "x y", "--vpc", "b"], 2, "not a region"),
        (["--size", "7"], 2, "no model is that small"),
        (["--nodes", "0"], 2, "nodes"),
        (["--instance", "p9.large"], 2, "p9.large"),
        (["--timeout", "soon"], 2, "not a duration"),
        (["--bucket", "abc/b\x1b"], 2, "not a bucket of S3"),
        (["--bucket", "gs://b"], 2, "not a bucket of S3"),
        (["--bucket", ""], 2, "not a bucket of S3"),
        (["--bucket", "ab"], 2, "not a bucket of S3"),
        (["--bucket", "B" * 5], 2, "not a bucket of S3"),
        (["--bucket", "a" * 64], 2, "not a bucket of S3"),
        (["--bucket", "a..b"], 2, "not a bucket of S3"),
        (["--bucket", "abc?x"], 2, "not a bucket of S3"),
        (["--store", "file:///srv"], 2, "--store is no address in S3"),
        (["--store", "https://bucket"], 2, "--store is no address in S3"),
        (["--cluster", ""], 2, "--cluster is empty"),
        (["--vpc", ""], 2, "--vpc is empty"),
        (["--subnet", "subnet-1", "--subnet", ""], 2, "--subnet is empty"),
        (["--region", ""], 2, "--region is empty"),
        (["gs://b/m"], 2, "is not in S3"),
        (["s3:/b"], 2, "two slashes"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_questions(check: Check, arguments: list[str], status: int, words: str) -> None:
    answer = check(*arguments)
    assert answer.status == status
    assert words in answer.err


@pytest.mark.parametrize("option", ["--store", "--bucket"])
def test_a_password_in_an_address_is_not_repeated(check: Check, option: str) -> None:
    answer = check(option, "s3://user:hunter2@bucket")
    assert answer.status == 2
    assert "hunter2" not in answer.out + answer.err


def test_help_has_examples(check: Check) -> None:
    answer = check("--help")
    assert answer.status == 0
    assert "glowplug check network --cluster prod" in answer.out
    assert "Exit status" in answer.out


def test_a_size_may_stand_in_for_the_model(check: Check, forgotten: aws.Made) -> None:
    answer = check("67GB", "--subnet", forgotten.ids["private-c"], "--nodes", "8", "-o", "json")
    fleet = next(one for one in answer.json["checks"] if one["name"] == "fleet")
    assert fleet["evidence"]["bytes"] == 67_000_000_000


def test_a_profile_of_aws_is_enough(
    check: Check, forgotten: aws.Made, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text("[profile mine]\nregion = us-west-2\naws_access_key_id = a\naws_secret_access_key = b\n")
    for name in ("AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "mine")
    assert check("--cluster", "forgotten").status == 1
