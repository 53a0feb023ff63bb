"""How S3 is reached from each subnet, said as checks: what is wrong, what it costs, and the command that changes it.

Pure: a topology and a question in, answers out. A subnet *passes* when its traffic takes a gateway endpoint, the one way without a
price and without a limit of its own; NAT, interface endpoint and internet gateway *warn*, since they work and cost money, bandwidth
or public addresses; what leads nowhere *fails*; what lies beyond this VPC is *unknown*, and so is whatever AWS did not tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from glowplug.catalog.limits import fact
from glowplug.check import cost, endpoints, paths, remedies
from glowplug.check.buckets import bucket_check
from glowplug.check.paths import Path, Way
from glowplug.check.results import Check
from glowplug.check.words import count, gbps, label, usd

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from glowplug.aws.network import Cluster, NatGateway, Subnet, Topology
    from glowplug.check.question import Question
    from glowplug.check.results import Status


def checks(topology: Topology, question: Question, cluster: Cluster | None = None) -> tuple[Check, ...]:
    """All answers: the subnets, then what they share."""
    found = [paths.to_s3(topology, subnet) for subnet in topology.subnets]
    commands = {vpc: remedies.remedy(topology, vpc) for vpc in sorted({subnet.vpc for subnet in topology.subnets})}
    return (
        _chosen(topology, cluster),
        *(_path(topology, path, commands[path.subnet.vpc]) for path in found),
        *endpoints.endpoints(topology, found),
        *endpoints.policies(topology, found, question),
        *_nats(topology, found),
        *_dns(topology),
        *(bucket_check(topology, bucket) for bucket in question.buckets),
        *cost.fleet(topology, found, question),
        *(
            Check(f"aws:{action}", "unknown", f"not known: {error.message}", error.hint)
            for action, error in sorted(topology.refused.items())
        ),
    )


def _chosen(topology: Topology, cluster: Cluster | None) -> Check:
    """Which subnets were looked at, and why these."""
    reasons = sorted({subnet.chosen_by for subnet in topology.subnets if subnet.chosen_by})
    vpcs = ", ".join(sorted({subnet.vpc for subnet in topology.subnets}))
    message = f"{count(len(topology.subnets), 'subnet')} of {vpcs} in {topology.region}"
    if reasons:
        message += f" ({', '.join(reasons)})"
    hint = ""
    if cluster is not None:
        kind = "Auto Mode: a NodeClass" if cluster.auto_mode else "a node group or EC2NodeClass"
        hint = f"{kind} may select other subnets, which AWS does not say; name those with --subnet"
    evidence: dict[str, Any] = {
        "region": topology.region,
        "subnets": [subnet.id for subnet in topology.subnets],
        "chosen_by": reasons,
    }
    if cluster is not None:
        evidence |= {"cluster": cluster.name, "auto_mode": cluster.auto_mode}
    return Check("subnets", "pass", message, hint, evidence)


def _path(topology: Topology, path: Path, remedy: str) -> Check:
    status, said, hint = _verdict(topology, path, remedy)
    subnet, table = path.subnet, path.table
    evidence = {
        "subnet": subnet.id,
        "name": subnet.name,
        "zone": subnet.zone,
        "vpc": subnet.vpc,
        "route_table": table.id if table else None,
        "own_route_table": subnet.id in table.subnets if table else None,
        "path": path.way.value,
        "via": path.via or None,
        "family": path.family,
        "usd_per_gb": cost.usd_per_gb(path),
    }
    return Check(f"path:{subnet.id}", status, f"{label(subnet)}: {said}", hint, evidence)


def _verdict(topology: Topology, path: Path, remedy: str) -> tuple[Status, str, str]:
    """Status, what is said after the subnet's name, and the hint. `remedy` brings a gateway endpoint to all subnets of the VPC."""
    if path.way is Way.GATEWAY:
        status: Status = "pass" if path.open else "unknown" if path.open is None else "fail"
        said = f"gateway endpoint {path.via}"
        if path.open:
            return status, f"{said}, free of charge", ""
        return (
            status,
            f"{said}, but {path.why}",
            "" if path.open is None else "create the endpoint anew, in all route tables",
        )
    if path.way is Way.INTERFACE:
        return "warn", _interface_said(topology, path), remedies.inbound_only(topology, path, remedy)
    if path.way is Way.NONE:
        return _nowhere(topology, path, remedy)
    if path.open is None or path.way is Way.UNKNOWN:
        return "unknown", f"{paths.named(path)}: {path.why}{_missing(topology, path)}", remedy
    if not path.open:
        return "fail", f"S3 is not reached: {paths.named(path)}, but {path.why}", remedy
    if path.family == "ipv6":
        said = f"over IPv6 alone, by {path.via}: S3 answers there under its dual-stack names only"
        return "warn", said, "set AWS_USE_DUALSTACK_ENDPOINT=true for the pods"
    if path.way is Way.INTERNET:
        return "warn", f"{_internet_said(path)}{_missing(topology, path)}", remedy
    low, high = fact("nat.bits_per_second_min").value, fact("nat.bits_per_second_max").value
    speed = f"{gbps(low)} growing to {gbps(high)} Gbit/s for all behind it"
    said = f"NAT gateway {path.via}, {usd(cost.usd_per_gb(path))} per GB, {speed}"
    return "warn", f"{said}{_missing(topology, path)}", remedy


def _interface_said(topology: Topology, path: Path) -> str:
    endpoint = remedies.endpoint_of(topology, path.via)
    low, high = fact("interface.bits_per_second_per_az").value, fact("interface.bits_per_second_per_az_max").value
    speed = f"{gbps(low)} growing to {gbps(high)} Gbit/s per zone"
    said = f"interface endpoint {path.via}, {usd(cost.usd_per_gb(path))} per GB, {speed}"
    zones = {topology.zones.get(subnet, "") for subnet in endpoint.subnets} if endpoint else set()
    if zones and "" not in zones and path.subnet.zone not in zones:
        said += f"; it has no address in {path.subnet.zone}, so traffic crosses zones"
    return said


def _internet_said(path: Path) -> str:
    share = fact("cross_region.bandwidth_share").value
    small, cpus = fact("cross_region.bits_per_second_small").value, fact("cross_region.full_vcpus").value
    speed = f"{share:.0%} of the bandwidth ({gbps(small)} Gbit/s below {cpus:g} vCPUs)"
    said = f"internet gateway {path.via}, free of charge, at {speed}"
    return (
        said
        if path.subnet.public_addresses
        else f"{said}; and instances get no public address here unless they ask for one"
    )


def _missing(topology: Topology, path: Path) -> str:
    """That there is an endpoint which this subnet's route table lacks: the usual mistake."""
    available = remedies.available(topology, path.subnet.vpc)
    if not available or path.table is None or paths.gateway_in(topology, path.table) is not None:
        return ""
    kind = "its route table" if path.subnet.id in path.table.subnets else "the main route table, which it uses,"
    return f"; gateway endpoint {available[0].id} is not in {kind} {path.table.id}"


def _nowhere(topology: Topology, path: Path, remedy: str) -> tuple[Status, str, str]:
    table = f" in route table {path.table.id}" if path.table else ""
    for endpoint in topology.endpoints:
        if endpoint.kind == "Interface" and endpoint.vpc == path.subnet.vpc and paths.serves(endpoint, topology.region):
            said = f"S3's names lead nowhere ({path.why}{table}); only {endpoint.id}'s own names reach it"
            return "warn", said, f"{remedy}; or {remedies.modify(topology, endpoint)} --private-dns-enabled"
    return "fail", f"S3 is not reached: {path.why}{table}", remedy


def _nats(topology: Topology, found: Sequence[Path]) -> Iterator[Check]:
    """What subnets share by sharing a NAT gateway, and which zone they all depend on."""
    shared: dict[str, list[Subnet]] = {}
    for path in found:
        if path.way is Way.NAT and path.open is not False:
            shared.setdefault(path.via, []).append(path.subnet)
    for target, subnets in shared.items():
        nat = paths.nat_of(topology, target)
        if nat is not None:
            yield _nat(topology, nat, subnets)


def _nat(topology: Topology, nat: NatGateway, subnets: Sequence[Subnet]) -> Check:
    zone = topology.zones.get(nat.subnet, "")
    others = sorted({subnet.zone for subnet in subnets} - {zone}) if zone else []
    where = "in every zone" if nat.regional else f"in {zone}" if zone else "in a zone that is not known"
    said = f"NAT gateway {nat.id} {where} carries the S3 traffic of {count(len(subnets), 'subnet')}"
    evidence = {
        "nat_gateway": nat.id,
        "zone": zone or None,
        "subnets": [subnet.id for subnet in subnets],
        "other_zones": others,
        "connections_per_destination": int(fact("nat.connections_per_destination").value),
    }
    if not others:
        return Check(f"nat:{nat.id}", "pass", said, "", evidence)
    said += f"; from {', '.join(others)} it crosses zones, which costs extra, and ends when {zone} fails"
    hint = "a gateway endpoint takes S3 off it; for the rest, one NAT gateway per zone"
    return Check(f"nat:{nat.id}", "warn", said, hint, evidence)


def _dns(topology: Topology) -> Iterator[Check]:
    for vpc in topology.vpcs:
        evidence = {"vpc": vpc.id, "dns_support": vpc.dns_support, "dns_hostnames": vpc.dns_hostnames}
        name, hint = f"dns:{vpc.id}", remedies.dns_command(topology, vpc.id)
        if vpc.dns_support is False:
            said = f"{vpc.id} does not answer names (enableDnsSupport is off): S3's address is found only by a resolver of your own"
            yield Check(name, "fail", said, hint, evidence)
        elif vpc.dns_support is None:
            yield Check(name, "unknown", f"the DNS settings of {vpc.id} are not known", "", evidence)
        elif vpc.dns_hostnames is False:
            said = f"{vpc.id} answers names, but gives instances none (enableDnsHostnames is off), which EKS and private DNS need"
            yield Check(name, "warn", said, hint, evidence)
        else:
            yield Check(name, "pass", f"{vpc.id} answers names", "", evidence)
