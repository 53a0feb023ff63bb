"""What a cluster has outside of its namespaces, how that is found by the cluster's name alone, and how it is removed.

    <tmp>/glowplug-cluster-ID/     all its files
    /sys/fs/cgroup/*/glowplug-cluster-ID/   its control groups, with every process of it
    gp-ID                          a link

A name is a cluster's own from the moment its directory is made. Two locks in that directory say who still lives: the harness holds
one from the beginning, the keeper the other until all of this is gone; the kernel lets go of them when the holder ends. What
has neither is a leftover.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from lab.cluster import cgroups, network

PREFIX = "glowplug-cluster-"
HARNESS, KEEPER = "harness.lock", "keeper.lock"
_PROMPT = "prompt.json"
WHOSE = "GLOWPLUG_CLUSTER_WHOSE"
"""A variable: prompts that have another value in it have clusters of their own, and leave each other's alone."""
_ALONE = "\0glowplug-cluster"
_PATIENCE_SECONDS = 90.0


class State(Enum):
    """Who lives of those who end a cluster."""

    HELD = "held"
    """Its harness."""
    ENDING = "ending"
    """Only the keeper, who is therefore removing it."""
    LEFT = "left"
    """Nobody."""


@dataclass(frozen=True)
class Found:
    """A cluster on this machine, and who holds it if that was started by `make cluster-up`."""

    name: str
    state: State
    prompt: Prompt | None

    @property
    def base(self) -> Path:
        """Its directory, there or not."""
        return place() / self.name

    @property
    def at_prompt(self) -> bool:
        """Whether it is our prompt's, and goes on."""
        own = self.prompt is not None and self.prompt.whose == os.environ.get(WHOSE, "") and self.prompt.lives()
        return self.state is State.HELD and own


@dataclass(frozen=True)
class Prompt:
    """The process that holds the cluster of a prompt, and when that process began: a number is given again, a moment is not."""

    pid: int
    began: str
    whose: str = ""

    def lives(self) -> bool:
        """Whether it is still that process."""
        return _began(self.pid) == self.began


def place() -> Path:
    """Where clusters have their directories."""
    return Path(tempfile.gettempdir())


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """While in it, no other harness or clean-up of this machine is. A name in the kernel is the lock, so that no file stays."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    with socket.socket(socket.AF_UNIX) as lock:
        while True:
            try:
                lock.bind(_ALONE)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        yield


def begin() -> tuple[Path, int]:
    """A new cluster's directory, and the descriptor of the harness's lock in it."""
    with alone():
        base = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place()))
        return base, hold(base / HARNESS)


def hold(lock: Path) -> int:
    """Hold that lock for as long as the descriptor is open. Raises BlockingIOError when somebody else does."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise
    return descriptor


def claim_for_prompt(base: Path) -> None:
    """Say that the cluster belongs to this process and that `make cluster-down` may end it."""
    (base / _PROMPT).write_text(
        json.dumps({"pid": os.getpid(), "began": _began(os.getpid()), "whose": os.environ.get(WHOSE, "")})
    )


def found() -> list[Found]:
    """Every cluster of which there is anything on this machine."""
    names = {path.name for path in place().glob(f"{PREFIX}*") if path.is_dir()} | cgroups.names(PREFIX)
    return [Found(name, _state(place() / name), _prompt(place() / name)) for name in sorted(names)]


def remove_kernel_objects(name: str) -> None:
    """End every process of the cluster; remove its groups and its link. Raises OSError naming what would not go."""
    stuck = cgroups.end(name)
    network.disconnect(network.link_name(name))
    if stuck:
        raise OSError(f"{name}: these processes do not end: {', '.join(map(str, sorted(stuck)))}")


def remove_files(base: Path) -> None:
    """Remove the directory, although somebody who is about to end may still write into it. Raises OSError if it stays."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while base.exists():
        shutil.rmtree(base, ignore_errors=True)
        if time.monotonic() > deadline:
            raise OSError(f"{base} cannot be removed")
        time.sleep(0.02)


def clean(*, prompts: bool) -> tuple[list[str], list[str]]:
    """Remove all that has no harness any more and, if `prompts`, end the clusters of prompts; returns the names: removed, left.

    Left is what belongs to a harness that lives. Raises OSError when something would not go.
    """
    seen = found()
    for one in seen:
        if prompts and one.at_prompt and one.prompt is not None:
            os.kill(one.prompt.pid, signal.SIGTERM)
            _wait_until_left(one)
        elif one.state is State.ENDING:
            _wait_until_left(one)
    with alone():
        for one in found():
            if one.state is State.LEFT:
                remove_kernel_objects(one.name)
                remove_files(one.base)
        left = [one.name for one in found()]
    return [one.name for one in seen if one.name not in left], left


def _wait_until_left(one: Found) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while _state(one.base) is not State.LEFT:
        if time.monotonic() > deadline:
            raise OSError(f"{one.name} did not end within {_PATIENCE_SECONDS:.0f} s")
        time.sleep(0.1)


def _state(base: Path) -> State:
    if _is_held(base / HARNESS):
        return State.HELD
    return State.ENDING if _is_held(base / KEEPER) else State.LEFT


def _is_held(lock: Path) -> bool:
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _prompt(base: Path) -> Prompt | None:
    try:
        document = json.loads((base / _PROMPT).read_text())
    except (FileNotFoundError, ValueError):
        return None
    return Prompt(document["pid"], document["began"], document.get("whose", ""))


def _began(pid: int) -> str:
    """When the process began, in the kernel's ticks since boot; "" when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
