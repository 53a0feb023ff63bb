"""check/network.py without a server: what is said of networks that are rare or large."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from glowplug.aws.network import Endpoint, Route, RouteTable
from glowplug.catalog.instances import instance
from glowplug.check import network
from glowplug.check.question import Bucket, Question
from glowplug.check.results import Check
from glowplug.plan.bounds import SAID
from tests.check.test_paths import GATEWAY, INTERFACE, LISTED, NAT, S3, SUBNET
from tests.check.test_paths import network as made
from tests.plan.known import plan


def _checks(topology: network.Topology, question: Question = Question()) -> dict[str, Check]:  # noqa: B008 - frozen
    return {check.name: check for check in network.checks(topology, question)}


def test_a_thousand_subnets_take_no_time() -> None:
    subnets = tuple(replace(SUBNET, id=f"subnet-{number}") for number in range(1000))
    tables = tuple(RouteTable(f"rtb-{one.id}", "vpc-1", False, (one.id,), (NAT,)) for one in subnets)
    topology = replace(made(), subnets=subnets, route_tables=tables)
    begin = time.monotonic()
    found = _checks(topology, Question(size=10**9))
    assert time.monotonic() - begin < 10
    assert sum(name.startswith("path:") for name in found) == 1000
    assert found["path:subnet-999"].hint.count("rtb-") == 1000


def test_interface_and_gateway_endpoint_side_by_side() -> None:
    """Private DNS takes the traffic from the free endpoint; one command gives it back."""
    found = _checks(made(NAT, LISTED, endpoints=(GATEWAY, INTERFACE)))["path:subnet-1"]
    assert found.status == "warn"
    assert found.hint == (
        "aws ec2 modify-vpc-endpoint --region us-west-2 --vpc-endpoint-id vpce-2 "
        "--dns-options PrivateDnsOnlyForInboundResolverEndpoint=true"
    )


def test_several_gateway_endpoints_together_cover_the_tables() -> None:
    second = Endpoint("vpce-3", "vpc-1", S3, "Gateway", "available", ("rtb-2",))
    other = RouteTable("rtb-2", "vpc-1", False, ("subnet-2",), (NAT, Route("pl-1", "vpce-3")))
    topology = made(NAT, LISTED, endpoints=(GATEWAY, second), more=(other,))
    found = _checks(replace(topology, subnets=(SUBNET, replace(SUBNET, id="subnet-2"))))
    statuses = {
        name: found[name].status for name in ("path:subnet-1", "path:subnet-2", "endpoint:vpce-1", "endpoint:vpce-3")
    }
    assert set(statuses.values()) == {"pass"}


def test_a_bucket_of_another_region_without_a_way_out_is_not_reached() -> None:
    bucket = Bucket("far", region="eu-west-1")
    found = _checks(made(LISTED, endpoints=(GATEWAY,)), Question((bucket,)))
    assert found["path:subnet-1"].status == "pass"
    assert (found["bucket:far"].status, found["bucket:far"].evidence["ways"]) == ("fail", {"subnet-1": "none"})


def test_another_regions_endpoint_is_named_as_such() -> None:
    far = replace(INTERFACE, service="com.amazonaws.eu-west-1.s3")
    found = _checks(made(NAT, endpoints=(far,)))
    assert found["endpoint:vpce-2"].message == (
        "interface endpoint vpce-2: for com.amazonaws.eu-west-1.s3, of no use for buckets in us-west-2"
    )
    assert found["path:subnet-1"].evidence["path"] == "nat"


def test_image_layers_come_from_s3_too() -> None:
    ours = '{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::weights*"}}'
    topology = made(LISTED, endpoints=(replace(GATEWAY, policy=ours),))
    found = _checks(topology, Question((Bucket("weights", region="us-west-2"),)))
    assert found["policy:vpce-1:weights"].status == "pass"
    assert found["image-layers:vpce-1"].status == "warn"


def test_a_policy_that_nobody_told_is_unknown() -> None:
    assert _checks(made(LISTED, endpoints=(GATEWAY,)))["policy:vpce-1"].status == "unknown"


def test_a_public_subnet_without_public_addresses() -> None:
    said = {
        public: _checks(replace(made(Route("0.0.0.0/0", "igw-1")), subnets=(replace(SUBNET, public_addresses=public),)))
        for public in (True, False)
    }
    assert "no public address" not in said[True]["path:subnet-1"].message
    assert "no public address" in said[False]["path:subnet-1"].message


def test_nat_gateways_share_the_load() -> None:
    """Two of them carry twice as much: half the time where they are the bound."""
    one = made(NAT)
    second = RouteTable("rtb-2", "vpc-1", False, ("subnet-2",), (replace(NAT, target="nat-2"),))
    two = replace(
        one,
        subnets=(SUBNET, replace(SUBNET, id="subnet-2", zone="us-west-2b")),
        route_tables=(*one.route_tables, second),
        nat_gateways=(*one.nat_gateways, replace(one.nat_gateways[0], id="nat-2")),
    )
    question = Question(nodes=100, size=67 * 10**9)
    first, both = (_checks(topology, question)["fleet"].evidence["nat"] for topology in (one, two))
    assert first["bound"] == "nat"
    assert both["seconds"] * 2 == first["seconds"]
    assert both["usd"] == first["usd"]


SIZES = (10**9, 67 * 10**9, 140 * 10**9)
MACHINES = ("p5.48xlarge", "g6.xlarge", "g6e.12xlarge", "p4d.24xlarge", "g7e.48xlarge")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("nodes", [1, 10])
def test_a_load_takes_as_long_as_plan_says(size: int, name: str, nodes: int) -> None:
    """One model, two commands, one number: the limits are the same."""
    question = Question(nodes=nodes, size=size, machine=instance(name))
    said = _checks(made(NAT, LISTED, endpoints=(GATEWAY,)), question)["fleet"].evidence["gateway"]
    planned = plan(size / 1e9, name, nodes=nodes, streamer_version="0.17.1").estimate
    assert said["seconds"] == pytest.approx(planned.load_seconds_fleet_endpoint, rel=0.01, abs=0.01)
    assert said["bound"] == planned.bound_fleet_endpoint


def test_without_a_machine_no_load_is_faster_than_any_was_seen_to_be() -> None:
    found = _checks(made(NAT, LISTED, endpoints=(GATEWAY,)), Question(size=67 * 10**9))["fleet"]
    assert found.evidence["gateway"]["seconds"] == pytest.approx(67 / 8.12, abs=0.01)
    assert SAID["streamer"] in found.message
    assert "--instance" in found.hint
    assert not _checks(made(NAT), Question(size=10**9, machine=instance("g6.xlarge")))["fleet"].hint
