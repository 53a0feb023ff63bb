"""check/paths.py: a subnet, its VPC and its routes → the way to S3. Without a server: one row a case."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from glowplug.aws.network import Endpoint, NatGateway, PrefixList, Route, RouteTable, Subnet, Topology, Vpc
from glowplug.check import paths
from glowplug.check.paths import Way
from glowplug.core.errors import AccessDeniedError

REGION = "us-west-2"
S3 = f"com.amazonaws.{REGION}.s3"
SUBNET = Subnet("subnet-1", "vpc-1", "us-west-2a")
LOCAL = Route("10.0.0.0/16", "local")
NAT = Route("0.0.0.0/0", "nat-1")
INTERNET = Route("0.0.0.0/0", "igw-1")
LISTED = Route("pl-1", "vpce-1")
GATEWAY = Endpoint("vpce-1", "vpc-1", S3, "Gateway", "available", ("rtb-1",))
INTERFACE = Endpoint("vpce-2", "vpc-1", S3, "Interface", "available", subnets=("subnet-1",), private_dns=True)
PUBLIC = RouteTable("rtb-public", "vpc-1", main=False, subnets=("subnet-public",), routes=(LOCAL, INTERNET))


def network(
    *routes: Route,
    endpoints: tuple[Endpoint, ...] = (),
    cidrs: tuple[str, ...] = ("52.92.16.0/20", "3.5.76.0/22"),
    nat: NatGateway | None = None,
    vpc: Vpc | None = None,
    more: tuple[RouteTable, ...] = (PUBLIC,),
) -> Topology:
    """A VPC whose subnet has a route table of its own with these routes."""
    return Topology(
        region=REGION,
        subnets=(SUBNET,),
        vpcs=(vpc or Vpc("vpc-1", dns_support=True, dns_hostnames=True),),
        route_tables=(RouteTable("rtb-1", "vpc-1", main=False, subnets=("subnet-1",), routes=(LOCAL, *routes)), *more),
        nat_gateways=(nat or NatGateway("nat-1", "vpc-1", "subnet-public", "available"),),
        endpoints=endpoints,
        prefix_lists=(PrefixList("pl-1", S3, cidrs),),
        zones={"subnet-1": "us-west-2a", "subnet-public": "us-west-2a"},
    )


@dataclass(frozen=True)
class Case:
    """`opens`: does traffic get through; None: cannot be known."""

    name: str
    topology: Topology
    way: Way
    via: str = ""
    opens: bool | None = True
    why: str = ""
    subnet: Subnet = SUBNET


V6 = replace(SUBNET, ipv6=True)
V6_ONLY = replace(SUBNET, ipv6=True, ipv6_only=True)

CASES = [
    Case("gateway endpoint", network(NAT, LISTED, endpoints=(GATEWAY,)), Way.GATEWAY, "vpce-1"),
    Case("gateway endpoint, no other way out", network(LISTED, endpoints=(GATEWAY,)), Way.GATEWAY, "vpce-1"),
    Case("its route is not shown yet", network(NAT, endpoints=(GATEWAY,)), Way.GATEWAY, "vpce-1"),
    Case(
        "its table list lags behind the route",
        network(NAT, LISTED, endpoints=(replace(GATEWAY, route_tables=()),)),
        Way.GATEWAY,
        "vpce-1",
    ),
    Case(
        "in another route table", network(NAT, endpoints=(replace(GATEWAY, route_tables=("rtb-9",)),)), Way.NAT, "nat-1"
    ),
    Case(
        "a gateway endpoint for DynamoDB",
        network(NAT, Route("pl-2", "vpce-9"), endpoints=()),
        Way.NAT,
        "nat-1",
    ),
    Case(
        "a gateway endpoint of another region's S3",
        network(NAT, endpoints=(replace(GATEWAY, service="com.amazonaws.eu-west-1.s3"),)),
        Way.NAT,
        "nat-1",
    ),
    Case(
        "endpoint of another VPC",
        network(NAT, endpoints=(replace(GATEWAY, vpc="vpc-2", route_tables=()),)),
        Way.NAT,
        "nat-1",
    ),
    Case(
        "pending",
        network(NAT, LISTED, endpoints=(replace(GATEWAY, state="pending"),)),
        Way.GATEWAY,
        "vpce-1",
        None,
        "the endpoint is pending, not available",
    ),
    Case(
        "rejected",
        network(NAT, LISTED, endpoints=(replace(GATEWAY, state="rejected"),)),
        Way.GATEWAY,
        "vpce-1",
        opens=False,
        why="the endpoint is rejected, not available",
    ),
    Case(
        "a blackhole swallows it although NAT is there",
        network(NAT, replace(LISTED, blackhole=True)),
        Way.GATEWAY,
        "vpce-1",
        opens=False,
        why="its route is a blackhole: the endpoint is gone",
    ),
    Case("interface endpoint with private DNS", network(endpoints=(INTERFACE,)), Way.INTERFACE, "vpce-2"),
    Case(
        "it takes traffic from a gateway endpoint",
        network(NAT, LISTED, endpoints=(GATEWAY, INTERFACE)),
        Way.INTERFACE,
        "vpce-2",
    ),
    Case(
        "unless it is for inbound resolvers only",
        network(NAT, LISTED, endpoints=(GATEWAY, replace(INTERFACE, inbound_only=True))),
        Way.GATEWAY,
        "vpce-1",
    ),
    Case("without private DNS", network(NAT, endpoints=(replace(INTERFACE, private_dns=False),)), Way.NAT, "nat-1"),
    Case("still pending", network(NAT, endpoints=(replace(INTERFACE, state="pending"),)), Way.NAT, "nat-1"),
    Case("the VPC's DNS is off", network(NAT, endpoints=(INTERFACE,), vpc=Vpc("vpc-1", True, False)), Way.NAT, "nat-1"),
    Case("the VPC's DNS is not known", network(NAT, endpoints=(INTERFACE,), vpc=Vpc("vpc-1")), Way.INTERFACE, "vpce-2"),
    Case("NAT gateway", network(NAT), Way.NAT, "nat-1"),
    Case("NAT gateway that nobody told more of", replace(network(NAT), nat_gateways=()), Way.NAT, "nat-1"),
    Case(
        "NAT gateway deleted",
        network(NAT, nat=NatGateway("nat-1", "vpc-1", "subnet-public", "deleted")),
        Way.NAT,
        "nat-1",
        opens=False,
        why="the NAT gateway is deleted, not available",
    ),
    Case(
        "NAT gateway being made",
        network(NAT, nat=NatGateway("nat-1", "vpc-1", "subnet-public", "pending")),
        Way.NAT,
        "nat-1",
        None,
        "the NAT gateway is pending, not available",
    ),
    Case(
        "route to a NAT gateway that is gone",
        network(replace(NAT, blackhole=True)),
        Way.NAT,
        "nat-1",
        opens=False,
        why="its route 0.0.0.0/0 is a blackhole: nat-1 is gone",
    ),
    Case(
        "private NAT gateway",
        network(NAT, nat=NatGateway("nat-1", "vpc-1", "subnet-public", "available", public=False)),
        Way.NAT,
        "nat-1",
        None,
        "it is a private NAT gateway: where it leads cannot be seen from here",
    ),
    Case(
        "NAT gateway in a private subnet",
        network(NAT, nat=NatGateway("nat-1", "vpc-1", "subnet-1", "available")),
        Way.NAT,
        "nat-1",
        None,
        "its own subnet subnet-1 goes on through nat-1",
    ),
    Case(
        "NAT gateway whose subnet has no way out",
        network(NAT, more=(replace(PUBLIC, routes=(LOCAL,)),)),
        Way.NAT,
        "nat-1",
        opens=False,
        why="its own subnet subnet-public has no way to an internet gateway (route table rtb-public)",
    ),
    Case(
        "regional NAT gateway",
        network(NAT, nat=NatGateway("nat-1", "vpc-1", "", "available", regional=True)),
        Way.NAT,
        "nat-1",
    ),
    Case("internet gateway", network(INTERNET), Way.INTERNET, "igw-1"),
    Case(
        "public access is blocked",
        network(INTERNET),
        Way.INTERNET,
        "igw-1",
        opens=False,
        why="VPC Block Public Access forbids internet gateways here",
        subnet=replace(SUBNET, internet_blocked=True),
    ),
    *(
        Case(
            f"by {words}",
            network(Route("0.0.0.0/0", target)),
            Way.OTHER,
            target,
            None,
            "what lies behind it cannot be seen from here",
        )
        for target, words in {
            "tgw-1": "transit gateway",
            "vgw-1": "virtual private gateway",
            "pcx-1": "peering connection",
            "vpce-9": "firewall endpoint",
            "eni-1": "NAT instance's interface",
            "i-1": "NAT instance",
            "arn:aws:networkmanager::1:core-network/c": "core network",
        }.items()
    ),
    Case("no route", network(), Way.NONE, opens=False, why="no route leads there"),
    Case("a customer's prefix list is not S3's", network(NAT, Route("pl-7", "tgw-1")), Way.NAT, "nat-1"),
    Case(
        "the halves of the internet through a VPN",
        network(NAT, Route("0.0.0.0/1", "vgw-1"), Route("128.0.0.0/1", "vgw-1")),
        Way.OTHER,
        "vgw-1",
        None,
        "what lies behind it cannot be seen from here",
    ),
    Case(
        "the same where S3's addresses are not known",
        network(NAT, Route("0.0.0.0/1", "vgw-1"), Route("128.0.0.0/1", "vgw-1"), cidrs=()),
        Way.OTHER,
        "vgw-1",
        None,
        "what lies behind it cannot be seen from here",
    ),
    Case(
        "a gateway endpoint is longer than halves",
        network(LISTED, Route("0.0.0.0/1", "vgw-1"), endpoints=(GATEWAY,)),
        Way.GATEWAY,
        "vpce-1",
    ),
    Case(
        "a part of S3's addresses has a route of its own",
        network(NAT, LISTED, Route("52.92.16.0/24", "tgw-1"), endpoints=(GATEWAY,)),
        Way.UNKNOWN,
        "",
        None,
        "S3's addresses are divided among several routes (tgw-1, vpce-1)",
    ),
    Case(
        "a CIDR as long as the list's goes before it",
        network(LISTED, Route("52.92.16.0/20", "tgw-1"), Route("3.5.76.0/22", "tgw-1"), endpoints=(GATEWAY,)),
        Way.OTHER,
        "tgw-1",
        None,
        "what lies behind it cannot be seen from here",
    ),
    Case(
        "only some of S3's addresses have a route",
        network(Route("52.92.16.0/20", "nat-1")),
        Way.UNKNOWN,
        "",
        None,
        "S3's addresses are divided among several routes (nat-1, nowhere)",
    ),
    Case("private ranges elsewhere do not matter", network(NAT, Route("10.0.0.0/8", "tgw-1")), Way.NAT, "nat-1"),
    Case("dual stack takes IPv4", network(NAT, Route("::/0", "eigw-1")), Way.NAT, "nat-1", subnet=V6),
    Case("dual stack without IPv4 out", network(Route("::/0", "eigw-1")), Way.INTERNET, "eigw-1", subnet=V6),
    Case("IPv6 alone", network(Route("::/0", "eigw-1")), Way.INTERNET, "eigw-1", subnet=V6_ONLY),
    Case(
        "IPv6 alone, NAT64",
        network(Route("::/0", "eigw-1"), Route("64:ff9b::/96", "nat-1")),
        Way.NAT,
        "nat-1",
        subnet=V6_ONLY,
    ),
    Case("IPv6 alone, no way", network(NAT), Way.NONE, opens=False, why="no route leads there", subnet=V6_ONLY),
    Case(
        "IPv6 alone, gateway endpoint for both",
        network(LISTED, endpoints=(replace(GATEWAY, families="dualstack"),)),
        Way.GATEWAY,
        "vpce-1",
        subnet=V6_ONLY,
    ),
    Case(
        "IPv6 alone, gateway endpoint for IPv4",
        network(LISTED, Route("::/0", "eigw-1"), endpoints=(GATEWAY,)),
        Way.INTERNET,
        "eigw-1",
        subnet=V6_ONLY,
    ),
    Case(
        "a subnet that another account shares",
        replace(network(), route_tables=()),
        Way.UNKNOWN,
        opens=None,
        why="its route table is not visible to this account",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_way(case: Case) -> None:
    found = paths.to_s3(case.topology, case.subnet)
    assert (found.way, found.via, found.open, found.why) == (case.way, case.via, case.opens, case.why)


def test_names_of_cases_are_one_each() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


def test_a_subnet_without_a_table_of_its_own_uses_the_main_one() -> None:
    main = RouteTable("rtb-main", "vpc-1", main=True, subnets=(), routes=(LOCAL, INTERNET))
    topology = network(NAT, more=(PUBLIC, main))
    found = paths.to_s3(topology, replace(SUBNET, id="subnet-2"))
    assert (found.way, found.table) == (Way.INTERNET, main)
    assert paths.to_s3(topology, SUBNET).way is Way.NAT
    assert paths.to_s3(topology, replace(SUBNET, id="subnet-3", vpc="vpc-2")).way is Way.UNKNOWN


def test_another_regions_bucket_passes_no_endpoint() -> None:
    both = network(NAT, LISTED, endpoints=(GATEWAY, INTERFACE))
    assert paths.elsewhere(both, SUBNET).way is Way.NAT
    assert paths.elsewhere(network(LISTED, endpoints=(GATEWAY,)), SUBNET).way is Way.NONE
    detour = network(NAT, Route("52.92.16.0/20", "tgw-1"), Route("3.5.76.0/22", "tgw-1"))
    assert (paths.to_s3(detour, SUBNET).way, paths.elsewhere(detour, SUBNET).way) == (Way.OTHER, Way.NAT)


REFUSED = {"ec2:DescribeVpcEndpoints": AccessDeniedError("no")}


def test_where_endpoints_may_not_be_listed_the_route_says_it() -> None:
    found = paths.to_s3(replace(network(NAT, LISTED), refused=REFUSED), SUBNET)
    assert (found.way, found.via, found.open) == (Way.GATEWAY, "vpce-1", True)


def test_where_prefix_lists_may_not_be_listed_either_it_is_unknown() -> None:
    hidden = replace(network(NAT, LISTED), refused=REFUSED, prefix_lists=())
    assert paths.to_s3(hidden, SUBNET).way is Way.UNKNOWN
    assert paths.to_s3(replace(network(NAT), refused=REFUSED, prefix_lists=()), SUBNET).way is Way.NAT
