"""The part of a VPC that decides how S3 is reached, read with seven actions, all of which only describe.

Every list is filtered by VPC or subnet on AWS's side and read page by page. What is refused beside the essentials (subnets and
their route tables) is noted in `Topology.refused` and leaves the rest readable; whoever draws conclusions then says `unknown`.

Nodes are not asked for: EKS Auto Mode's instances are left out of EC2's lists, and a subnet says where they will be.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from glowplug.aws.sessions import permission
from glowplug.core.errors import AccessDeniedError, GlowplugError, NotFoundError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from glowplug.aws.sessions import Session

ACTIONS: Final = (
    "ec2:DescribeNatGateways",
    "ec2:DescribePrefixLists",
    "ec2:DescribeRouteTables",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcAttribute",
    "ec2:DescribeVpcEndpoints",
    "eks:DescribeCluster",
)
"""Everything that is ever asked: the policy in docs/howto/check-the-network.md, word for word."""

KARPENTER_TAG: Final = "karpenter.sh/discovery"
_CLUSTER_TAG: Final = "kubernetes.io/cluster/"
_FILTER_VALUES: Final = 200
"""As many values as EC2 takes in one filter."""


@dataclass(frozen=True)
class Cluster:
    """An EKS cluster. `subnets` are those it was made with; Auto Mode's default NodeClass puts nodes there."""

    name: str
    vpc: str
    subnets: tuple[str, ...]
    auto_mode: bool


@dataclass(frozen=True)
class Subnet:
    """`chosen_by` says why nodes are expected here, in a few words. `public_addresses`: instances get one without asking.

    `internet_blocked`: VPC Block Public Access keeps all traffic from internet gateways, and so from NAT gateways.
    """

    id: str
    vpc: str
    zone: str
    name: str = ""
    ipv6: bool = False
    ipv6_only: bool = False
    public_addresses: bool = False
    internet_blocked: bool = False
    chosen_by: str = ""


@dataclass(frozen=True)
class Route:
    """`destination` is a CIDR of either family or a prefix list's id; `target` an id, or `local`; `blackhole`: it is gone."""

    destination: str
    target: str
    blackhole: bool = False


@dataclass(frozen=True)
class RouteTable:
    """`subnets` are those with an explicit association; all others of the VPC use its `main` table."""

    id: str
    vpc: str
    main: bool
    subnets: tuple[str, ...]
    routes: tuple[Route, ...]


@dataclass(frozen=True)
class NatGateway:
    """`subnet` is "" for a regional one, which stands in every zone. `public` False: it has no way to the internet of its own."""

    id: str
    vpc: str
    subnet: str
    state: str
    public: bool = True
    regional: bool = False


@dataclass(frozen=True)
class Endpoint:
    """A VPC endpoint for S3. `kind` is Gateway or Interface; `policy` the JSON text, "" where none was told.

    `inbound_only`: private DNS answers only what comes through a resolver's inbound endpoint; the VPC itself keeps the gateway.
    `families` is ipv4, ipv6 or dualstack.
    """

    id: str
    vpc: str
    service: str
    kind: str
    state: str
    route_tables: tuple[str, ...] = ()
    subnets: tuple[str, ...] = ()
    private_dns: bool = False
    inbound_only: bool = False
    families: str = "ipv4"
    policy: str = ""


@dataclass(frozen=True)
class PrefixList:
    """The addresses of a service of AWS; `cidrs` is empty where nobody told them."""

    id: str
    name: str
    cidrs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Vpc:
    """DNS settings; None where they are not known."""

    id: str
    dns_support: bool | None = None
    dns_hostnames: bool | None = None


@dataclass(frozen=True)
class Topology:
    """What was read, for `subnets` and the VPCs they lie in. `refused`: IAM action → why its answer is missing."""

    region: str
    subnets: tuple[Subnet, ...]
    vpcs: tuple[Vpc, ...] = ()
    route_tables: tuple[RouteTable, ...] = ()
    nat_gateways: tuple[NatGateway, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
    prefix_lists: tuple[PrefixList, ...] = ()
    zones: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, GlowplugError] = field(default_factory=dict)

    @functools.cached_property
    def own_tables(self) -> Mapping[str, RouteTable]:
        """Subnet → the route table that is explicitly its own."""
        return {subnet: table for table in self.route_tables for subnet in table.subnets}

    @functools.cached_property
    def main_tables(self) -> Mapping[str, RouteTable]:
        """VPC → its main route table."""
        return {table.vpc: table for table in self.route_tables if table.main}


def cluster(session: Session, name: str) -> Cluster:
    """An EKS cluster of this region. Raises NotFoundError, and as `Session.ask`."""
    try:
        answer = session.ask("eks", "describe_cluster", {"name": name})
    except NotFoundError as error:
        raise NotFoundError(
            f"no EKS cluster {name!r} in {session.region}", hint=f"aws eks list-clusters --region {session.region}"
        ) from error
    found = _mapping(answer.get("cluster"))
    if _text(found, "name") != name:
        fault = UnavailableError("what answers for AWS is not EKS", hint="check the network path and proxies")
        raise session.located(fault, "eks")
    network = _mapping(found.get("resourcesVpcConfig"))
    subnets = tuple(item for item in _list(network.get("subnetIds")) if isinstance(item, str))
    return Cluster(
        name=name,
        vpc=_text(network, "vpcId"),
        subnets=subnets,
        auto_mode=_mapping(found.get("computeConfig")).get("enabled") is True,
    )


def subnets_of_cluster(session: Session, of: Cluster) -> tuple[Subnet, ...]:
    """Where the nodes of a cluster come to stand, as far as AWS knows: Karpenter's discovery tag, else the cluster's own subnets
    and those tagged for it. (Karpenter's node classes may select otherwise; they are Kubernetes objects.)

    Raises NotFoundError where there is none, and as `Session.pages`.
    """
    vpc = {"vpc-id": [of.vpc]} if of.vpc else {}
    discovered = _subnets(session, {**vpc, f"tag:{KARPENTER_TAG}": [of.name]}, f"tag {KARPENTER_TAG}={of.name}")
    if discovered:
        return _sorted(discovered)
    own: list[Subnet] = []
    for values in _batches(of.subnets):
        own += _subnets(session, {"subnet-id": values}, f"subnet of cluster {of.name}")
    tagged = _subnets(session, {**vpc, "tag-key": [_CLUSTER_TAG + of.name]}, f"tag {_CLUSTER_TAG}{of.name}")
    known = {subnet.id for subnet in own}
    found = [*own, *(subnet for subnet in tagged if subnet.id not in known)]
    if not found:
        raise NotFoundError(
            f"no subnet of cluster {of.name!r} is visible", hint="name the nodes' subnets with --subnet"
        )
    return _sorted(found)


def subnets_by_id(session: Session, ids: Sequence[str]) -> tuple[Subnet, ...]:
    """Those subnets, in that order. Raises NotFoundError naming those that are not there, and as `Session.pages`."""
    found: dict[str, Subnet] = {}
    for values in _batches(ids):
        found |= {subnet.id: subnet for subnet in _subnets(session, {"subnet-id": values}, "")}
    missing = [wanted for wanted in ids if wanted not in found]
    if missing:
        raise NotFoundError(
            f"no subnet {', '.join(missing)} in {session.region} for this account",
            hint="check --region and AWS_PROFILE",
        )
    return tuple(found[wanted] for wanted in dict.fromkeys(ids))


def subnets_of_vpc(session: Session, vpc: str) -> tuple[Subnet, ...]:
    """All subnets of a VPC. Raises NotFoundError where there are none, and as `Session.pages`."""
    found = _subnets(session, {"vpc-id": [vpc]}, "")
    if not found:
        raise NotFoundError(
            f"no subnet of {vpc} in {session.region} for this account", hint="check --region and AWS_PROFILE"
        )
    return _sorted(found)


def topology(session: Session, subnets: Sequence[Subnet]) -> Topology:
    """All that decides how these subnets reach S3. Raises as `Session.pages` where not even their route tables can be read."""
    ids = sorted({subnet.vpc for subnet in subnets if subnet.vpc})
    vpcs: list[list[str]] = list(_batches(ids))
    tables = [
        table
        for values in vpcs
        for item in session.pages(
            "ec2", "describe_route_tables", "RouteTables", {"Filters": _filters({"vpc-id": values})}
        )
        if (table := _route_table(item)) is not None
    ]
    refused: dict[str, GlowplugError] = {}

    def read(action: str, key: str, names: Mapping[str, Sequence[str]]) -> list[Mapping[str, Any]]:
        try:
            return session.pages("ec2", action, key, {"Filters": _filters(names)})
        except (AccessDeniedError, UnavailableError) as error:
            refused[permission("ec2", action)] = error
            return []

    service = f"com.amazonaws.{session.region}.s3"
    nats = [_nat(item) for values in vpcs for item in read("describe_nat_gateways", "NatGateways", {"vpc-id": values})]
    endpoints = [
        _endpoint(item)
        for values in vpcs
        for item in read("describe_vpc_endpoints", "VpcEndpoints", {"vpc-id": values})
    ]
    lists = [
        _prefix_list(item) for item in read("describe_prefix_lists", "PrefixLists", {"prefix-list-name": [service]})
    ]
    zones = {subnet.id: subnet.zone for subnet in subnets}
    zones |= _zones_of(session, nats, endpoints, zones, refused)
    return Topology(
        region=session.region,
        subnets=tuple(subnets),
        vpcs=tuple(_vpc(session, vpc, refused) for vpc in ids),
        route_tables=tuple(tables),
        nat_gateways=tuple(nat for nat in nats if nat.id),
        endpoints=tuple(endpoint for endpoint in endpoints if _is_s3(endpoint)),
        prefix_lists=tuple(one for one in lists if one.id),
        zones=zones,
        refused=refused,
    )


def _zones_of(
    session: Session,
    nats: Iterable[NatGateway],
    endpoints: Iterable[Endpoint],
    known: Mapping[str, str],
    refused: dict[str, GlowplugError],
) -> dict[str, str]:
    """The zones of subnets that NAT gateways and interface endpoints stand in and that were not asked for."""
    wanted = {nat.subnet for nat in nats if nat.subnet}
    wanted |= {subnet for endpoint in endpoints if _is_s3(endpoint) for subnet in endpoint.subnets}
    found: dict[str, str] = {}
    for values in _batches(sorted(wanted - set(known))):
        try:
            found |= {subnet.id: subnet.zone for subnet in _subnets(session, {"subnet-id": values}, "")}
        except (AccessDeniedError, UnavailableError) as error:
            refused[permission("ec2", "describe_subnets")] = error
    return found


def _vpc(session: Session, vpc: str, refused: dict[str, GlowplugError]) -> Vpc:
    def flag(attribute: str, key: str) -> bool | None:
        try:
            answer = session.ask("ec2", "describe_vpc_attribute", {"VpcId": vpc, "Attribute": attribute})
        except (AccessDeniedError, UnavailableError) as error:
            refused[permission("ec2", "describe_vpc_attribute")] = error
            return None
        value = _mapping(answer.get(key)).get("Value")
        return value if isinstance(value, bool) else None

    return Vpc(vpc, flag("enableDnsSupport", "EnableDnsSupport"), flag("enableDnsHostnames", "EnableDnsHostnames"))


def _subnets(session: Session, names: Mapping[str, Sequence[str]], chosen_by: str) -> list[Subnet]:
    items = session.pages("ec2", "describe_subnets", "Subnets", {"Filters": _filters(names)})
    return [_subnet(item, chosen_by) for item in items if _text(item, "SubnetId")]


def _subnet(item: Mapping[str, Any], chosen_by: str) -> Subnet:
    tags = {_text(tag, "Key"): _text(tag, "Value") for tag in _dicts(item.get("Tags"))}
    blocked = _text(_mapping(item.get("BlockPublicAccessStates")), "InternetGatewayBlockMode")
    return Subnet(
        id=_text(item, "SubnetId"),
        vpc=_text(item, "VpcId"),
        zone=_text(item, "AvailabilityZone"),
        name=tags.get("Name", ""),
        ipv6=bool(_list(item.get("Ipv6CidrBlockAssociationSet"))),
        ipv6_only=item.get("Ipv6Native") is True,
        public_addresses=item.get("MapPublicIpOnLaunch") is True,
        internet_blocked=blocked == "block-bidirectional",
        chosen_by=chosen_by,
    )


_TARGETS: Final = (
    "GatewayId",
    "NatGatewayId",
    "TransitGatewayId",
    "VpcPeeringConnectionId",
    "EgressOnlyInternetGatewayId",
    "NetworkInterfaceId",
    "InstanceId",
    "LocalGatewayId",
    "CarrierGatewayId",
    "CoreNetworkArn",
    "OdbNetworkArn",
)
_DESTINATIONS: Final = ("DestinationPrefixListId", "DestinationCidrBlock", "DestinationIpv6CidrBlock")


def _route_table(item: Mapping[str, Any]) -> RouteTable | None:
    if not _text(item, "RouteTableId"):
        return None
    associations = _dicts(item.get("Associations"))
    return RouteTable(
        id=_text(item, "RouteTableId"),
        vpc=_text(item, "VpcId"),
        main=any(one.get("Main") is True for one in associations),
        subnets=tuple(subnet for one in associations if (subnet := _text(one, "SubnetId"))),
        routes=tuple(_route(one) for one in _dicts(item.get("Routes"))),
    )


def _route(item: Mapping[str, Any]) -> Route:
    return Route(
        destination=next((value for name in _DESTINATIONS if (value := _text(item, name))), ""),
        target=next((value for name in _TARGETS if (value := _text(item, name))), ""),
        blackhole=_text(item, "State") == "blackhole",
    )


def _nat(item: Mapping[str, Any]) -> NatGateway:
    return NatGateway(
        id=_text(item, "NatGatewayId"),
        vpc=_text(item, "VpcId"),
        subnet=_text(item, "SubnetId"),
        state=_text(item, "State"),
        public=_text(item, "ConnectivityType") != "private",
        regional=_text(item, "AvailabilityMode") == "regional",
    )


def _endpoint(item: Mapping[str, Any]) -> Endpoint:
    return Endpoint(
        id=_text(item, "VpcEndpointId"),
        vpc=_text(item, "VpcId"),
        service=_text(item, "ServiceName"),
        kind=_text(item, "VpcEndpointType") or "Gateway",
        state=_text(item, "State").lower(),
        route_tables=tuple(one for one in _list(item.get("RouteTableIds")) if isinstance(one, str)),
        subnets=tuple(one for one in _list(item.get("SubnetIds")) if isinstance(one, str)),
        private_dns=item.get("PrivateDnsEnabled") is True,
        inbound_only=_mapping(item.get("DnsOptions")).get("PrivateDnsOnlyForInboundResolverEndpoint") is True,
        families=_text(item, "IpAddressType") or "ipv4",
        policy=_text(item, "PolicyDocument"),
    )


def _is_s3(endpoint: Endpoint) -> bool:
    """An endpoint for S3 of some region (China writes `cn.com.amazonaws…` for interfaces)."""
    return bool(endpoint.id) and "amazonaws." in endpoint.service and endpoint.service.endswith(".s3")


def _prefix_list(item: Mapping[str, Any]) -> PrefixList:
    cidrs = tuple(one for one in _list(item.get("Cidrs")) if isinstance(one, str))
    return PrefixList(_text(item, "PrefixListId"), _text(item, "PrefixListName"), cidrs)


def _filters(names: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    return [{"Name": name, "Values": list(values)} for name, values in names.items()]


def _batches(values: Sequence[str]) -> Iterable[list[str]]:
    for begin in range(0, len(values), _FILTER_VALUES):
        yield list(values[begin : begin + _FILTER_VALUES])


def _sorted(subnets: Iterable[Subnet]) -> tuple[Subnet, ...]:
    return tuple(sorted(subnets, key=lambda subnet: (subnet.zone, subnet.name, subnet.id)))


def _text(item: Mapping[str, Any], name: str) -> str:
    value = item.get(name)
    return value if isinstance(value, str) else ""


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _dicts(value: object) -> list[Mapping[str, Any]]:
    return [item for item in _list(value) if isinstance(item, dict)]
