"""The control groups of a cluster: `/<name>` for the world, `/<name>/<node>` for a node, in every hierarchy.

They are more than limits here. No process leaves its group by forking, so a group says what belongs to a cluster, whoever
started it and however it is called; that is how leftovers are found. The freezer's group stops a whole node.

Version 1 only (kubelet still takes it, with `failCgroupV1: false`); on version 2 a group with members may not have groups with
controllers below it, so there it would need another layout, and nobody has tried one.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

_MOUNTS = Path("/proc/self/mounts")
_NEEDED = ("cpu", "cpuset", "memory", "pids", "devices", "freezer")
_PATIENCE_SECONDS = 20.0


def hierarchies() -> tuple[Path, ...]:
    """Where each hierarchy is mounted, the one of version 2 beside them included."""
    mounts = [line.split() for line in _MOUNTS.read_text().splitlines()]
    return tuple(dict.fromkeys(Path(fields[1]) for fields in mounts if fields[2] in ("cgroup", "cgroup2")))


def missing() -> str:
    """What a node would lack here, "" when nothing."""
    there = {controller for place in _controllers() for controller in place}
    lacking = [one for one in _NEEDED if one not in there]
    return f"no cgroup version 1 hierarchy for {', '.join(lacking)}" if lacking else ""


def make(name: str) -> None:
    """Make the group, and those above it, in every hierarchy; one that is there is fine."""
    for place in hierarchies():
        group = place
        for part in Path(name).parts:
            above, group = group, group / part
            group.mkdir(exist_ok=True)
            for file in ("cpuset.cpus", "cpuset.mems"):
                # A new group of this controller has no processor and no memory, and takes no member until it has.
                if (group / file).exists() and not (group / file).read_text().strip():
                    (group / file).write_text((above / file).read_text())


def join(name: str, pid: int = 0) -> None:
    """Make that process (this one by default), and with it all that it will start, a member of the group."""
    for place in hierarchies():
        (place / name / "cgroup.procs").write_text(str(pid))


def members(name: str, *, below: bool = True) -> set[int]:
    """The processes in the group, as this process's own /proc numbers them; with those in groups below it unless told not to."""
    found: set[int] = set()
    for place in hierarchies():
        for group in _tree(place / name) if below else [place / name]:
            try:
                found |= {int(line) for line in (group / "cgroup.procs").read_text().split()}
            except OSError:
                continue  # ended meanwhile
    return found - {0}


def first(name: str) -> int | None:
    """The process of the group itself that is the first one of its PID namespace, None when there is none."""
    for pid in members(name, below=False):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        inside = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
        if len(inside) > 1 and inside[-1] == "1":
            return pid
    return None


def freeze(name: str, frozen: bool) -> None:
    """Stop every process of the group and below it, or let them go on. Raises TimeoutError."""
    state = _freezer() / name / "freezer.state"
    wanted = "FROZEN" if frozen else "THAWED"
    state.write_text(wanted)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while state.read_text().strip() != wanted:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{name} is not {wanted.lower()} after {_PATIENCE_SECONDS:.0f} s")
        time.sleep(0.02)
        state.write_text(wanted)


def end(name: str) -> set[int]:
    """Kill whatever is in the group and below it, and remove it everywhere; returns the processes that would not go.

    Frozen processes are let go first, since they cannot even die. One pass is not enough: what is being killed may still fork.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        for group in _tree(_freezer() / name):
            state = group / "freezer.state"
            if state.exists() and state.read_text().strip() != "THAWED":
                state.write_text("THAWED")
        alive = members(name)
        for pid in alive:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if not alive and _remove(name):
            return set()
        if time.monotonic() > deadline:
            return alive
        time.sleep(0.05)


def names(prefix: str) -> set[str]:
    """The groups directly below a root whose names begin so."""
    return {group.name for place in hierarchies() for group in place.glob(f"{prefix}*") if group.is_dir()}


def _remove(name: str) -> bool:
    """Remove the empty group and those below it; False while the kernel is not yet done with its last members."""
    gone = True
    for place in hierarchies():
        for group in _tree(place / name):
            try:
                group.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                gone = False
    return gone


def _tree(group: Path) -> Iterator[Path]:
    """The group and those below it, deepest first; nothing when it is not there."""
    for directory, _, _ in os.walk(group, topdown=False):
        yield Path(directory)


def _freezer() -> Path:
    return next(place for place in hierarchies() if "freezer" in place.name.split(","))


def _controllers() -> Iterator[list[str]]:
    for line in _MOUNTS.read_text().splitlines():
        fields = line.split()
        if fields[2] == "cgroup":
            yield fields[3].split(",")
