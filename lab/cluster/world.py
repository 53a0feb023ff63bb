"""The first process of the world, in namespaces that `keeper` made.

It lays the wire, gives nodes names (`/etc/hosts`: kube-apiserver reaches a kubelet under its node's name, and no name server is
here), starts the control plane and then does what a first process does.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from lab.cluster import cgroups, network, spaces

MOST_NODES = 16
_HOSTS = Path("/etc/hosts")


def main(directory: str) -> int:
    """Be the world until the control plane or the keeper ends."""
    base = Path(directory)
    cgroups.join(base.name)
    subprocess.run(["mount", "-t", "proc", "proc", "/proc"], check=True)
    plan = network.Plan(int(spaces.listen()))
    network.lay_wire(plan)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    names = [f"{plan.node(number)} node-{number}\n" for number in range(1, MOST_NODES + 1)]
    hosts = base / "hosts"
    hosts.write_text("127.0.0.1 localhost\n" + "".join(names))
    subprocess.run(["mount", "--bind", str(hosts), str(_HOSTS)], check=True)
    control = subprocess.Popen(spaces.module("control", str(base), plan.api), stdin=subprocess.DEVNULL)
    return spaces.reap({control.pid: "the control plane"})
