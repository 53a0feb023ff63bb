"""The control plane, a process of the world.

etcd and kube-apiserver are `lab.kube`'s; beside them kube-controller-manager and kube-scheduler, of which each has an identity with
the rights that Kubernetes itself gives it, no more. What the harness needs to know stands in a file once the server is ready.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import kube
from lab.cluster.world import MOST_NODES
from lab.guarded import Guarded
from lab.kube import binaries
from lab.kube.certificates import Certificates, Identity

COMMANDS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl")
_FILE = "server.json"
_PROXY = "kube-proxy"
_SETTINGS = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
_GRACE = "20s"
"""How long a node may be silent before it is NotReady; 50 s elsewhere, and every test of a crash waits for it."""


@dataclass(frozen=True)
class Control:
    """The running control plane, and who may join it."""

    server: kube.Server
    identities: dict[str, Identity]

    def node(self, name: str) -> Identity:
        """A kubelet's identity."""
        return self.identities[name]

    @property
    def proxy(self) -> Identity:
        """kube-proxy's, the same on each node."""
        return self.identities[_PROXY]


def read(base: Path) -> Control | None:
    """What a control plane in this directory says of itself; None as long as it is not ready."""
    try:
        document = json.loads((base / _FILE).read_text())
    except FileNotFoundError:
        return None
    files = Certificates(*(Path(one) for one in document["files"]))
    server = kube.Server(
        document["host"], document["port"], Path(document["directory"]), files, _identity(document["administrator"])
    )
    return Control(server, {name: _identity(one) for name, one in document["identities"].items()})


def main(directory: str, address: str) -> int:
    """Run it until one of its processes ends."""
    base = Path(directory)
    manager = Identity("system:kube-controller-manager")
    scheduler = Identity("system:kube-scheduler")
    joining = {_PROXY: Identity("system:kube-proxy")}
    for number in range(1, MOST_NODES + 1):
        joining[f"node-{number}"] = Identity(f"system:node:node-{number}", ("system:nodes",))
    built = binaries.build(COMMANDS)
    with ExitStack() as processes:
        server = processes.enter_context(
            kube.serve([manager, scheduler, *joining.values()], address=address, directory=base)
        )
        started = [
            processes.enter_context(Guarded(argv, env=_SETTINGS, log=base / f"{name}.log", cwd=base, patience=0))
            for name, argv in (
                ("kube-controller-manager", _manager(built["kube-controller-manager"], server, manager)),
                ("kube-scheduler", _scheduler(built["kube-scheduler"], server, scheduler)),
            )
        ]
        _write(base, server, joining)
        while all(one.poll() is None for one in started):
            time.sleep(0.5)
    return 1


def _manager(command: Path, server: kube.Server, identity: Identity) -> list[str]:
    return [
        *_component(command, server, identity),
        f"--service-account-private-key-file={server.files.signing_key}",
        f"--root-ca-file={server.files.authority}",
        "--use-service-account-credentials",
        f"--node-monitor-grace-period={_GRACE}",
    ]


def _scheduler(command: Path, server: kube.Server, identity: Identity) -> list[str]:
    return _component(command, server, identity)


def _component(command: Path, server: kube.Server, identity: Identity) -> list[str]:
    own = server.kubeconfig(identity)
    return [
        str(command),
        f"--kubeconfig={own}",
        f"--authentication-kubeconfig={own}",
        f"--authorization-kubeconfig={own}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={server.directory}/{command.name}",
        "--leader-elect=false",
    ]


def _write(base: Path, server: kube.Server, identities: dict[str, Identity]) -> None:
    files = server.files
    document = {
        "host": server.host,
        "port": server.port,
        "directory": str(server.directory),
        "files": [str(one) for one in (files.authority, files.server, files.server_key, files.signing_key)],
        "administrator": _stated(server.administrator),
        "identities": {name: _stated(one) for name, one in identities.items()},
    }
    beside = base / f"{_FILE}.new"
    beside.touch(mode=0o600)
    beside.write_text(json.dumps(document))
    beside.rename(base / _FILE)


def _stated(identity: Identity) -> dict[str, Any]:
    return {"user": identity.user, "groups": list(identity.groups), "token": identity.token}


def _identity(document: dict[str, Any]) -> Identity:
    return Identity(document["user"], tuple(document["groups"]), document["token"])
