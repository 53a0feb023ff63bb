"""A node: what makes its namespaces, in the world (`boot`), and what is the first process in them (`first`).

A node is the machine seen through a root of its own. `/var`, `/mnt`, `/opt` and `/tmp` are directories that belong to the node and
stay when it crashes, as a disk does; `/run` and `/dev/shm` are memory and do not; all else (`/usr`, `/etc`, home directories) is
the machine's. Paths inside the own ones that a node cannot do without (the checkout, the interpreter, the cache of built things)
remain visible. Nothing is made outside of the cluster's directory, not even a mount point.

kubelet sets kernel parameters of the machine (vm.overcommit_memory, kernel.panic …) unless they have the values that it wants. Here
it finds files with these values in their place, so that the machine keeps its own. The machine's identity and the identity of its
boot are stood in for in the same way, so that two nodes differ in the one, and a node before and after a crash in the other.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import socket
import subprocess
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab import enter
from lab.cluster import cgroups, images, network, spaces

OWN = ("/var", "/mnt", "/opt", "/tmp")
DISKS = Path("/mnt/k8s-disks/0")
READY = "started"
HERE = Path("/node")
_RUN = Path("/run")
_CONTAINERD = "/run/containerd/containerd.sock"
CNI_PLUGINS = "/usr/lib/cni"
_CNI_CONFIG = HERE / "etc" / "cni"
_START_SECONDS = 60.0
_WANTED_BY_KUBELET = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
_MNT_DETACH = 2


@dataclass(frozen=True)
class Task:
    """All that a node's processes are told. Paths are the machine's; `directory` shows as /node inside."""

    cluster: str
    name: str
    number: int
    octet: int
    directory: str
    keep: tuple[str, ...]
    commands: dict[str, str]
    archives: tuple[str, ...]
    labels: dict[str, str]
    taints: tuple[str, ...]

    @property
    def group(self) -> str:
        """Its control group."""
        return f"{self.cluster}/{self.name}"

    @property
    def plan(self) -> network.Plan:
        """The cluster's addresses."""
        return network.Plan(self.octet)

    def write(self) -> Path:
        """Write it to where `read` finds it."""
        path = Path(self.directory) / "task.json"
        path.write_text(json.dumps(asdict(self)))
        return path


def read(path: Path) -> Task:
    """The task in that file."""
    stated = json.loads(path.read_text())
    values: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in stated.items()}
    return Task(**values)


def main(part: str, task: str) -> int:
    """Be `boot` or `first` of the node whose task is in that file, until the node ends."""
    return {"boot": boot, "first": first}[part](Path(task))


def boot(task: Path) -> int:
    """In the world: make the namespaces and the link into them, and stay for as long as the node runs."""
    node = read(task)
    cgroups.join(node.cluster)
    space = spaces.Space(spaces.module("machine", "first", str(task)))
    try:
        space.wait_for_first()
        network.connect_node(node.number, space.pid, node.plan)
        space.tell("connected")
        return space.wait()
    finally:
        space.end()


def first(task: Path) -> int:
    """In the node: put its root together, start what a node runs, and do what a first process does."""
    node = read(task)
    cgroups.join(node.group)
    spaces.listen()
    socket.sethostname(node.name)
    _enter_root(node)
    network.settle_node(node.number, node.plan)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    services = {_start("containerd", _write_containerd_config(node)): "containerd"}
    _wait_for_containerd()
    for archive in node.archives:
        images.load(Path(archive))
    services[_start("kubelet", _kubelet(node))] = "kubelet"
    services[_start("kube-proxy", _kube_proxy(node))] = "kube-proxy"
    (HERE / READY).touch()
    return spaces.reap({service.pid: name for service, name in services.items()})


def prepare(task: Path) -> None:
    """Make the node's directories; what is there stays."""
    base = task.parent
    for part in ("etc/cni", "log", "empty", "etc/stand-ins"):
        (base / part).mkdir(parents=True, exist_ok=True)
    own = base / "own"
    for inside in (*OWN, "/var/lib", "/var/log", "/var/cache", "/var/tmp", str(DISKS)):
        (own / inside.lstrip("/")).mkdir(parents=True, exist_ok=True)
    for inside in ("tmp", "var/tmp"):
        (own / inside).chmod(0o1777)
    run = own / "var" / "run"
    if not run.is_symlink():
        run.symlink_to(_RUN)
    (base / READY).unlink(missing_ok=True)


def _enter_root(node: Task) -> None:
    base = Path(node.directory)
    places = {inside: str(base / "own" / inside.lstrip("/")) for inside in OWN}
    hidden = [path for path in node.keep if any(Path(path).is_relative_to(inside) for inside in (*OWN, "/run"))]
    # Not below what is shown at /node, or the new root would be found in itself.
    root = base.parent.with_name("root")
    root.mkdir(exist_ok=True)
    enter.assemble(root, places | {"/run": str(base / "empty"), str(HERE): str(base)}, hidden)
    os.chdir(root)
    libc = ctypes.CDLL(None, use_errno=True)
    subprocess.run(["pivot_root", ".", "."], check=True)
    if libc.umount2(b".", _MNT_DETACH) != 0:
        raise OSError(ctypes.get_errno(), "umount of the former root")
    os.chdir("/")
    _mount("-t", "proc", "proc", "/proc")
    for memory in ("/run", "/dev/shm"):
        _mount("-t", "tmpfs", "-o", "mode=1777" if memory == "/dev/shm" else "mode=755", "tmpfs", memory)
    _mount("--make-rshared", "/")  # what kubelet and mount propagation rely on
    for name, value in _WANTED_BY_KUBELET.items():
        _stand_in(Path("/proc/sys") / name, str(value))
    _stand_in(Path("/etc/machine-id"), hashlib.md5(node.group.encode(), usedforsecurity=False).hexdigest())
    _stand_in(Path("/proc/sys/kernel/random/boot_id"), str(uuid.uuid4()))


def _stand_in(file: Path, content: str) -> None:
    """Show other content in the place of a file of the machine, which itself is not changed."""
    if file.exists():
        own = HERE / "etc" / "stand-ins" / str(file).strip("/").replace("/", ".")
        own.write_text(f"{content}\n")
        _mount("--bind", str(own), str(file))


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def _start(name: str, argv: list[str]) -> subprocess.Popen[bytes]:
    with (HERE / "log" / f"{name}.log").open("ab") as log:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=_settings())


def _settings() -> dict[str, str]:
    # /etc is the machine's, and so is its list of proxies: a node has none.
    return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/run", "TMPDIR": "/tmp"}


def _wait_for_containerd() -> None:
    deadline = time.monotonic() + _START_SECONDS
    while subprocess.run(["ctr", "version"], capture_output=True, check=False).returncode != 0:
        if time.monotonic() > deadline:
            raise TimeoutError(f"containerd does not answer within {_START_SECONDS:.0f} s")
        time.sleep(0.1)


def _write_containerd_config(node: Task) -> list[str]:
    # Without CAP_SYS_RESOURCE, which machines of CI lack, nobody may lower a process's oom_score_adj.
    text = f"""\
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{images.PAUSE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_PLUGINS}"
    conf_dir = "{_CNI_CONFIG}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""
    (HERE / "etc" / "containerd.toml").write_text(text)
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": "/run/cni",
            "ranges": [[{"subnet": node.plan.pods(node.number)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    chain = {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, {"type": "loopback"}]}
    (_CNI_CONFIG / "pods.conflist").write_text(json.dumps(chain))
    return ["containerd", "--config", str(HERE / "etc" / "containerd.toml")]


def _kubelet(node: Task) -> list[str]:
    nothing = HERE / "etc" / "resolv.conf"
    nothing.touch()
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.plan.node(node.number),
        # The wire has no port to the outside, and the machine's root is who made all this.
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.group}",
        "failCgroupV1": False,
        "containerRuntimeEndpoint": f"unix://{_CONTAINERD}",
        "failSwapOn": False,
        "oomScoreAdj": 0,  # see containerd's configuration
        "imageGCHighThresholdPercent": 100,  # an image that was collected could not be pulled again
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
            "nodefs.inodesFree": "1%",
        },
        "resolvConf": str(nothing),
        "healthzBindAddress": "127.0.0.1",
        "registerNode": True,
        "nodeStatusUpdateFrequency": "5s",
    }
    (HERE / "etc" / "kubelet.json").write_text(json.dumps(config))
    words = [
        node.commands["kubelet"],
        f"--config={HERE}/etc/kubelet.json",
        f"--kubeconfig={HERE}/etc/kubelet.kubeconfig",
        f"--hostname-override={node.name}",
        f"--node-ip={node.plan.node(node.number)}",
        "--cert-dir=/var/lib/kubelet/pki",
        "-v=2",
    ]
    if node.labels:
        words.append("--node-labels=" + ",".join(f"{name}={value}" for name, value in node.labels.items()))
    if node.taints:
        words.append("--register-with-taints=" + ",".join(node.taints))
    return words


def _kube_proxy(node: Task) -> list[str]:
    return [
        node.commands["kube-proxy"],
        f"--kubeconfig={HERE}/etc/kube-proxy.kubeconfig",
        f"--hostname-override={node.name}",
        "--proxy-mode=nftables",
        f"--cluster-cidr={node.plan.whole}",
        f"--bind-address={node.plan.node(node.number)}",
        # These would be set for the whole machine.
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0",
        "--conntrack-tcp-timeout-close-wait=0",
    ]
