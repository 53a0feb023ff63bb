"""etcd and kube-apiserver as two processes, with everything they keep in one temporary directory.

They end with their starter, whatever happens to it (`lab.guarded`), and leave nothing. etcd listens on sockets in that
directory alone, so that one TCP port is taken and no other user of the machine reaches the store behind the server.

Nothing else runs: no controller makes service accounts or endpoints, no scheduler binds pods, no node has a kubelet.
`make_namespace` does what a namespace needs for pods to be admitted.
"""

from __future__ import annotations

import functools
import os
import shutil
import socket
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from lab.guarded import Guarded
from lab.kube import binaries, certificates
from lab.kube.certificates import Certificates, Identity
from lab.kube.client import Client, Document, RefusedError, wait_for

CRDS = Path(__file__).resolve().parent.parent / "crds"
COMMANDS = ("etcd", "kube-apiserver")
_SERVICES = "10.96.0.0/24"
_FIRST_SERVICE = "10.96.0.1"
_CLIENTS, _PEERS = "unix://clients:0", "unix://peers:0"
"""Sockets in the working directory of both processes: etcd insists on the form host:port and makes a file of that name."""
_READY_SECONDS = 90.0
_PROBE_SECONDS = 3.0
_ATTEMPTS = 3


@dataclass(frozen=True)
class Server:
    """A running API server: where it is, what belongs to it, and a client that may do everything."""

    host: str
    port: int
    directory: Path
    files: Certificates
    administrator: Identity

    @property
    def url(self) -> str:
        """As a kubeconfig names it."""
        return f"https://{self.host}:{self.port}"

    @property
    def admin(self) -> Client:
        """A client in the group system:masters."""
        return self.client(self.administrator)

    def client(self, identity: Identity) -> Client:
        """A client for one of the identities that the server was started with."""
        return Client(self.host, self.port, self.files.authority, identity.token)

    def kubeconfig(self, identity: Identity) -> Path:
        """A file by which kubectl and Kubernetes' own components reach the server as `identity`."""
        path = self.directory / f"{identity.user.replace(':', '-')}.kubeconfig"
        certificates.write_kubeconfig(path, self.url, self.files.authority, identity)
        return path

    def install_crds(self, files: Iterable[Path]) -> None:
        """Add custom resource definitions and wait until their kinds can be used."""
        admin = self.admin
        definitions = [one for path in sorted(files) for one in yaml.safe_load_all(path.read_text()) if one]
        for definition in definitions:
            admin.apply(definition)
        for definition in definitions:
            wait_for(
                _READY_SECONDS,
                f"{definition['metadata']['name']} is established",
                functools.partial(_served, admin, definition),
            )

    def make_namespace(self, name: str, labels: Mapping[str, str] | None = None) -> None:
        """A namespace with the service account "default", which elsewhere a controller adds; there already is fine."""
        metadata = {"name": name, "labels": dict(labels or {})}
        self.admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        account = {"name": "default", "namespace": name}
        self.admin.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})


@contextmanager
def serve(
    identities: Sequence[Identity] = (), *, address: str = "127.0.0.1", directory: Path | None = None
) -> Iterator[Server]:
    """Run a server that knows an administrator and `identities`, on a free port of `address`; ready within seconds.

    `directory` is where its own temporary directory is made (default: the system's). Raises binaries.MissingError when the
    commands are not built and cannot be, and OSError with the end of its log when the server does not come up.
    """
    built = binaries.build(COMMANDS)
    for attempt in range(1, _ATTEMPTS + 1):
        with ExitStack() as processes:
            own = Path(tempfile.mkdtemp(prefix="glowplug-kube-", dir=directory))
            processes.callback(shutil.rmtree, own, ignore_errors=True)
            try:
                server = _start(built, own, address, identities, processes)
            except _PortTakenError:
                if attempt == _ATTEMPTS:
                    raise
                continue
            yield server
            return


class _PortTakenError(OSError):
    """Another process took the port between our choosing it and the server binding it."""


def _start(
    built: Mapping[str, Path], own: Path, address: str, identities: Sequence[Identity], processes: ExitStack
) -> Server:
    administrator = Identity("admin", ("system:masters",))
    names = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
    made = certificates.make(own, names, (address, "127.0.0.1", _FIRST_SERVICE))
    certificates.write_tokens(own / "tokens.csv", [administrator, *identities])
    server = Server(address, _free_port(address), own, made, administrator)
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(own), "TMPDIR": str(own)}

    def start(argv: list[str], log: Path) -> Guarded:
        # Nothing is worth a clean shutdown: what they keep goes too.
        return processes.enter_context(Guarded(argv, env=env, log=log, cwd=own, remove=[own], patience=0))

    store = start(_etcd(built["etcd"], own), own / "etcd.log")
    log = own / "kube-apiserver.log"
    process = start(_kube_apiserver(built["kube-apiserver"], server), log)
    asking = replace(server.admin, timeout=_PROBE_SECONDS)  # another's port might accept and never answer

    def ready() -> bool:
        for one, its_log in ((store, own / "etcd.log"), (process, log)):
            if one.poll() is not None:
                text = its_log.read_text(errors="replace")
                kind = _PortTakenError if "address already in use" in text else OSError
                raise kind(f"{its_log.stem} ended at once: {text[-2000:]}")
        try:
            asking.request("GET", "/readyz")
            asking.get("v1", "Namespace", "default")
        except (OSError, RefusedError):
            return False
        return True

    try:
        wait_for(_READY_SECONDS, "kube-apiserver is ready", ready)
    except TimeoutError as error:
        raise OSError(f"{error}: {log.read_text(errors='replace')[-2000:]}") from None
    return server


def _etcd(command: Path, own: Path) -> list[str]:
    return [
        str(command),
        "--name=lab",
        f"--data-dir={own}/etcd",
        f"--listen-client-urls={_CLIENTS}",
        f"--advertise-client-urls={_CLIENTS}",
        f"--listen-peer-urls={_PEERS}",
        f"--initial-advertise-peer-urls={_PEERS}",
        f"--initial-cluster=lab={_PEERS}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def _kube_apiserver(command: Path, server: Server) -> list[str]:
    files = server.files
    return [
        str(command),
        f"--etcd-servers={_CLIENTS}",
        f"--bind-address={server.host}",
        f"--secure-port={server.port}",
        # A loopback address cannot be an endpoint of the service "kubernetes": the server would log an error a second.
        *(["--endpoint-reconciler-type=none", "--advertise-address=192.0.2.1"] if server.host == "127.0.0.1" else []),
        f"--cert-dir={server.directory}",
        f"--tls-cert-file={files.server}",
        f"--tls-private-key-file={files.server_key}",
        f"--token-auth-file={server.directory}/tokens.csv",
        f"--service-account-key-file={files.signing_key}",
        f"--service-account-signing-key-file={files.signing_key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--authorization-mode=Node,RBAC",
        "--anonymous-auth=false",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--service-cluster-ip-range={_SERVICES}",
        "--profiling=false",
    ]


def _served(admin: Client, definition: Document) -> bool:
    stored = admin.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", definition["metadata"]["name"]).document
    conditions = {one["type"]: one["status"] for one in stored.get("status", {}).get("conditions", ())}
    if conditions.get("Established") != "True":
        return False
    spec = definition["spec"]
    try:
        for version in spec["versions"]:
            admin.list(f"{spec['group']}/{version['name']}", spec["names"]["kind"])
    except RefusedError:
        return False
    return True


def _free_port(address: str) -> int:
    with socket.socket() as one:
        one.bind((address, 0))
        return int(one.getsockname()[1])
