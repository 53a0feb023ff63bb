"""Who has which address, and the few `ip` commands that make it so.

A cluster has one 10.X.0.0/16, the first X from 200 on that the machine has no route into. The wire is 10.X.0.0/24: a bridge in the
world, to which each node and the machine itself are connected; pods of node i have 10.X.i.0/24. Nodes have routes into this /16
and to the services, and no default route, so what a pod sends elsewhere is answered by "network is unreachable" at once.

On the machine itself there is one link, named after the cluster, with an address and a route that go away with it; the link goes
away with the world, in which its other end is.
"""

from __future__ import annotations

import ipaddress
import json
import subprocess
from dataclasses import dataclass

BRIDGE = "wire"
UPLINK = "uplink"
SERVICES = "10.96.0.0/24"
_FIRST, _LAST = 200, 250


@dataclass(frozen=True)
class Plan:
    """The addresses of the cluster that has 10.`octet`.0.0/16."""

    octet: int

    @property
    def whole(self) -> str:
        """Every address of nodes and pods."""
        return f"10.{self.octet}.0.0/16"

    @property
    def api(self) -> str:
        """The world's own end of the wire, where the API server listens."""
        return f"10.{self.octet}.0.1"

    @property
    def machine(self) -> str:
        """The machine's own end of the wire, where what runs outside of the cluster is reached."""
        return f"10.{self.octet}.0.2"

    def node(self, number: int) -> str:
        """A node's address; nodes count from 1."""
        return f"10.{self.octet}.0.{10 + number}"

    def pods(self, number: int) -> str:
        """The addresses of a node's pods."""
        return f"10.{self.octet}.{number}.0/24"


def ip(*words: str) -> str:
    """One `ip` command's output. Raises OSError with its own words."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def link_name(cluster: str) -> str:
    """The name of the machine's link into that cluster; a link's name has 15 letters at most."""
    return f"gp-{cluster.rpartition('-')[2]}"[:15]


def choose() -> Plan:
    """A /16 into which no route leads. The caller sees to it that nobody chooses at the same time."""
    routes = [one["dst"] for one in json.loads(ip("-4", "-j", "route", "show", "table", "all"))]
    taken = [ipaddress.ip_network(one, strict=False) for one in routes if one != "default"]
    for octet in range(_FIRST, _LAST):
        plan = Plan(octet)
        own = ipaddress.ip_network(plan.whole)
        if not any(own.overlaps(one) for one in taken if one.version == own.version):
            return plan
    raise OSError(f"routes lead into every network from 10.{_FIRST}.0.0/16 to 10.{_LAST - 1}.0.0/16")


def connect_machine(cluster: str, world: int, plan: Plan) -> None:
    """Lay the link between the machine and the world, in whose network namespace process `world` is."""
    link = link_name(cluster)
    ip("link", "add", link, "type", "veth", "peer", "name", UPLINK, "netns", str(world))
    ip("address", "add", f"{plan.machine}/24", "dev", link)
    ip("link", "set", link, "up")
    ip("route", "add", plan.whole, "via", plan.api, "dev", link)


def lay_wire(plan: Plan) -> None:
    """In the world: the bridge, with the link to the machine on it."""
    ip("link", "set", "lo", "up")
    ip("link", "add", BRIDGE, "type", "bridge")
    ip("address", "add", f"{plan.api}/24", "dev", BRIDGE)
    ip("link", "set", BRIDGE, "up")
    ip("link", "set", UPLINK, "master", BRIDGE, "up")


def connect_node(number: int, node: int, plan: Plan) -> None:
    """In the world: a link between the bridge and the node in whose network namespace process `node` is."""
    link = f"node-{number}"
    disconnect(link)  # of a node that crashed, the kernel removes it in its own time
    ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(node))
    ip("link", "set", link, "master", BRIDGE, "up")
    ip("route", "replace", plan.pods(number), "via", plan.node(number), "dev", BRIDGE)


def settle_node(number: int, plan: Plan) -> None:
    """In the node: its address, the way to other nodes' pods, and one for services to set out on before they are redirected."""
    ip("link", "set", "lo", "up")
    ip("address", "add", f"{plan.node(number)}/24", "dev", "eth0")
    ip("link", "set", "eth0", "up")
    for reached in (plan.whole, SERVICES):
        ip("route", "add", reached, "via", plan.api, "dev", "eth0")


def disconnect(link: str) -> None:
    """Remove a link; one that is not there is fine."""
    subprocess.run(["ip", "link", "delete", link], capture_output=True, check=False)
