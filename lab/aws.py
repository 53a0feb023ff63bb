"""EC2's and EKS's control planes on 127.0.0.1: moto's server, and a front before it that answers as AWS does where moto does not.

moto keeps what is created in it and answers boto3's real requests, so what is tested is the whole way from the command line to
conclusions. It runs as a process of its own (its imports warn and take seconds), one for a whole test session; topologies have
VPCs of their own in it and do not meet.

The front sees every request with its action. It records them, refuses, delays or garbles those it is told to, and mends what moto
does otherwise than AWS:

- pages: moto returns everything at once; the front cuts lists to `MaxResults` and hands out `NextToken`;
- a gateway endpoint's prefix list route appears in route tables on creation only, not by ModifyVpcEndpoint; what AWS says in both
  cases is the endpoint's own `routeTableIdSet`, which both have;
- `describe_cluster` forgets vpcId and computeConfig (Auto Mode): the front puts in what the lab's cluster was given;
- states that moto has not (a blackhole route, an endpoint that waits to be accepted): `Front.replace`.

    with aws.serve() as server, aws.Front(server) as front:
        made = aws.Topologies(front).eksctl("prod")
"""

from __future__ import annotations

import http.client
import http.server
import json
import os
import re
import socketserver
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lab.guarded import Guarded
from lab.s3 import Keys, _free_ports

REGION = "us-west-2"
KEYS = Keys("glowplug-lab", "glowplug-lab-secret-not-a-real-one")
_READY_SECONDS = 60.0
_PAGE_FROM = "from-"


@dataclass(frozen=True)
class Server:
    """Where moto listens."""

    port: int
    host: str = "127.0.0.1"

    def env(self) -> dict[str, str]:
        """The variables by which boto3 (and glowplug's look for a bucket's region) finds it."""
        address = f"http://{self.host}:{self.port}"
        return {
            "AWS_ENDPOINT_URL": address,
            "AWS_ENDPOINT_URL_EC2": address,
            "AWS_ENDPOINT_URL_EKS": address,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": KEYS.access,
            "AWS_SECRET_ACCESS_KEY": KEYS.secret,
            "AWS_EC2_METADATA_DISABLED": "true",
        }


@contextmanager
def serve() -> Iterator[Server]:
    """moto's server for as long as the block lasts. Raises OSError with its log when it does not come up."""
    with tempfile.TemporaryDirectory(prefix="glowplug-aws-") as folder:
        log = Path(folder) / "moto.log"
        port = _free_ports(1)[0]
        environ = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": folder,
            "MOTO_EC2_LOAD_DEFAULT_AMIS": "false",
            "MOTO_IAM_LOAD_MANAGED_POLICIES": "false",
        }
        argv = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        with Guarded(argv, env=environ, log=log, cwd=Path(folder), patience=0) as process:
            deadline = time.monotonic() + _READY_SECONDS
            while not _answers(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise OSError(f"moto did not start: {log.read_text(errors='replace')[-2000:]}")
                time.sleep(0.1)
            yield Server(port)


def _answers(port: int) -> bool:
    try:
        return _ask(port, "GET", "/moto-api/data.json", {}, b"").status == 200
    except OSError:
        return False


@dataclass(frozen=True)
class Reply:
    """An answer as it goes over the wire."""

    status: int
    body: bytes
    headers: Sequence[tuple[str, str]] = ()


def _ask(port: int, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body=body, headers=dict(headers))
        answer = connection.getresponse()
        return Reply(answer.status, answer.read(), answer.getheaders())
    except http.client.HTTPException as error:
        raise OSError(repr(error)) from error
    finally:
        connection.close()


@dataclass(frozen=True)
class Asked:
    """A request by its IAM action; `page` is its NextToken."""

    action: str
    page: str = ""


@dataclass(frozen=True)
class Refusal:
    """An error as EC2 (XML) or EKS (JSON) gives it. Codes are those of AWS, `UnauthorizedOperation`, `RequestLimitExceeded`."""

    code: str
    message: str = "injected"
    status: int = 403


@dataclass(frozen=True)
class Hang:
    """No answer until the front ends."""


@dataclass(frozen=True)
class Garbage:
    """An answer that is none."""

    body: bytes = b"<html>captive portal</html>"
    status: int = 200


Fault = Refusal | Hang | Garbage

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "date", "server"}


@dataclass
class _Rule:
    action: str
    fault: Fault
    left: int | None


class Front:
    """A context manager: moto as AWS would be. `server` is how it is reached."""

    def __init__(self, behind: Server) -> None:
        self.behind = behind
        self._rules: list[_Rule] = []
        self._replaced: list[tuple[str, str, str]] = []
        self._clusters: dict[str, dict[str, Any]] = {}
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self.seen: list[Asked] = []
        self.largest_page = 1000
        """More than this AWS never puts into one page."""

        front = self

        class Handler(_Handler):
            owner = front

        self._http = _Threads(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def server(self) -> Server:
        """What boto3 is to be pointed at."""
        return Server(int(self._http.server_address[1]))

    def add(self, fault: Fault, action: str, *, times: int | None = None) -> None:
        """Answer requests for an IAM action (`ec2:DescribeSubnets`) so, all of them or the next `times`."""
        with self._lock:
            self._rules.append(_Rule(action, fault, times))

    def replace(self, action: str, pattern: str, text: str) -> None:
        """Edit the answers to an action: every match of a regular expression becomes `text`."""
        with self._lock:
            self._replaced.append((action, pattern, text))

    def remember_cluster(self, name: str, vpc: str, *, auto_mode: bool) -> None:
        """What moto forgets of a cluster."""
        self._clusters[name] = {"vpcId": vpc, "auto_mode": auto_mode}

    def reset(self) -> None:
        """No faults, no edits, nothing seen."""
        with self._lock:
            self._rules.clear()
            self._replaced.clear()
            self.seen.clear()
            self.largest_page = 1000

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply | None:
        """The answer to one request, None for none at all."""
        form = urllib.parse.parse_qs(body.decode("utf-8", "replace")) if headers.get("X-Amz-Target") is None else {}
        action = _action(method, path, form)
        with self._lock:
            self.seen.append(Asked(action, form.get("NextToken", [""])[0]))
            rule = next((one for one in self._rules if one.action == action and one.left != 0), None)
            if rule is not None and rule.left is not None:
                rule.left -= 1
        if rule is not None:
            return self._fail(rule.fault, action)
        reply = _ask(self.behind.port, method, path, headers, body)
        text = reply.body
        for wanted, pattern, instead in self._replaced:
            if wanted == action:
                text = re.sub(pattern, instead, text.decode(), flags=re.DOTALL).encode()
        if action == "eks:DescribeCluster" and reply.status == 200:
            text = self._mended_cluster(text)
        if action.startswith("ec2:Describe"):
            text = _page(text, form, self.largest_page)
        return Reply(reply.status, text, reply.headers)

    def _fail(self, fault: Fault, action: str) -> Reply | None:
        if isinstance(fault, Hang):
            self._ended.wait()
            return None
        if isinstance(fault, Garbage):
            return Reply(fault.status, fault.body, (("Content-Type", "text/html"),))
        if action.startswith("eks:"):
            body = json.dumps({"message": fault.message}).encode()
            return Reply(fault.status, body, (("Content-Type", "application/json"), ("x-amzn-ErrorType", fault.code)))
        body = (
            f"<Response><Errors><Error><Code>{fault.code}</Code><Message>{fault.message}</Message></Error></Errors>"
            "<RequestID>lab</RequestID></Response>"
        ).encode()
        return Reply(fault.status, body, (("Content-Type", "text/xml"),))

    def _mended_cluster(self, body: bytes) -> bytes:
        answer = json.loads(body)
        known = self._clusters.get(answer["cluster"]["name"])
        if known is not None:
            answer["cluster"]["resourcesVpcConfig"]["vpcId"] = known["vpcId"]
            answer["cluster"]["computeConfig"] = {"enabled": known["auto_mode"]}
        return json.dumps(answer).encode()


class _Threads(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that gave up is no fault."""


class _Handler(http.server.BaseHTTPRequestHandler):
    owner: Front
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one segment: two would wait 40 ms for each other's acknowledgement

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP}
        reply = self.owner.answer(self.command, self.path, headers, body)
        if reply is None:
            self.close_connection = True
            return
        self.send_response_only(reply.status)
        for name, value in reply.headers:
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        if self.command != "HEAD":
            with suppress(OSError):
                self.wfile.write(reply.body)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _serve  # noqa: N815 - http.server's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Nothing on stderr: `seen` says what happened."""


def _action(method: str, path: str, form: Mapping[str, Sequence[str]]) -> str:
    if "Action" in form:
        return f"ec2:{form['Action'][0]}"
    if path.startswith("/clusters"):
        return "eks:DescribeCluster" if method == "GET" and path.count("/") > 1 else f"eks:{method} {path}"
    return f"s3:{method} {path}"


_SET = re.compile(r"(<(\w+(?:Set|s))>)(.*)(</\2>)", re.DOTALL)


def _page(body: bytes, form: Mapping[str, Sequence[str]], largest: int) -> bytes:
    """One page of an EC2 list: `MaxResults` items from where `NextToken` says."""
    if "MaxResults" not in form:
        return body
    text = body.decode()
    found = _SET.search(text)
    if found is None:
        return body
    items = _items(found.group(3))
    begin = int(form.get("NextToken", [_PAGE_FROM + "0"])[0].removeprefix(_PAGE_FROM))
    end = begin + min(int(form["MaxResults"][0]), largest)
    token = f"<nextToken>{_PAGE_FROM}{end}</nextToken>" if end < len(items) else ""
    page = f"{found.group(1)}{''.join(items[begin:end])}{found.group(4)}{token}"
    return (text[: found.start()] + page + text[found.end() :]).encode()


def _items(text: str) -> list[str]:
    """The outermost `<item>` elements."""
    items: list[str] = []
    depth = begin = 0
    for tag in re.finditer(r"<(/?)item>", text):
        if not tag.group(1):
            if depth == 0:
                begin = tag.start()
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                items.append(text[begin : tag.end()])
    return items


@contextmanager
def metadata(facts: Mapping[str, str]) -> Iterator[str]:
    """An instance's metadata service (IMDSv2: nothing without a token) with these paths; its address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_PUT(self) -> None:
            self._answer("token" if self.path == "/latest/api/token" else "")

        def do_GET(self) -> None:
            known = self.headers.get("X-aws-ec2-metadata-token") == "token"
            self._answer(facts.get(self.path.removeprefix("/latest/meta-data/"), "") if known else "")

        def _answer(self, text: str) -> None:
            self.send_response_only(200 if text else 404)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
            """Nothing on stderr."""

    with _Threads(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def instance(subnet: str, zone: str = "a") -> dict[str, str]:
    """What the metadata service of an instance in that subnet says."""
    mac = "02:00:00:00:00:01"
    return {
        "placement/region": REGION,
        "placement/availability-zone": f"{REGION}{zone}",
        "instance-type": "p5.48xlarge",
        "mac": mac,
        f"network/interfaces/macs/{mac}/subnet-id": subnet,
    }


@dataclass
class Made:
    """A topology and what its parts are called: `ids["private-a"]` is a subnet, `ids["nat-a"]` a NAT gateway."""

    cluster: str
    vpc: str = ""
    ids: dict[str, str] = field(default_factory=dict)

    def named(self, text: str) -> str:
        """`text` with names in the place of ids, so that it is the same each time."""
        for name, one in sorted(self.ids.items(), key=lambda pair: -len(pair[1])):
            text = text.replace(one, f"<{name}>")
        return text


class Topologies:
    """Networks that people have, each in a VPC and under a cluster's name of its own."""

    zones = ("a", "b", "c")

    def __init__(self, front: Front) -> None:
        import boto3.session

        session = boto3.session.Session(
            aws_access_key_id=KEYS.access,
            aws_secret_access_key=KEYS.secret,
            region_name=REGION,
        )
        url = f"http://127.0.0.1:{front.behind.port}"
        self._front = front
        self._ec2: Any = session.client("ec2", endpoint_url=url)
        self._eks: Any = session.client("eks", endpoint_url=url)

    # Whole topologies

    def eksctl(self, name: str) -> Made:
        """eksctl's default: a public and a private subnet in each of three zones, one NAT gateway for all."""
        made = self._base(name, public=True, private=True)
        nat = self._nat(made, "nat", "public-a")
        for zone in self.zones:
            self._route(made, f"private-{zone}", NatGatewayId=nat)
        return self._cluster(made, "private")

    def nat_per_zone(self, name: str) -> Made:
        """Each zone has a NAT gateway of its own."""
        made = self._base(name, public=True, private=True)
        for zone in self.zones:
            self._route(made, f"private-{zone}", NatGatewayId=self._nat(made, f"nat-{zone}", f"public-{zone}"))
        return self._cluster(made, "private")

    def with_endpoint(self, name: str, *, policy: Mapping[str, Any] | None = None) -> Made:
        """As `nat_per_zone`, and a gateway endpoint in every private route table."""
        made = self.nat_per_zone(name)
        self.gateway_endpoint(made, [f"rtb-private-{zone}" for zone in self.zones], policy=policy)
        return made

    def endpoint_forgotten(self, name: str) -> Made:
        """The gateway endpoint is missing in one of three route tables."""
        made = self.nat_per_zone(name)
        self.gateway_endpoint(made, ["rtb-private-a", "rtb-private-b"])
        return made

    def endpoint_on_main(self, name: str) -> Made:
        """The gateway endpoint is in the main route table, which no subnet uses."""
        made = self.nat_per_zone(name)
        self.gateway_endpoint(made, ["rtb-main"])
        return made

    def fully_private(self, name: str, *, private_dns: bool = True) -> Made:
        """No way out; an interface endpoint for S3 in two of the three zones."""
        made = self._base(name, public=False, private=True)
        self._interface(made, ["private-a", "private-b"], private_dns=private_dns)
        return self._cluster(made, "private")

    def isolated(self, name: str) -> Made:
        """No way out at all."""
        return self._cluster(self._base(name, public=False, private=True), "private")

    def public_only(self, name: str) -> Made:
        """Nodes in public subnets."""
        return self._cluster(self._base(name, public=True, private=False), "public")

    def transit(self, name: str) -> Made:
        """All that leaves the VPC goes to a transit gateway, on to a central VPC."""
        made = self._base(name, public=False, private=True)
        made.ids["tgw"] = self._ec2.create_transit_gateway()["TransitGateway"]["TransitGatewayId"]
        for zone in self.zones:
            self._route(made, f"private-{zone}", TransitGatewayId=made.ids["tgw"])
        return self._cluster(made, "private")

    def auto_mode(self, name: str) -> Made:
        """EKS Auto Mode: no tag of Karpenter's; nodes stand in the cluster's own subnets and are in no list."""
        made = self._base(name, public=False, private=True)
        made.ids["public-a"] = self._subnet(made, "public-a", 0, public=True)
        self._table(made, "public-a", "rtb-public")
        self._route(made, "public-a", table="rtb-public", GatewayId=self._internet(made))
        nat = self._nat(made, "nat", "public-a")
        for zone in self.zones:
            self._route(made, f"private-{zone}", NatGatewayId=nat)
        return self._cluster(made, "private", auto_mode=True)

    def large(self, name: str, *, subnets: int) -> Made:
        """As many subnets, each with a route table of its own."""
        made = self._vpc(name, "10.0.0.0/16")
        for number in range(subnets):
            place = f"private-{number:03d}"
            address = f"10.0.{number // 16}.{number % 16 * 16}/28"
            made.ids[place] = self._subnet_at(made, place, address, self.zones[number % 3], public=False)
            self._table(made, place, f"rtb-{place}")
        return made

    # Parts

    def gateway_endpoint(self, made: Made, tables: Sequence[str], *, policy: Mapping[str, Any] | None = None) -> None:
        """A gateway endpoint for S3 in these route tables."""
        document = {"PolicyDocument": json.dumps(policy)} if policy is not None else {}
        answer = self._ec2.create_vpc_endpoint(
            VpcId=made.vpc,
            ServiceName=f"com.amazonaws.{REGION}.s3",
            VpcEndpointType="Gateway",
            RouteTableIds=[made.ids[table] for table in tables],
            **document,
        )
        made.ids["vpce"] = answer["VpcEndpoint"]["VpcEndpointId"]

    def bucket(self, name: str, region: str) -> None:
        """A bucket in a region; one that is there already is fine."""
        import boto3.session

        session = boto3.session.Session(
            aws_access_key_id=KEYS.access, aws_secret_access_key=KEYS.secret, region_name=region
        )
        client: Any = session.client("s3", endpoint_url=f"http://127.0.0.1:{self._front.behind.port}")
        with suppress(client.exceptions.BucketAlreadyOwnedByYou):
            client.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": region})

    def run(self, method: str, **arguments: Any) -> Any:
        """Anything else of EC2's."""
        return getattr(self._ec2, method)(**arguments)

    def _interface(self, made: Made, subnets: Sequence[str], *, private_dns: bool) -> None:
        answer = self._ec2.create_vpc_endpoint(
            VpcId=made.vpc,
            ServiceName=f"com.amazonaws.{REGION}.s3",
            VpcEndpointType="Interface",
            SubnetIds=[made.ids[subnet] for subnet in subnets],
            PrivateDnsEnabled=private_dns,
        )
        made.ids["vpce-interface"] = answer["VpcEndpoint"]["VpcEndpointId"]

    def _base(self, name: str, *, public: bool, private: bool) -> Made:
        made = self._vpc(name, "10.0.0.0/16")
        for number, zone in enumerate(self.zones):
            if public:
                made.ids[f"public-{zone}"] = self._subnet(made, f"public-{zone}", number, public=True)
                self._table(made, f"public-{zone}", "rtb-public")
            if private:
                made.ids[f"private-{zone}"] = self._subnet(made, f"private-{zone}", 16 + number, public=False)
                self._table(made, f"private-{zone}", f"rtb-private-{zone}")
        if public:
            self._route(made, "public", table="rtb-public", GatewayId=self._internet(made))
        return made

    def _vpc(self, name: str, block: str) -> Made:
        made = Made(name)
        made.vpc = made.ids["vpc"] = self._ec2.create_vpc(CidrBlock=block)["Vpc"]["VpcId"]
        self._ec2.modify_vpc_attribute(VpcId=made.vpc, EnableDnsHostnames={"Value": True})
        tables = self._ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [made.vpc]}])["RouteTables"]
        made.ids["rtb-main"] = tables[0]["RouteTableId"]
        return made

    def _subnet(self, made: Made, name: str, number: int, *, public: bool) -> str:
        return self._subnet_at(made, name, f"10.0.{number * 4}.0/22", name[-1], public=public)

    def _subnet_at(self, made: Made, name: str, block: str, zone: str, *, public: bool) -> str:
        tags = [{"Key": "Name", "Value": name}]
        answer = self._ec2.create_subnet(
            VpcId=made.vpc,
            CidrBlock=block,
            AvailabilityZone=f"{REGION}{zone}",
            TagSpecifications=[{"ResourceType": "subnet", "Tags": tags}],
        )
        found = str(answer["Subnet"]["SubnetId"])
        if public:
            self._ec2.modify_subnet_attribute(SubnetId=found, MapPublicIpOnLaunch={"Value": True})
        return found

    def _table(self, made: Made, subnet: str, name: str) -> None:
        if name not in made.ids:
            made.ids[name] = self._ec2.create_route_table(VpcId=made.vpc)["RouteTable"]["RouteTableId"]
        self._ec2.associate_route_table(RouteTableId=made.ids[name], SubnetId=made.ids[subnet])

    def _route(self, made: Made, subnet: str, *, table: str = "", **target: str) -> None:
        self._ec2.create_route(
            RouteTableId=made.ids[table or f"rtb-{subnet}"], DestinationCidrBlock="0.0.0.0/0", **target
        )

    def _internet(self, made: Made) -> str:
        made.ids["igw"] = self._ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        self._ec2.attach_internet_gateway(InternetGatewayId=made.ids["igw"], VpcId=made.vpc)
        return made.ids["igw"]

    def _nat(self, made: Made, name: str, subnet: str) -> str:
        address = self._ec2.allocate_address(Domain="vpc")["AllocationId"]
        answer = self._ec2.create_nat_gateway(SubnetId=made.ids[subnet], AllocationId=address)
        made.ids[name] = answer["NatGateway"]["NatGatewayId"]
        return made.ids[name]

    def _cluster(self, made: Made, kind: str, *, auto_mode: bool = False) -> Made:
        """The cluster is made with the subnets of a kind; without Auto Mode, Karpenter's tag marks them."""
        subnets = [one for name, one in made.ids.items() if name.startswith(f"{kind}-")]
        if not auto_mode:
            tags = [{"Key": "karpenter.sh/discovery", "Value": made.cluster}]
            self._ec2.create_tags(Resources=subnets, Tags=tags)
        role = "arn:aws:iam::123456789012:role/glowplug-lab"
        self._eks.create_cluster(name=made.cluster, roleArn=role, resourcesVpcConfig={"subnetIds": subnets})
        self._front.remember_cluster(made.cluster, made.vpc, auto_mode=auto_mode)
        return made
