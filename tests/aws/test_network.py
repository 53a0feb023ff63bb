"""aws/network.py: everything that decides the way to S3 is read, page by page, and nothing but read."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from glowplug.aws import network, sessions
from glowplug.aws.network import Topology
from glowplug.core.clock import Deadline
from glowplug.core.errors import AccessDeniedError, NotFoundError
from lab import aws

pytestmark = pytest.mark.slow

HOWTO = Path(__file__).parents[2] / "docs/howto/check-the-network.md"


def _session() -> sessions.Session:
    return sessions.connect(os.environ, Deadline.after(600))


def _read(cluster: str) -> Topology:
    session = _session()
    return network.topology(session, network.subnets_of_cluster(session, network.cluster(session, cluster)))


def test_what_is_read(front: aws.Front, forgotten: aws.Made) -> None:
    found = _read("forgotten")
    ids = forgotten.ids
    assert [(subnet.id, subnet.name, subnet.zone) for subnet in found.subnets] == [
        (ids[f"private-{zone}"], f"private-{zone}", f"us-west-2{zone}") for zone in "abc"
    ]
    assert {subnet.chosen_by for subnet in found.subnets} == {"tag karpenter.sh/discovery=forgotten"}
    tables = {table.id: table for table in found.route_tables}
    assert set(tables) == {one for name, one in ids.items() if name.startswith("rtb-")}
    assert [table.id for table in tables.values() if table.main] == [ids["rtb-main"]]
    listed = found.prefix_lists[0]
    assert listed.name == "com.amazonaws.us-west-2.s3"
    first = {(route.destination, route.target) for route in tables[ids["rtb-private-a"]].routes}
    assert first == {("10.0.0.0/16", "local"), ("0.0.0.0/0", ids["nat-a"]), (listed.id, ids["vpce"])}
    assert [(nat.id, nat.subnet, nat.state, nat.public) for nat in found.nat_gateways] == [
        (ids[f"nat-{zone}"], ids[f"public-{zone}"], "available", True) for zone in "abc"
    ]
    (endpoint,) = found.endpoints
    assert (endpoint.id, endpoint.kind, endpoint.state) == (ids["vpce"], "Gateway", "available")
    assert set(endpoint.route_tables) == {ids["rtb-private-a"], ids["rtb-private-b"]}
    assert (found.vpcs[0].dns_support, found.vpcs[0].dns_hostnames) == (True, True)
    assert found.zones[ids["public-b"]] == "us-west-2b"
    assert found.refused == {}


def test_an_account_with_300_subnets(front: aws.Front, topologies: aws.Topologies) -> None:
    made = topologies.large("large", subnets=300)
    front.seen.clear()
    front.largest_page = 100
    session = _session()
    subnets = network.subnets_of_vpc(session, made.vpc)
    found = network.topology(session, subnets)
    assert {subnet.id for subnet in subnets} == {one for name, one in made.ids.items() if name.startswith("private-")}
    explicit = {table.subnets[0]: table.id for table in found.route_tables if table.subnets}
    assert len(explicit) == 300
    assert explicit[made.ids["private-299"]] == made.ids["rtb-private-299"]
    pages = [asked.page for asked in front.seen if asked.action == "ec2:DescribeSubnets"]
    assert len(pages) == len(set(pages)) == 3


def test_only_what_the_policy_lists_is_asked(front: aws.Front, topologies: aws.Topologies) -> None:
    made = [topologies.fully_private("asked-1"), topologies.auto_mode("asked-2")]
    front.seen.clear()
    for one in made:
        _read(one.cluster)
    network.subnets_of_vpc(_session(), made[0].vpc)
    network.subnets_by_id(_session(), [made[0].ids["private-a"]])
    assert {asked.action for asked in front.seen} == set(network.ACTIONS)
    assert all(re.fullmatch(r"(ec2|eks):Describe[A-Za-z]+", action) for action in network.ACTIONS)


def test_the_policy_in_the_documentation_is_what_is_asked() -> None:
    found = re.search(r"```json\n(.*?)```", HOWTO.read_text(), re.DOTALL)
    assert found
    (statement,) = json.loads(found[1])["Statement"]
    assert statement == {"Effect": "Allow", "Action": list(network.ACTIONS), "Resource": "*"}


def test_auto_mode_is_seen_and_its_subnets_are_the_clusters(front: aws.Front, topologies: aws.Topologies) -> None:
    made = topologies.auto_mode("auto")
    session = _session()
    cluster = network.cluster(session, "auto")
    assert cluster.auto_mode
    assert cluster.vpc == made.vpc
    assert {subnet.id for subnet in network.subnets_of_cluster(session, cluster)} == set(cluster.subnets)
    assert len(cluster.subnets) == 3


@pytest.mark.parametrize("action", [one for one in network.ACTIONS if one.startswith("ec2:")])
def test_a_single_right_that_is_missing(front: aws.Front, forgotten: aws.Made, action: str) -> None:
    """Subnets and their route tables are essential; whatever else is refused is noted, and the rest is read."""
    front.add(aws.Refusal("UnauthorizedOperation"), action)
    if action in ("ec2:DescribeSubnets", "ec2:DescribeRouteTables"):
        with pytest.raises(AccessDeniedError, match=action):
            _read("forgotten")
        return
    found = _read("forgotten")
    assert list(found.refused) == [action]
    assert len(found.subnets) == 3


@pytest.mark.parametrize("ids", [["subnet-0123456789abcdef0"], ["nonsense"], [""]])
def test_subnets_that_are_not_there(front: aws.Front, ids: list[str]) -> None:
    with pytest.raises(NotFoundError):
        network.subnets_by_id(_session(), ids)


def test_the_missing_one_of_several_is_named(front: aws.Front, forgotten: aws.Made) -> None:
    with pytest.raises(NotFoundError, match=r"no subnet subnet-1 in us-west-2"):
        network.subnets_by_id(_session(), [forgotten.ids["private-a"], "subnet-1"])
