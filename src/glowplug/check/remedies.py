"""The commands that change a network, for hints: whole lines to copy, with this VPC's own ids in them,
quoted, since it is a server that told them.

glowplug never runs them. One command for a VPC brings its endpoint into all route tables that lack it: several of them, one per
subnet, would make several endpoints.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from glowplug.check import paths

if TYPE_CHECKING:
    from glowplug.aws.network import Endpoint, RouteTable, Topology


def remedy(topology: Topology, vpc: str) -> str:
    """The command that brings a gateway endpoint into every route table of the VPC's subnets that lacks it."""
    used = [table for table in used_tables(topology, vpc) if paths.gateway_in(topology, table) is None]
    tables = " ".join(shlex.quote(table.id) for table in used)
    if not tables or "ec2:DescribeVpcEndpoints" in topology.refused:
        return ""
    present = available(topology, vpc)
    if present:
        return f"{modify(topology, present[0])} --add-route-table-ids {tables}"
    return (
        f"aws ec2 create-vpc-endpoint --region {topology.region} --vpc-id {shlex.quote(vpc)} --vpc-endpoint-type Gateway "
        f"--service-name com.amazonaws.{topology.region}.s3 --route-table-ids {tables} "
        "(or the CloudFormation of `glowplug render network`)"
    )


def inbound_only(topology: Topology, path: paths.Path, first: str) -> str:
    """How to have both endpoints, the VPC's own traffic by the free one. `first`: the command that brings that one, if it lacks."""
    endpoint = endpoint_of(topology, path.via)
    if endpoint is None:
        return ""
    command = f"{modify(topology, endpoint)} --dns-options PrivateDnsOnlyForInboundResolverEndpoint=true"
    return f"{first}; then {command}" if first else command


def modify(topology: Topology, endpoint: Endpoint) -> str:
    """The beginning of a command that changes an endpoint."""
    return f"aws ec2 modify-vpc-endpoint --region {topology.region} --vpc-endpoint-id {shlex.quote(endpoint.id)}"


def used_tables(topology: Topology, vpc: str) -> list[RouteTable]:
    """The route tables of the subnets in question, each once, in their order."""
    found = {}
    for subnet in topology.subnets:
        table = paths.table_of(topology, subnet) if subnet.vpc == vpc else None
        if table is not None:
            found[table.id] = table
    return list(found.values())


def available(topology: Topology, vpc: str) -> list[Endpoint]:
    """The gateway endpoints of a VPC that work."""
    return [endpoint for endpoint in paths.gateways(topology, vpc) if endpoint.state == paths.AVAILABLE]


def endpoint_of(topology: Topology, wanted: str) -> Endpoint | None:
    """The endpoint of an id, None where it is not known."""
    return next((endpoint for endpoint in topology.endpoints if endpoint.id == wanted), None)


def dns_command(topology: Topology, vpc: str) -> str:
    """What turns on the DNS setting that is off; support comes before host names."""
    found = next((one for one in topology.vpcs if one.id == vpc), None)
    command = f"aws ec2 modify-vpc-attribute --region {topology.region} --vpc-id {shlex.quote(vpc)}"
    if found is not None and found.dns_support is False:
        return f"{command} --enable-dns-support"
    return f"{command} --enable-dns-hostnames"
