"""Which way a subnet's traffic to S3 takes: DNS first, then the route table, then what the route leads to.

In the order in which a packet meets them:

1. *An interface endpoint with private DNS* answers S3's names with addresses of the VPC, so no route table matters, not even one
   that has a gateway endpoint (unless private DNS is for inbound resolvers only, which is made for having both).
2. *The route table*: the subnet's own, else the VPC's main one. S3's addresses are a prefix list; a gateway endpoint is a route for
   that list. The longest prefix wins, between equals a CIDR before a list. A route whose target is gone (blackhole) still
   matches: it swallows the traffic, nothing takes over.
3. *The target*: a NAT gateway must be available, public, and stand in a subnet that reaches an internet gateway.

What lies behind a transit gateway, a peering, a firewall or an instance cannot be seen from the VPC: `OTHER`, open unknown.
Not looked at: network ACLs, security groups, DHCP options, resolver rules.
"""

from __future__ import annotations

import dataclasses
import enum
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.aws.network import Endpoint, Route

if TYPE_CHECKING:
    from collections.abc import Sequence

    from glowplug.aws.network import NatGateway, PrefixList, RouteTable, Subnet, Topology

_Net = ipaddress.IPv4Network | ipaddress.IPv6Network

AVAILABLE: Final = "available"
PENDING: Final = frozenset({"pending", "pendingacceptance"})
_NAT64: Final = "64:ff9b::/96"


class Way(enum.Enum):
    """Kinds of ways to S3."""

    GATEWAY = "gateway"
    INTERFACE = "interface"
    NAT = "nat"
    INTERNET = "internet"
    OTHER = "other"
    NONE = "none"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Path:
    """The way of one subnet. `via` is the endpoint, gateway or other target, `table` the route table that decided.

    `open`: whether traffic gets through as far as can be seen; None where that is not known. `why` is said of `open` where it is
    not True, and of what is remarkable where it is. `family` is ipv4, or ipv6 where only that leads there.
    """

    subnet: Subnet
    way: Way
    via: str = ""
    table: RouteTable | None = None
    open: bool | None = True
    why: str = ""
    family: str = "ipv4"


def to_s3(topology: Topology, subnet: Subnet) -> Path:
    """The way to S3 of the topology's own region."""
    table = table_of(topology, subnet)
    endpoint = private_dns(topology, subnet.vpc)
    if endpoint is not None:
        return Path(subnet, Way.INTERFACE, endpoint.id, table)
    gateway = gateway_in(topology, table) if table is not None else None
    if gateway is None and table is not None and (unsure := _unknown_list(topology, table)):
        return Path(subnet, Way.UNKNOWN, unsure, table, None, f"nobody says which service {unsure} is for")
    return _routed(topology, subnet, table, gateway)


def elsewhere(topology: Topology, subnet: Subnet) -> Path:
    """The way to S3 of another region, which no endpoint of this one serves."""
    unlisted = dataclasses.replace(topology, prefix_lists=())  # those addresses are of this region
    return _routed(unlisted, subnet, table_of(topology, subnet), None)


def table_of(topology: Topology, subnet: Subnet) -> RouteTable | None:
    """The route table that a subnet uses; None where it is not visible (a subnet shared by another account)."""
    return topology.own_tables.get(subnet.id) or topology.main_tables.get(subnet.vpc)


def serves(endpoint: Endpoint, region: str) -> bool:
    """Whether an endpoint for S3 is for S3 of this region."""
    return endpoint.service.endswith(f"amazonaws.{region}.s3")


def private_dns(topology: Topology, vpc: str) -> Endpoint | None:
    """The interface endpoint whose addresses S3's own names have in this VPC."""
    if not resolves(topology, vpc):
        return None
    for endpoint in topology.endpoints:
        wanted = endpoint.kind == "Interface" and endpoint.vpc == vpc and serves(endpoint, topology.region)
        if wanted and endpoint.state == AVAILABLE and endpoint.private_dns and not endpoint.inbound_only:
            return endpoint
    return None


def resolves(topology: Topology, vpc: str) -> bool:
    """Whether private DNS can work in a VPC: it needs both settings; what is not known counts as on, which is the rule."""
    found = next((one for one in topology.vpcs if one.id == vpc), None)
    return found is None or (found.dns_support is not False and found.dns_hostnames is not False)


def gateways(topology: Topology, vpc: str) -> tuple[Endpoint, ...]:
    """The gateway endpoints of a VPC for S3 of the topology's region."""
    return tuple(
        endpoint
        for endpoint in topology.endpoints
        if endpoint.kind == "Gateway" and endpoint.vpc == vpc and serves(endpoint, topology.region)
    )


def gateway_in(topology: Topology, table: RouteTable) -> Endpoint | None:
    """The gateway endpoint that a route table sends S3's addresses to. One that only a route knows has the state ""."""
    for endpoint in gateways(topology, table.vpc):
        if table.id in endpoint.route_tables or any(route.target == endpoint.id for route in table.routes):
            return endpoint
    known = {one.id for one in topology.prefix_lists}
    for route in table.routes:
        if route.destination in known and route.target.startswith("vpce-"):
            return Endpoint(route.target, table.vpc, "", "Gateway", "")
    return None


def _unknown_list(topology: Topology, table: RouteTable) -> str:
    """An endpoint that a table leads to and that may be S3's, where AWS told neither endpoints nor prefix lists."""
    if topology.prefix_lists or "ec2:DescribeVpcEndpoints" not in topology.refused:
        return ""
    return next((route.target for route in table.routes if _is_list(route) and route.target.startswith("vpce-")), "")


def _routed(topology: Topology, subnet: Subnet, table: RouteTable | None, gateway: Endpoint | None) -> Path:
    if table is None:
        return Path(subnet, Way.UNKNOWN, open=None, why="its route table is not visible to this account")
    if subnet.ipv6_only:
        return _over_ipv6(topology, subnet, table, gateway)
    found = _decide(topology, table, gateway)
    if len(found) > 1:
        ways = ", ".join(sorted({route.target or "nowhere" for route in found}))
        return Path(subnet, Way.UNKNOWN, "", table, None, f"S3's addresses are divided among several routes ({ways})")
    if _is_list(found[0]) and gateway is not None:
        return _by_gateway(subnet, table, gateway, found[0])
    if found[0] != _NOWHERE:
        return _by_target(topology, subnet, table, found[0])
    over = _over_ipv6(topology, subnet, table, None)
    return over if subnet.ipv6 else Path(subnet, Way.NONE, "", table, open=False, why="no route leads there")


def _is_list(route: Route) -> bool:
    return route.destination.startswith("pl-")


def _by_gateway(subnet: Subnet, table: RouteTable, endpoint: Endpoint, route: Route) -> Path:
    if route.blackhole:
        return Path(
            subnet, Way.GATEWAY, endpoint.id, table, open=False, why="its route is a blackhole: the endpoint is gone"
        )
    if endpoint.state in (AVAILABLE, ""):
        return Path(subnet, Way.GATEWAY, endpoint.id, table)
    opens = None if endpoint.state in PENDING else False
    return Path(subnet, Way.GATEWAY, endpoint.id, table, opens, f"the endpoint is {endpoint.state}, not available")


def _decide(topology: Topology, table: RouteTable, endpoint: Endpoint | None) -> list[Route]:
    """The routes that S3's IPv4 addresses take: one, or several where they are divided; `_NOWHERE` for those without any."""
    listed = next((one for one in topology.prefix_lists if one.name.endswith(".s3")), None)
    routes = [(net, route) for route in table.routes if (net := _ipv4(route.destination)) is not None]
    through = _through_list(table, listed) if endpoint is not None else None
    cidrs = listed.cidrs if listed is not None else ()
    blocks = [net for cidr in cidrs if (net := _ipv4(cidr)) is not None]
    found = [route for block in blocks for route in _of_block(block, routes, through)] or _of_internet(routes, through)
    distinct = {(route.target, route.blackhole): route for route in reversed(found)}
    return list(reversed(distinct.values()))


def _through_list(table: RouteTable, listed: PrefixList | None) -> Route:
    """The route for S3's prefix list. An endpoint may know of its table before the route is shown: then it is made up."""
    wanted = listed.id if listed is not None else ""
    found = [route for route in table.routes if _is_list(route) and route.target.startswith("vpce-")]
    return min(found, key=lambda route: route.destination != wanted, default=Route("pl-", ""))


def _of_block(block: _Net, routes: Sequence[tuple[_Net, Route]], through: Route | None) -> list[Route]:
    """The routes that one block of S3's addresses takes."""
    inside = [route for net, route in routes if net.prefixlen > block.prefixlen and net.overlaps(block)]
    covering = [(net, route) for net, route in routes if net.prefixlen <= block.prefixlen and net.overlaps(block)]
    longest = max(covering, key=lambda pair: pair[0].prefixlen, default=None)
    if longest is not None and (through is None or longest[0].prefixlen == block.prefixlen):
        return [*inside, longest[1]]
    return [*inside, through or _NOWHERE]


def _of_internet(routes: Sequence[tuple[_Net, Route]], through: Route | None) -> list[Route]:
    """The same where nobody told S3's addresses: they are public ones."""
    if through is not None:
        return [through]
    halves = [route for net, route in routes if 0 < net.prefixlen <= _COARSE]
    return halves or [route for net, route in routes if net.prefixlen == 0] or [_NOWHERE]


_NOWHERE: Final = Route("", "")
_COARSE: Final = 4
"""Routes as wide as this divide the whole internet (0.0.0.0/1 and 128.0.0.0/1 of VPNs)."""


def _by_target(topology: Topology, subnet: Subnet, table: RouteTable, route: Route) -> Path:
    target = route.target
    kind = target.split("-", 1)[0]
    if route.blackhole:
        way = Way.NAT if kind == "nat" else Way.INTERNET if kind == "igw" else Way.OTHER
        why = f"its route {route.destination} is a blackhole: {target or 'the target'} is gone"
        return Path(subnet, way, target, table, open=False, why=why)
    if subnet.internet_blocked and kind in ("nat", "igw", "eigw"):
        way = Way.NAT if kind == "nat" else Way.INTERNET
        return Path(
            subnet, way, target, table, open=False, why="VPC Block Public Access forbids internet gateways here"
        )
    if kind == "nat":
        opens, why = _nat_open(topology, target)
        return Path(subnet, Way.NAT, target, table, opens, why)
    if kind in ("igw", "eigw"):
        return Path(subnet, Way.INTERNET, target, table)
    return Path(subnet, Way.OTHER, target, table, None, "what lies behind it cannot be seen from here")


def named(path: Path) -> str:
    """What a way leads through, in words."""
    kinds = {Way.NAT: "NAT gateway", Way.INTERNET: "internet gateway", Way.GATEWAY: "gateway endpoint"}
    kinds[Way.INTERFACE] = "interface endpoint"
    if path.way in kinds:
        return f"{kinds[path.way]} {path.via}"
    return _named(path.via) if path.way is Way.OTHER else "its way to S3"


def _named(target: str) -> str:
    kinds = {
        "tgw": "the transit gateway",
        "vgw": "the virtual private gateway",
        "pcx": "the peering connection",
        "vpce": "the firewall or appliance endpoint",
        "eni": "the instance or appliance at network interface",
        "i": "the instance",
        "lgw": "the local gateway",
        "cagw": "the carrier gateway",
        "arn:aws:networkmanager": "the core network",
    }
    found = next(
        (words for prefix, words in kinds.items() if target.startswith(prefix + ("" if ":" in prefix else "-"))), ""
    )
    return f"{found} {target}".strip() if found else target or "an unknown target"


def nat_of(topology: Topology, target: str) -> NatGateway | None:
    """The NAT gateway of an id, None where it is not known."""
    return next((nat for nat in topology.nat_gateways if nat.id == target), None)


def _nat_open(topology: Topology, target: str) -> tuple[bool | None, str]:
    nat = nat_of(topology, target)
    if nat is None:
        return True, ""
    if nat.state != AVAILABLE:
        return (
            None if nat.state == "pending" else False
        ), f"the NAT gateway is {nat.state or 'of unknown state'}, not available"
    if not nat.public:
        return None, "it is a private NAT gateway: where it leads cannot be seen from here"
    if nat.regional or not nat.subnet:
        return True, ""
    table = topology.own_tables.get(nat.subnet) or topology.main_tables.get(nat.vpc)
    if table is None:
        return True, ""
    out = [route for route in table.routes if route.destination == "0.0.0.0/0"]
    if any(route.target.startswith("igw-") and not route.blackhole for route in out):
        return True, ""
    if out and not any(route.blackhole for route in out):
        return None, f"its own subnet {nat.subnet} goes on through {_named(out[0].target)}"
    return False, f"its own subnet {nat.subnet} has no way to an internet gateway (route table {table.id})"


def _over_ipv6(topology: Topology, subnet: Subnet, table: RouteTable, gateway: Endpoint | None) -> Path:
    """Over IPv6: S3 answers there under its dual-stack names only; NAT64 leads to the IPv4 ones."""
    if gateway is not None and gateway.families in ("ipv6", "dualstack"):
        route = next((one for one in table.routes if one.target == gateway.id), None)
        if route is not None:
            return _by_gateway(subnet, table, gateway, route)
    default = next((route for route in table.routes if route.destination == "::/0"), None)
    translated = next((route for route in table.routes if route.destination == _NAT64), None)
    if translated is not None and subnet.ipv6_only:
        return _by_target(topology, subnet, table, translated)
    if default is None:
        return Path(subnet, Way.NONE, "", table, open=False, why="no route leads there")
    found = _by_target(topology, subnet, table, default)
    return Path(subnet, found.way, found.via, table, found.open, found.why, "ipv6")


def _ipv4(text: str) -> _Net | None:
    try:
        return ipaddress.IPv4Network(text, strict=False)
    except ValueError:
        return None
