"""What is looked at before and after a cluster: all that it could leave on the machine."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

from lab.cluster import cgroups
from lab.kube.client import wait_for

_SETTINGS = (
    *("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys"),
    *("kernel/keys/root_maxbytes", "net/ipv4/ip_forward", "net/netfilter/nf_conntrack_max"),
)
_COMMANDS = ("containerd", "kubelet", "kube-", "etcd", "lab.cluster", "lab/cluster", "glowplug-cluster", "/pause")
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

    def additions(self, before: Machine) -> dict[str, frozenset[str]]:
        """What is here and was not before, by kind; empty when nothing."""
        new = {one.name: getattr(self, one.name) - getattr(before, one.name) for one in fields(self)}
        return {kind: found for kind, found in new.items() if found}


class Untouched:
    """The machine as it was, to compare with as it is."""

    def __init__(self) -> None:
        self.before = Machine.now()

    def additions(self) -> dict[str, frozenset[str]]:
        return Machine.now().additions(self.before)

    def wait(self, seconds: float = 60.0) -> None:
        """Return when nothing is left; fails naming what still is."""
        try:
            wait_for(seconds, "nothing is left", lambda: not self.additions())
        except TimeoutError:
            assert self.additions() == {}


@pytest.fixture
def machine() -> Untouched:
    return Untouched()


def _lines(*argv: str) -> list[str]:
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.splitlines()


def _names(*argv: str) -> set[str]:
    return {line.split()[0].partition("@")[0] for line in _lines(*argv) if line.strip()}


def _processes() -> set[str]:
    found = set()
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            words = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if any(name in words for name in _COMMANDS) and "pytest" not in words and "go build" not in words:
            found.add(f"{directory.name} {words[:200]}")
    return found
