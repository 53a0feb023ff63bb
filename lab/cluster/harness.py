"""`up()`: a cluster for as long as a `with` block; `Cluster` and `Node`: what a test does with it.

Leaving the block ends everything, in whatever way it is left; a SIGKILL of this process too, since each of the processes started
here has a guard (`lab.guarded`) that sees it go.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, TypeVar

from lab import cachedir, kube, s3
from lab.cluster import ability, cgroups, control, images, inside, keeper, leftovers, machine, network, pods, spaces
from lab.cluster.world import MOST_NODES
from lab.guarded import Guarded
from lab.kube import binaries
from lab.kube.client import Document, RefusedError, wait_for
from lab.s3 import Server

GPU = "nvidia.com/gpu"
_Found = TypeVar("_Found")
_RELAY = Path(__file__).resolve().with_name("relay.py")
_READY_SECONDS = 120.0
_PATIENCE_SECONDS = 60.0
_COMMANDS = ("containerd", "ctr", "runc", "nft", "ip", "unshare", "nsenter", "pivot_root", "mount")


@dataclass(frozen=True)
class Shape:
    """What a node is like: its labels, its taints ("key=value:Effect"), and how many GPUs it pretends to have.

    The GPUs are a number in the node's status, which an administrator may write: the scheduler counts them and kubelet admits
    pods that ask for them, but no device appears in any container. Name the product by a label (`nvidia.com/gpu.product`).
    `counted` is what pods ask for, another resource where the node shall not be taken for one with GPUs.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[str] = ()
    gpus: int = 0
    counted: str = GPU


def missing() -> str:
    """What this machine lacks for a cluster, in words; "" when nothing. What can be built is none of it."""
    if os.geteuid() != 0:
        return "not root"
    never = ability.missing()
    if never:
        return never
    lacking = [name for name in _COMMANDS if shutil.which(name, path=spaces.environment()["PATH"]) is None]
    if not Path(machine.CNI_PLUGINS, "bridge").is_file():
        lacking.append("CNI plugins")
    return f"no {', '.join(lacking)}" if lacking else binaries.missing()


def unbuilt() -> str:
    """What `build` would build, in words; "" when nothing."""
    names = [name for name in control.COMMANDS if binaries.find(name) is None]
    return ", ".join([*names, *(["images"] if images.built() is None else [])])


def build() -> dict[str, Path]:
    """Kubernetes' commands, built now with the images if need be: minutes, once.

    Raises binaries.MissingError, binaries.BuildError and subprocess.CalledProcessError.
    """
    lacks = missing()
    if lacks:
        raise binaries.MissingError(lacks)
    commands = binaries.build(control.COMMANDS)
    images.build()
    return commands


@dataclass
class Node:
    """A node: where its files are, and what may happen to it. Made by the cluster."""

    name: str
    task: machine.Task
    shape: Shape
    _cluster: Cluster = field(repr=False)
    _process: Guarded | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        """Its address on the wire, which the machine and all pods reach."""
        return self.task.plan.node(self.task.number)

    @property
    def root(self) -> Path:
        """The directory, outside, that holds its own directories (`machine.OWN`)."""
        return Path(self.task.directory) / "own"

    @property
    def logs(self) -> Path:
        """Where containerd, kubelet, kube-proxy and its first process write."""
        return Path(self.task.directory) / "log"

    @property
    def disk(self) -> Path:
        """Its /mnt/k8s-disks/0, from outside."""
        return self.path(machine.DISKS)

    def path(self, inside: Path | str) -> Path:
        """Where one of its own files is, from outside. Raises ValueError for a path that is the machine's."""
        path = Path(inside)
        if not any(path.is_relative_to(own) for own in machine.OWN):
            raise ValueError(f"{path} is not the node's own: those are below {', '.join(machine.OWN)}")
        return self.root / path.relative_to("/")

    @property
    def running(self) -> bool:
        """Whether its processes run (paused ones do)."""
        return self._process is not None and self._process.poll() is None

    @property
    def ready(self) -> bool:
        """Whether the API server thinks that it is Ready."""
        try:
            status = self._cluster.kube.admin.get("v1", "Node", self.name).document["status"]
        except RefusedError:
            return False
        return any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", ()))

    def wait_until_ready(self, seconds: float = _READY_SECONDS) -> None:
        """Raises TimeoutError, with the end of its logs when it does not run."""

        def ready() -> bool:
            if not self.running:
                raise OSError(f"{self.name} ended: {_tail(self.logs / 'first.log')}{_tail(self.logs / 'kubelet.log')}")
            return self.ready

        wait_for(seconds, f"{self.name} is Ready", ready)

    def run(
        self, argv: Sequence[str], *, stdin: IO[bytes] | None = None, timeout: float = 120.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the node itself, as its root; text output captured. Raises OSError when the node is down."""
        return inside.run(self.task.group, argv, stdin=stdin, timeout=timeout)

    def crash(self) -> None:
        """As if its power was cut: every process is gone, memory is lost, the disk and the Node object stay."""
        if self._process is not None:
            self._process.close()
            self._process = None
        stuck = cgroups.end(self.task.group)
        if stuck:
            raise OSError(f"{self.name}: these processes do not end: {', '.join(map(str, sorted(stuck)))}")

    def start(self) -> None:
        """Switch it on; returns when its processes run, not yet when it is Ready."""
        if self.running:
            raise OSError(f"{self.name} runs already")
        self.crash()
        cgroups.make(self.task.group)
        machine.prepare(self.task.write())
        self._process = self._cluster.enter(machine_argv(self.task), self.logs / "first.log")
        started = Path(self.task.directory) / machine.READY

        def done() -> bool:
            if not self.running:
                raise OSError(f"{self.name} ended at once: {_tail(self.logs / 'first.log')}")
            return started.exists()

        wait_for(_READY_SECONDS, f"{self.name} has started", done)

    def restart(self) -> None:
        """Crash it, if it runs, and start it again with the disk that it had; returns when it is Ready.

        A taint that was taken from it does not come back, nor does one come that was not there: kubelet sets taints when it
        registers, and the Node object is still there.
        """
        self.crash()
        began = time.time()
        self.start()
        wait_for(_READY_SECONDS, f"{self.name} reports", lambda: self._reported_since(began))
        self.wait_until_ready()
        self._cluster.pretend_gpus(self)

    def pause(self) -> None:
        """Stop every process on it, its pods' too, as they are: the node is silent, its connections stay open."""
        cgroups.freeze(self.task.group, True)

    def resume(self) -> None:
        """Let the processes of a paused node go on."""
        cgroups.freeze(self.task.group, False)

    def _reported_since(self, began: float) -> bool:
        """Whether kubelet renewed its lease since then: what the Node says of itself may be from before the crash."""
        try:
            lease = self._cluster.kube.admin.get("coordination.k8s.io/v1", "Lease", self.name, "kube-node-lease")
        except RefusedError:
            return False
        stamp = lease.document["spec"]["renewTime"].partition(".")[0].removesuffix("Z")
        return time.mktime(time.strptime(f"{stamp} UTC", "%Y-%m-%dT%H:%M:%S %Z")) - time.timezone > began - 1


@dataclass
class Cluster:
    """A running cluster. Made by `up`."""

    base: Path
    plan: network.Plan
    s3: Server
    """The S3 server under an address that holds for pods and for this process alike."""
    commands: Mapping[str, Path]
    nodes: dict[str, Node] = field(default_factory=dict)
    _control: control.Control = field(kw_only=True, repr=False)
    _keep: tuple[str, ...] = field(kw_only=True, repr=False)
    _processes: ExitStack = field(kw_only=True, repr=False)
    _loaded: list[Path] = field(default_factory=list, repr=False)

    @property
    def name(self) -> str:
        """What its directory and its control groups are called."""
        return self.base.name

    @property
    def kube(self) -> kube.Server:
        """The API server, with a client that may do everything (`kube.admin`)."""
        return self._control.server

    @property
    def kubeconfig(self) -> Path:
        """The administrator's, for kubectl and others."""
        return self.kube.kubeconfig(self.kube.administrator)

    @property
    def s3_url(self) -> str:
        """The S3 server's endpoint as pods reach it. `s3.env()` has it with the rest that a client needs."""
        return self.s3.endpoint

    def add_node(
        self,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[str] = (),
        gpus: int = 0,
        *,
        counted: str = GPU,
        wait: bool = True,
    ) -> Node:
        """One more node ("node-3" after two), with what was loaded on the others; returns when it is Ready. See `Shape`."""
        number = len(self.nodes) + 1
        if number > MOST_NODES:
            raise ValueError(f"a cluster has {MOST_NODES} nodes at most")
        node = self._make(number, Shape(dict(labels or {}), tuple(taints), gpus, counted))
        node.start()
        if wait:
            self.settle(node)
        return node

    def load_image(self, archive: Path) -> None:
        """Import an image (`images.pack`) on every node that runs and on all that will be added."""
        for node in self.nodes.values():
            if node.running:
                inside.load(node.task.group, archive)
        self._loaded.append(archive)

    def kubectl(self, *words: str, stdin: str | None = None, timeout: float = 60.0) -> str:
        """What kubectl prints, as administrator. Raises OSError with its complaint."""
        done = subprocess.run(
            [str(self.commands["kubectl"]), *words],
            env={"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.base), "PATH": os.defpath},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
        if done.returncode != 0:
            raise OSError(f"kubectl {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def pod(self, name: str, namespace: str = "default") -> dict[str, Any]:
        """The pod as the API server has it now."""
        return self.kube.admin.get("v1", "Pod", name, namespace).document

    def logs(self, name: str, namespace: str = "default") -> str:
        """What a pod's container printed, fetched through the API server."""
        return self.kubectl("logs", f"--namespace={namespace}", name)

    def wait_for_pod(
        self, name: str, done: Callable[[dict[str, Any]], object], namespace: str = "default", seconds: float = 90.0
    ) -> dict[str, Any]:
        """The pod once `done(pod)` is true; raises TimeoutError with its status and events."""
        try:
            wait_for(seconds, f"pod {name}", lambda: done(self.pod(name, namespace)))
        except TimeoutError as error:
            events = self.kubectl("events", f"--namespace={namespace}", f"--for=pod/{name}")
            raise TimeoutError(f"{error}; {self.pod(name, namespace)['status']}\n{events}") from None
        return self.pod(name, namespace)

    def run(self, pod: Document, seconds: float = 90.0) -> str:
        """Create a pod that ends by itself, wait for that, and return what it printed. Raises ChildProcessError if it failed."""
        self.kube.admin.create(pod)
        name, namespace = pod["metadata"]["name"], pod["metadata"].get("namespace", "default")
        ended = self.wait_for_pod(name, pods.has_ended, namespace, seconds)
        printed = self.logs(name, namespace)
        if ended["status"]["phase"] != "Succeeded":
            raise ChildProcessError(f"pod {name} failed: {printed}")
        return printed

    def expose(self, server: Server) -> Server:
        """A server of 127.0.0.1 as pods reach it, under its own port, as long as the cluster is there: `lab.faults.Proxy`'s."""
        carry = [sys.executable, "-I", str(_RELAY), self.plan.machine, str(server.port), "127.0.0.1", str(server.port)]
        log = self.base / f"relay-{server.port}.log"
        self._processes.enter_context(Guarded(carry, env={}, log=log, cwd=self.base, patience=0))
        _adopt(self.base)
        return replace(server, host=self.plan.machine)

    def pretend_gpus(self, node: Node) -> None:
        """Write the node's number of GPUs into its status, where a device plugin would have it; kubelet leaves it there."""
        if node.shape.gpus:
            document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name}}
            number = {node.shape.counted: str(node.shape.gpus)}
            self.kube.admin.patch(
                document, {"status": {"capacity": number, "allocatable": number}}, subresource="status"
            )

    def enter(self, argv: Sequence[str], log: Path) -> Guarded:
        """Start a process in the world, guarded."""
        world = cgroups.first(self.name)
        if world is None:
            raise OSError(f"{self.name} has ended")
        inside = ["nsenter", f"--target={world}", "--net", "--mount", "--uts", "--ipc", "--pid", "--", *argv]
        return self._processes.enter_context(Guarded(inside, env=spaces.environment(), log=log, patience=0))

    def _make(self, number: int, shape: Shape) -> Node:
        name = f"node-{number}"
        directory = self.base / "nodes" / name
        (directory / "etc").mkdir(parents=True)
        server = self.kube
        authority = machine.HERE / "etc" / "authority.crt"
        shutil.copyfile(server.files.authority, directory / "etc" / authority.name)
        for file, identity in (
            ("kubelet.kubeconfig", self._control.node(name)),
            ("kube-proxy.kubeconfig", self._control.proxy),
        ):
            kube.certificates.write_kubeconfig(directory / "etc" / file, server.url, authority, identity)
        task = machine.Task(
            cluster=self.name,
            name=name,
            number=number,
            octet=self.plan.octet,
            directory=str(directory),
            keep=self._keep,
            commands={one: str(self.commands[one]) for one in ("kubelet", "kube-proxy")},
            archives=(*map(str, images.build()), *self._shown(directory)),
            labels=dict(shape.labels),
            taints=tuple(shape.taints),
        )
        self.nodes[name] = Node(name, task, shape, self)
        return self.nodes[name]

    def _shown(self, directory: Path) -> Iterator[str]:
        """Where a node finds what was loaded on the others: before its kubelet asks for it, as if it could be pulled."""
        place = directory / "images"
        place.mkdir()
        for number, archive in enumerate(self._loaded):
            shutil.copyfile(archive, place / f"{number}.tar")
            yield str(machine.HERE / place.name / f"{number}.tar")

    def settle(self, node: Node) -> None:
        """Return when a node that has (re)started is ready, with its GPUs."""
        node.wait_until_ready()
        self.pretend_gpus(node)


@contextmanager
def up(
    nodes: int | Sequence[Shape] = 2,
    *,
    buckets: Sequence[str] = ("lab",),
    keep: Sequence[Path] = (),
) -> Iterator[Cluster]:
    """Run a cluster with that many nodes, or with nodes of these shapes, and an S3 server with `buckets`; all Ready.

    `keep` are paths below a node's own directories (`machine.OWN`) that shall show the machine's content all the same. Raises
    binaries.MissingError when the machine lacks something, OSError and TimeoutError with the end of a log when it does not come up.
    """
    shapes = [Shape() for _ in range(nodes)] if isinstance(nodes, int) else list(nodes)
    commands = build()
    with ExitStack() as stack:
        base, lock = leftovers.begin()
        stack.callback(os.close, lock)
        stack.callback(shutil.rmtree, base, ignore_errors=True)
        log = base / "keeper.log"
        process = stack.enter_context(
            Guarded(
                spaces.module("keeper", str(base)),
                env=spaces.environment(),
                log=log,
                remove=[base],
                patience=_PATIENCE_SECONDS,
            )
        )
        stored = stack.enter_context(s3.serve(buckets, directory=base))
        octet = _wait_for(process, log, functools.partial(_read, base / keeper.PLAN))
        plan = network.Plan(int(octet))
        _adopt(base)
        running = _wait_for(process, log, functools.partial(control.read, base))
        always = (spaces.CHECKOUT, Path(sys.prefix), Path(sys.base_prefix), cachedir.root())
        cluster = Cluster(
            base,
            plan,
            stored,
            commands,
            _control=running,
            _keep=tuple(sorted({str(path) for path in (*always, *keep)})),
            _processes=stack,
        )
        cluster.s3 = cluster.expose(stored)
        made = [cluster._make(number, shape) for number, shape in enumerate(shapes, 1)]
        for node in made:
            node.start()
        for node in made:
            cluster.settle(node)
        account = functools.partial(cluster.kube.admin.get, "v1", "ServiceAccount", "default", "default")
        wait_for(_READY_SECONDS, "pods are admitted to the namespace default", functools.partial(_is_there, account))
        yield cluster


def machine_argv(task: machine.Task) -> list[str]:
    """The command by which a node starts in the world."""
    return spaces.module("machine", "boot", str(Path(task.directory) / "task.json"))


def _wait_for(process: Guarded, log: Path, ask: Callable[[], _Found | None]) -> _Found:
    """What `ask` finds, as long as the keeper lives. Raises OSError and TimeoutError."""
    deadline = time.monotonic() + _READY_SECONDS
    while (answer := ask()) is None:
        if process.poll() is not None:
            raise OSError(f"the cluster ended at once: {_tail(log)}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"the cluster is not ready after {_READY_SECONDS:.0f} s: {_tail(log)}")
        time.sleep(0.05)
    return answer


def _read(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


def _adopt(base: Path) -> None:
    """Make what runs outside of the world in the cluster's directory a member of its group: the S3 server and its relay.

    Should their guards be killed as well, they end with the rest.
    """
    for process in Path("/proc").glob("[0-9]*"):
        try:
            directory = (process / "cwd").readlink()
        except OSError:
            continue
        if directory.is_relative_to(base) and int(process.name) not in cgroups.members(base.name):
            cgroups.join(base.name, int(process.name))


def _is_there(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except RefusedError:
        return False
    return True


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-3000:] if log.exists() else ""
