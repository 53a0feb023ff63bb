"""What a machine can tell by itself of its way to S3: no rights needed, a few seconds, and honest about what it cannot see.

From inside, a gateway endpoint and a NAT gateway look alike: the same public addresses, no hop that answers. Only an interface
endpoint shows, since S3's name then has private addresses. So the way itself is `unknown` here, and what is told is what a start
would stumble over: no region, no name, no connection, a proxy in between.

Everything outside comes in as `Outside`, every question ends by the deadline.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import urllib.parse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from glowplug.check.results import Check
from glowplug.core import bounded
from glowplug.core.errors import GlowplugError
from glowplug.core.units import format_seconds
from glowplug.store import endpoints, regions
from glowplug.store.credentials import metadata_service

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from glowplug.core.clock import Deadline

SECONDS: Final = 5.0
"""More than this all questions together never take."""

_EACH_SECONDS: Final = 2.0
_IMDS_SECONDS: Final = 1.0
_LARGEST: Final = 1 << 12
_SHOWN: Final = 8
_SUBNET: Final = re.compile(r"subnet-[0-9a-f]{1,32}")


class Outside(Protocol):
    """The machine's network. Each call may raise OSError."""

    def resolve(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a name."""
        ...

    def connect(self, address: str, port: int, seconds: float) -> None:
        """Open a TCP connection and close it again."""
        ...

    def metadata(self, endpoint: str, paths: Sequence[str], seconds: float) -> Mapping[str, str]:
        """The texts of these paths of the instance metadata service (IMDSv2); one that is not there is left out."""
        ...


class Machine:
    """The real one."""

    def resolve(self, host: str, port: int) -> Sequence[str]:
        """By the system's resolver."""
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(item[4][0]) for item in found))

    def connect(self, address: str, port: int, seconds: float) -> None:
        """Nothing is sent."""
        socket.create_connection((address, port), timeout=max(seconds, 0.001)).close()

    def metadata(self, endpoint: str, paths: Sequence[str], seconds: float) -> Mapping[str, str]:
        """A token first: without one IMDSv2 answers nothing."""
        import http.client  # 20 ms that only this check pays

        place = urllib.parse.urlsplit(endpoint)

        def ask(method: str, path: str, headers: Mapping[str, str]) -> str:
            connection = http.client.HTTPConnection(place.hostname or "", place.port or 80, timeout=seconds)
            try:
                connection.request(method, path, headers=dict(headers))
                answer = connection.getresponse()
                text = answer.read(_LARGEST).decode("utf-8", "replace")
                return text.strip() if answer.status == 200 else ""
            except http.client.HTTPException as error:
                raise OSError(f"no HTTP: {error!r}") from error
            finally:
                connection.close()

        token = ask("PUT", "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "60"})
        if not token:
            raise OSError("the instance metadata service gives no token")
        header = {"X-aws-ec2-metadata-token": token}
        return {path: text for path in paths if (text := ask("GET", f"/latest/meta-data/{path}", header))}


@dataclass(frozen=True)
class Here:
    """What was found. `subnet` is this instance's own, "" where nobody says; `region` the one to look in."""

    checks: tuple[Check, ...]
    subnet: str = ""
    region: str = ""


def look(environ: Mapping[str, str], outside: Outside, deadline: Deadline, region: str = "") -> Here:
    """Look around. Never raises for what is outside; it ends within `SECONDS`, or at the deadline where that is sooner.

    Raises UsageError (`bad-store-url`, `no-region`) where a variable that is to say where S3 is says something else.
    """
    until = deadline.at_most(SECONDS)
    told = region or endpoints.region(environ) or ""
    endpoints.endpoint(environ)
    facts, imds = _instance(environ, outside, until)
    where = told or facts.get("region", "")
    checks = [imds, _region(told, facts)]
    server = server_of(environ, where)
    if server:
        checks += _server(environ, outside, until, server)
    return Here(tuple(checks), facts.get("subnet", ""), where)


def server_of(environ: Mapping[str, str], region: str) -> str:
    """S3's address: the environment's, else AWS's own in the region; "" without a region. Raises UsageError (`bad-store-url`)."""
    return endpoints.endpoint(environ) or (regions.endpoint(region) if region else "")


def region_of(bucket: str, environ: Mapping[str, str], deadline: Deadline, region: str) -> str:
    """The region of a bucket, which S3 tells anybody; "" where nobody says so in time."""
    until = deadline.at_most(_EACH_SECONDS)
    server = server_of(environ, region)
    if not server:
        return ""
    try:
        found = bounded.call(
            lambda: regions.of_bucket(server, bucket, until.remaining()), until, f"asking where {bucket} is"
        )
    except (GlowplugError, ValueError):
        return ""
    return found if endpoints.is_region(found) else ""


def _instance(environ: Mapping[str, str], outside: Outside, deadline: Deadline) -> tuple[Mapping[str, str], Check]:
    """Region, zone, type and subnet of this instance, by IMDSv2."""
    name = "local:instance"
    if environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return {}, Check(name, "unknown", "the instance metadata service is not asked (AWS_EC2_METADATA_DISABLED)")
    endpoint = metadata_service(environ)

    def ask() -> Mapping[str, str]:
        known = ("placement/region", "placement/availability-zone", "instance-type", "mac")
        first = outside.metadata(endpoint, known, _IMDS_SECONDS)
        place = f"network/interfaces/macs/{first.get('mac', '')}/subnet-id"
        second = outside.metadata(endpoint, (place,), _IMDS_SECONDS) if first.get("mac") else {}
        return {
            "region": first.get("placement/region", "")
            if endpoints.is_region(first.get("placement/region", ""))
            else "",
            "zone": first.get("placement/availability-zone", ""),
            "type": first.get("instance-type", ""),
            "subnet": second.get(place, "") if _SUBNET.fullmatch(second.get(place, "")) else "",
        }

    try:
        facts = bounded.call(ask, deadline.at_most(_EACH_SECONDS), "asking the instance metadata service")
    except (GlowplugError, OSError, ValueError) as error:
        said = f"the instance metadata service does not answer ({error}): no EC2 instance, or a pod behind a hop limit of 1"
        return {}, Check(name, "unknown", said, "in pods set AWS_REGION, and use Pod Identity or IRSA for credentials")
    said = f"{facts['type'] or 'an instance'} in {facts['zone'] or 'a zone that is not told'}"
    said += f", {facts['subnet']}" if facts["subnet"] else ""
    return facts, Check(name, "pass", said, "", dict(facts))


def _region(told: str, facts: Mapping[str, str]) -> Check:
    if told:
        return Check("local:region", "pass", f"the region is {told}", "", {"region": told})
    found = facts.get("region", "")
    said = (
        "AWS_REGION is not set: clients ask the instance metadata service at each start, or take us-east-1 after a wait"
    )
    return Check("local:region", "warn", said, f"set AWS_REGION={found or '…'}", {"region": found or None})


def _server(environ: Mapping[str, str], outside: Outside, deadline: Deadline, server: str) -> list[Check]:
    """Name, connection and way."""
    if deadline.passed():
        return [Check("local:dns", "unknown", "no time is left to look up S3's name")]
    place = urllib.parse.urlsplit(server)
    host = place.hostname or ""
    try:
        port = place.port or (443 if place.scheme == "https" else 80)
        addresses = bounded.call(
            lambda: outside.resolve(host, port), deadline.at_most(_EACH_SECONDS), f"resolving {host}"
        )
    except (GlowplugError, OSError, ValueError) as error:
        said = f"{host or server} has no address here: {error}"
        return [
            Check("local:dns", "fail", said, "look at the resolver of this machine and the DNS settings of its VPC")
        ]
    private = [address for address in addresses if _private(address)]
    evidence = {"host": host, "addresses": list(addresses[:_SHOWN])}
    kind = "private" if private and len(private) == len(addresses) else "public" if not private else "mixed"
    dns = Check("local:dns", "pass", f"{host} has {kind} addresses", "", {**evidence, "kind": kind})
    proxy = _proxy(environ, place.scheme, host)
    return [dns, _connect(outside, deadline, addresses, port, host), _way(kind, proxy, own=_own(environ))]


def _connect(outside: Outside, deadline: Deadline, addresses: Sequence[str], port: int, host: str) -> Check:
    name, shown = "local:connect", f"{host}:{port}"
    if not addresses:
        return Check(name, "fail", f"{host} has no address")
    until = deadline.at_most(_EACH_SECONDS)
    begin = until.clock.monotonic()
    try:
        bounded.call(lambda: outside.connect(addresses[0], port, until.remaining()), until, f"connecting to {shown}")
    except (GlowplugError, OSError) as error:
        hint = "no route, a security group, a network ACL, or a firewall"
        return Check(name, "fail", f"{shown} cannot be reached: {error}", hint, {"address": addresses[0], "port": port})
    took = until.clock.monotonic() - begin
    evidence = {"address": addresses[0], "port": port, "seconds": round(took, 4)}
    return Check(name, "pass", f"connected to {shown} in {format_seconds(took)}", "", evidence)


def _way(kind: str, proxy: str, *, own: bool) -> Check:
    name, evidence = "local:path", {"path": None, "proxy": proxy or None}
    if proxy:
        said = f"{proxy} is set: what obeys it sends S3's traffic through that proxy"
        return Check(name, "warn", said, "put .amazonaws.com into NO_PROXY", evidence)
    if own:
        return Check(name, "unknown", "AWS_ENDPOINT_URL names a server of your own, not S3 of AWS", "", evidence)
    if kind == "private":
        said = "an interface endpoint (S3's name has private addresses), or a resolver of your own that says so"
        return Check(name, "unknown", said, "", {**evidence, "path": "interface"})
    said = "gateway endpoint, NAT or internet gateway: they look alike from inside"
    hint = (
        "`glowplug check network --subnet ID` asks AWS; docs/howto/check-the-network.md has the read-only policy for it"
    )
    return Check(name, "unknown", said, hint, evidence)


def _own(environ: Mapping[str, str]) -> bool:
    return endpoints.endpoint(environ) is not None


def _proxy(environ: Mapping[str, str], scheme: str, host: str) -> str:
    """The variable of a proxy that is in the way, "" for none."""
    names = ("HTTPS_PROXY", "https_proxy") if scheme == "https" else ("http_proxy",)
    found = next((name for name in (*names, "ALL_PROXY", "all_proxy") if environ.get(name)), "")
    spared = (environ.get("NO_PROXY") or environ.get("no_proxy") or "").split(",")
    ends = [entry.strip().lstrip("*").lower() for entry in spared if entry.strip()]
    if any(end == "" or host == end.lstrip(".") or host.endswith("." + end.lstrip(".")) for end in ends):
        return ""
    return found


def _private(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_private
    except ValueError:
        return False
