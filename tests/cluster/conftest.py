"""A cluster with agents for those who share it; and what a cluster could leave on the machine, to look at before and after.

The latter is all but what other people's clusters have. Somebody else's is known by who holds its lock: a process that does not
descend from this one. What nobody holds counts as ours.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

import pytest

from glowplug import __version__
from glowplug.manifests import recipe
from lab import cluster, engine, s3
from lab.cluster import cgroups, leftovers, network
from lab.faults import Proxy
from lab.fleet import agents, image, rendered
from lab.kube.client import wait_for
from tests.cluster import credentials, programs, workloads

OTHERS = "others"
"""A namespace that no agent was told to believe."""

IMAGE = f"glowplug:{__version__}"
BAKED = recipe.Start("s3://pods")
"""What pods of direct mode restore from, and the fixture `baked` bakes into."""

_SETTINGS = (
    *("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys"),
    *("kernel/keys/root_maxbytes", "net/ipv4/ip_forward", "net/netfilter/nf_conntrack_max"),
)
_COMMANDS = ("lab.cluster", "lab/cluster")
_PLACES = ("/", "/mnt", "/opt", "/var", "/var/lib", "/run", "/etc")


@dataclass(frozen=True)
class Machine:
    """What of a cluster could be seen on this machine; only kinds of things that tests which run beside this one do not have."""

    mounts: frozenset[str]
    links: frozenset[str]
    namespaces: frozenset[str]
    groups: frozenset[str]
    processes: frozenset[str]
    settings: frozenset[str]
    rules: frozenset[str]
    directories: frozenset[str]

    @classmethod
    def now(cls) -> Machine:
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        groups = {str(group) for place in cgroups.hierarchies() for group in place.glob("glowplug-cluster-*")}
        settings = [path for name in _SETTINGS if (path := Path("/proc/sys", name)).exists()]
        left = Path(tempfile.gettempdir()).glob("glowplug-cluster-*")
        return cls(
            mounts=frozenset(mounts),
            links=frozenset(_names("ip", "-brief", "link")),
            namespaces=frozenset(_names("ip", "netns")),
            groups=frozenset(groups),
            processes=frozenset(_processes()),
            settings=frozenset(f"{path} {path.read_text()}" for path in settings),
            rules=frozenset(_lines("nft", "list", "ruleset")),
            directories=frozenset(map(str, left)) | {str(path) for place in _PLACES for path in Path(place).iterdir()},
        )

    def additions(self, before: Machine, foreign: Iterable[str]) -> dict[str, frozenset[str]]:
        """What is here, was not before and does not bear one of these clusters' names, by kind; empty when nothing."""
        marks = [mark for name in foreign for mark in (name, network.link_name(name))]
        new = {
            one.name: frozenset(
                item
                for item in getattr(self, one.name) - getattr(before, one.name)
                if not any(mark in item for mark in marks)
            )
            for one in fields(self)
        }
        return {kind: found for kind, found in new.items() if found}


class Untouched:
    """The machine as it was, to compare with as it is."""

    def __init__(self) -> None:
        self._foreign: set[str] = set()
        self._own: set[str] = set()
        self._look()
        self.before = Machine.now()

    def own(self, name: str) -> None:
        """That cluster is ours, although whoever holds it has left us."""
        self._own.add(name)

    def names(self) -> set[str]:
        """The clusters on this machine that are nobody else's."""
        self._look()
        return {one.name for one in leftovers.found()} - (self._foreign - self._own)

    def others(self) -> set[str]:
        """Those that are."""
        self._look()
        return self._foreign - self._own

    def additions(self) -> dict[str, frozenset[str]]:
        now = Machine.now()
        self._look()
        return now.additions(self.before, self._foreign - self._own)

    def _look(self) -> None:
        for one in leftovers.found():
            holder = _holder(one.base / leftovers.HARNESS)
            if holder and one.state is leftovers.State.HELD:
                # Whose it is once it stays, also when its harness has lost who started it.
                (self._own if _descends(holder) else self._foreign).add(one.name)

    def wait(self, seconds: float = 60.0) -> None:
        """Return when nothing is left; fails naming what still is."""
        try:
            wait_for(seconds, "nothing is left", lambda: not self.additions())
        except TimeoutError:
            assert self.additions() == {}


@dataclass(frozen=True)
class Fleet:
    """A cluster, the rendered agent on its two nodes, and what agents speak to: the store by a proxy, their role's credentials."""

    running: cluster.Cluster
    proxy: Proxy
    store: s3.Server
    """The proxy as pods reach it."""
    role: credentials.Service


@dataclass(frozen=True)
class First:
    """What the first pod of the fleet's first workload brought into the store: its key, and what its agent counted meanwhile."""

    digest: str
    counted: Mapping[str, float]


@pytest.fixture(scope="session")
def fleet() -> Iterator[Fleet]:
    """For all tests with small programs in the place of engines; those of which the seconds count come before, in their own."""
    shapes = [replace(rendered.gpu_node(), taints=()) for _ in range(2)]
    with (
        cluster.up(shapes, buckets=["cache", "pods"]) as running,
        Proxy(s3.Server(running.s3.port)) as proxy,
        credentials.Service(s3.LAB) as role,
    ):
        running.load_image(image.archive())
        documents = rendered.render("agent", "--mode=node", "--store=s3://cache", "--domain=default")
        store = running.expose(proxy.server)
        # By default the store is listed every few minutes, which no test waits for.
        own = {"AWS_ENDPOINT_URL": store.endpoint, "AWS_REGION": s3.REGION, "GLOWPLUG_RELIST": "5s"}
        rendered.apply(running, rendered.told(documents, own | role.env(running.expose(role.server))))
        running.kubectl("create", "namespace", OTHERS)
        rendered.wait_for_agents(running)
        yield Fleet(running, proxy, store, role)


@pytest.fixture(scope="session")
def python() -> Path:
    """The engine environment's interpreter."""
    return engine.build()


@pytest.fixture(scope="session")
def running(fleet: Fleet) -> cluster.Cluster:
    """The fleet's cluster; tests that need one of their own have a fixture of this name."""
    return fleet.running


@pytest.fixture(scope="session")
def proxy(fleet: Fleet) -> Proxy:
    """What stands between the agents and the store."""
    return fleet.proxy


@pytest.fixture(scope="session")
def make(fleet: Fleet, python: Path) -> workloads.Workloads:
    """Workloads of node mode."""
    return workloads.Workloads(fleet.running, python)


@pytest.fixture(scope="session")
def first(fleet: Fleet, make: workloads.Workloads) -> First:
    """A pod of node-1 has compiled for one rank."""
    before = agents.metrics(fleet.running, "node-1")
    keys = set(rendered.keys(fleet.running, "default"))
    assert make.verdict("first", 1, "node-1") == "miss"
    workloads.wait_until_published(fleet.running, "first")
    after = agents.metrics(fleet.running, "node-1")
    (digest,) = set(rendered.keys(fleet.running, "default")) - keys
    return First(digest, {name: value - before.get(name, 0.0) for name, value in after.items()})


@pytest.fixture(scope="session")
def published(first: First) -> str:
    """The digest of its key, which pods for one rank have on either node."""
    return first.digest


@pytest.fixture(scope="session")
def baked(fleet: Fleet, python: Path) -> str:
    """What the Job printed that baked for pods of direct mode."""
    pod = programs.compiling("bakes", recipe.bake(IMAGE, BAKED, 300), python, fleet.running.s3, "--layers", "1")
    return fleet.running.run(pod, seconds=240)


@pytest.fixture
def machine() -> Untouched:
    return Untouched()


def _holder(lock: Path) -> int:
    """The process that took the lock of that file, 0 when nobody has it."""
    try:
        inode = lock.stat().st_ino
    except OSError:
        return 0
    for line in Path("/proc/locks").read_text().splitlines():
        fields_ = line.split()
        if fields_[1] == "FLOCK" and fields_[5].rpartition(":")[2] == str(inode):
            return int(fields_[4])
    return 0


def _descends(pid: int) -> bool:
    """Whether that process is this one, or one that it started, or one of those."""
    while pid > 1:
        if pid == os.getpid():
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False


def _lines(*argv: str) -> list[str]:
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.splitlines()


def _names(*argv: str) -> set[str]:
    return {line.split()[0].partition("@")[0] for line in _lines(*argv) if line.strip()}


def _processes() -> set[str]:
    """Those that belong to a cluster, or make one. (Servers like a cluster's own run for other tests, too.)"""
    found = set()
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            words = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        name = _cluster_of(directory)
        if (name or any(command in words for command in _COMMANDS)) and "pytest" not in words:
            found.add(f"{directory.name} {words[:200]} {name}")
    return found


def _cluster_of(process: Path) -> str:
    """The cluster in whose control group, directory or words the process is, "" where it is in none."""
    told = []
    with contextlib.suppress(OSError):  # it may end meanwhile
        told.append((process / "cgroup").read_text())
        told.append((process / "cmdline").read_bytes().decode(errors="replace"))
        told.append(str((process / "cwd").readlink()))
    return " ".join(dict.fromkeys(re.findall(rf"{leftovers.PREFIX}\w+", " ".join(told))))
