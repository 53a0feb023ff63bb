"""What this machine could not do for a cluster whatever was installed on it, found by trying.

Asked before anything is installed or built, so this needs the kernel and Python alone; `ip` and `nft` are tried where they are
there. What is tried happens in namespaces of its own, which the kernel takes away with the last process; outside of them there is,
for a moment, a directory and a control group that no cluster has.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lab.cluster import cgroups, spaces

_GROUP = "glowplug-try"
_NEW = 0x00020000 | 0x04000000 | 0x08000000 | 0x20000000 | 0x40000000
"""CLONE_NEWNS, NEWUTS, NEWIPC, NEWPID, NEWNET."""
_REC_PRIVATE = 0x4000 | 0x40000
_SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8913, 0x8914
_SECONDS = 60


@functools.cache
def missing() -> str:
    """Why no cluster can run here, ever; "" when nothing speaks against it, and for whoever is not root, who cannot try."""
    if os.geteuid() != 0:
        return ""
    return cgroups.missing() or _no_groups() or _no_namespaces()


def _no_groups() -> str:
    """A control group with a member, in every hierarchy."""
    name = f"{_GROUP}-{os.getpid()}"
    child = subprocess.Popen([sys.executable, "-IS", "-c", "input()"], stdin=subprocess.PIPE)
    try:
        cgroups.make(name)
        cgroups.join(name, child.pid)
    except OSError as error:
        return f"no right to control groups: {error}"
    finally:
        child.kill()
        child.communicate()
        with contextlib.suppress(OSError):
            cgroups.end(name)
    return ""


def _no_namespaces() -> str:
    """Namespaces, and in them mounts of the kinds that a node needs."""
    with tempfile.TemporaryDirectory() as place:
        done = subprocess.run(
            spaces.module("ability", place),
            env=spaces.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    return "" if done.returncode == 0 else f"no right to {done.stdout.strip() or done.stderr.strip()[-500:]}"


def main(place: str) -> int:
    """Try, as a process of its own; 1 with what failed on standard output."""
    libc = ctypes.CDLL(None, use_errno=True)

    def check(result: int) -> None:
        if result != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def mount(source: str, target: Path, kind: str, data: str = "") -> None:
        target.mkdir(exist_ok=True)
        check(libc.mount(source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(0), data.encode() or None))

    with _trying("the links of its network"):
        _write_a_link_as_it_is()
    with _trying("namespaces"):
        check(libc.unshare(_NEW))
    base = Path(place)
    with _trying("mounts"):
        check(libc.mount(b"none", b"/", None, ctypes.c_ulong(_REC_PRIVATE), None))
        # As a node has it: its disk is below the directory for temporary files, and images are layers on it.
        layers = {name: base / name for name in ("lower", "upper", "work")}
        for directory in layers.values():
            directory.mkdir()
        mount("overlay", base / "merged", "overlay", ",".join(f"{one}dir={there}" for one, there in layers.items()))
        mount("tmpfs", base / "memory", "tmpfs")
    first = os.fork()  # the new PID namespace begins with it
    if first == 0:
        with _trying("mounts"):
            mount("proc", base / "proc", "proc")
        with _trying("links between namespaces"):
            _run("ip", "link", "add", "one", "type", "veth", "peer", "name", "other")
            _run("ip", "link", "add", "wire", "type", "bridge")
        with _trying("packet rules"):
            _run("nft", "add", "table", "ip", "one")
        os._exit(0)
    _, status = os.waitpid(first, 0)
    return 1 if status else 0


def _write_a_link_as_it_is() -> None:
    """Give the machine's loopback the flags that it has: nothing changes, and the right is that to make a link."""
    request = struct.pack("16sh22x", b"lo", 0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))


def _run(*words: str) -> None:
    if shutil.which(words[0]) is None:
        return
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")


@contextlib.contextmanager
def _trying(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        print(f"{what}: {error}", flush=True)
        os._exit(1)
