"""The S3 endpoint: for every route table, and nothing behind it stops working unless somebody asks for that."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from glowplug.core.errors import BadInputError, UsageError
from glowplug.render import network
from glowplug.render.options import Options
from tests.render import deployed

VPC = "vpc-0123456789abcdef0"
TABLES = ("rtb-0123456789abcdef0", "rtb-0fedcba9876543210")
GIVEN = {"VpcId": VPC, "RouteTableIds": ",".join(TABLES)}


def options(**changes: Any) -> Options:
    return Options(**{"name": "vllm", "model": "s3://models/qwen/35b", "store": "s3://my-bucket/cache", **changes})


def endpoint(asked: Options, **parameters: str) -> dict[str, Any]:
    (found,) = deployed.deploy(network.text(asked), **(GIVEN | parameters)).values()
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"model": None},
        {"store": None},
        {"model": None, "store": None},
        {"vpc": VPC, "route_tables": TABLES},
        {"model": "s3://models"},
    ],
)
def test_a_template_without_faults(changes: dict[str, Any]) -> None:
    assert deployed.findings(network.text(options(**changes))) == []


@pytest.mark.slow
def test_in_every_region() -> None:
    assert deployed.findings(network.text(options()), deployed.REGIONS) == []


def test_a_gateway_for_s3_in_every_route_table() -> None:
    found = endpoint(options())
    assert found["Type"] == "AWS::EC2::VPCEndpoint"
    assert found["VpcEndpointType"] == "Gateway"
    assert found["ServiceName"] == "com.amazonaws.eu-central-1.s3"
    assert (found["VpcId"], found["RouteTableIds"]) == (VPC, ",".join(TABLES))


def test_deploying_asks_for_what_was_not_given() -> None:
    (note,) = network.notes(options())
    assert note == "deploying asks for VpcId, RouteTableIds"
    with pytest.raises(KeyError, match="VpcId"):
        deployed.deploy(network.text(options()))


def test_nothing_is_asked_for_that_was_given() -> None:
    asked = options(vpc=VPC, route_tables=TABLES)
    assert network.notes(asked) == ()
    (found,) = deployed.deploy(network.text(asked)).values()
    assert (found["VpcId"], found["RouteTableIds"]) == (VPC, ",".join(TABLES))


# What passes the endpoint: (action, what it is done to, with which prefix listed; whether it passes with Deny)
OBJECT, BUCKET = "s3:GetObject", "s3:ListBucket"
REQUESTS = [
    (OBJECT, "arn:aws:s3:::models/qwen/35b/model-00001.safetensors", "", True),
    (BUCKET, "arn:aws:s3:::models", "qwen/35b", True),
    (BUCKET, "arn:aws:s3:::models", "qwen/35b/", True),
    (BUCKET, "arn:aws:s3:::my-bucket", "cache/v1/default/keys/", True),
    (OBJECT, "arn:aws:s3:::my-bucket/cache/v1/control.json", "", True),
    ("s3:PutObject", "arn:aws:s3:::my-bucket/cache/v1/default/keys/a.json", "", True),
    ("s3:DeleteObject", "arn:aws:s3:::my-bucket/cache/v1/default/blobs/a", "", True),
    (OBJECT, "arn:aws:s3:::prod-eu-central-1-starport-layer-bucket/a-layer", "", True),
    (OBJECT, "arn:aws:s3:::prod-registry-k8s-io-eu-central-1/a-layer", "", True),
    (OBJECT, "arn:aws:s3:::al2023-repos-eu-central-1-de612dc2/a-package", "", True),
    (OBJECT, "arn:aws:s3:::amazon-ssm-eu-central-1/the-agent", "", True),
    (OBJECT, "arn:aws:s3:::models/qwen/35b-private/secret", "", False),
    (OBJECT, "arn:aws:s3:::my-bucket/other/object", "", False),
    (BUCKET, "arn:aws:s3:::my-bucket", "other/", False),
    (OBJECT, "arn:aws:s3:::somebody-elses/object", "", False),
    ("s3:PutObject", "arn:aws:s3:::models/qwen/35b/model-00001.safetensors", "", False),
    ("s3:PutObject", "arn:aws:s3:::exfiltration/object", "", False),
]


@pytest.mark.parametrize(("action", "resource", "prefix", "needed"), REQUESTS)
def test_what_passes(action: str, resource: str, prefix: str, needed: bool) -> None:
    context = {"s3:prefix": prefix} if prefix else {}
    passes = {
        choice: deployed.allows(
            endpoint(options(), OtherS3Access=choice)["PolicyDocument"]["Statement"], action, resource, context
        )
        for choice in ("Allow", "Deny")
    }
    assert passes == {"Allow": True, "Deny": needed}


def test_unless_somebody_asks_everything_passes() -> None:
    assert yaml.safe_load(network.text(options()))["Parameters"]["OtherS3Access"]["Default"] == "Allow"


def test_every_statement_is_for_everybody() -> None:
    statements = endpoint(options())["PolicyDocument"]["Statement"]
    assert {statement["Principal"] for statement in statements} == {"*"}


def test_without_buckets_there_is_no_policy_that_could_shut_them_out() -> None:
    assert "PolicyDocument" not in endpoint(options(model=None, store=None))


@pytest.mark.parametrize("model", ["/models/llama", "org/model", "gs://bucket/model"])
def test_a_model_elsewhere_has_no_part_in_it(model: str) -> None:
    statements = endpoint(options(model=model), OtherS3Access="Deny")["PolicyDocument"]["Statement"]
    assert not {"ListModel", "ReadModel"} & {statement["Sid"] for statement in statements}


@pytest.mark.parametrize("url", ["s3://", "s3:///x", "s3://b*/x", "s3://bucket/a*", "s3://bucket/${x}/y"])
def test_an_address_that_a_policy_would_misread_is_refused(url: str) -> None:
    with pytest.raises(BadInputError):
        network.text(options(model=url))
    with pytest.raises((BadInputError, UsageError)):
        network.text(options(store=url))


def test_other_partitions_are_served_too() -> None:
    assert "arn:aws" not in network.text(options())
