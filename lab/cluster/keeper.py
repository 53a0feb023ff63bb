"""The process that starts the world and removes what the kernel does not.

It runs outside of the cluster, guarded by the harness (`lab.guarded`), so that it is told to end whatever happens to that one. When
it is killed itself, the world ends with it, and `leftovers` removes the rest later.
"""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path
from types import FrameType

from lab.cluster import cgroups, leftovers, network, spaces

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1
PLAN = "network"
"""The file in which the harness reads which addresses were free."""


class _Told(BaseException):
    """A signal told us to end."""


def main(directory: str) -> int:
    """Hold the cluster until told to end (then nothing of it is left) or until its control plane ends (then files are)."""
    base = Path(directory)
    _end_with_parent()
    lock = leftovers.hold(base / leftovers.KEEPER)
    for number in _SIGNALS:
        signal.signal(number, _stop)
    world: spaces.Space | None = None
    told = False
    try:
        cgroups.make(base.name)
        world = spaces.Space(spaces.module("world", str(base)))
        world.wait_for_first()
        with leftovers.alone():
            plan = network.choose()
            network.connect_machine(base.name, world.pid, plan)
        world.tell(str(plan.octet))
        beside = base / f"{PLAN}.new"
        beside.write_text(str(plan.octet))
        beside.rename(base / PLAN)
        return world.wait()
    except _Told:
        told = True
        return 0
    finally:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        leftovers.remove_kernel_objects(base.name)
        if world is not None:
            world.end()
        if told:
            leftovers.remove_files(base)
        os.close(lock)


def _end_with_parent() -> None:
    """Be told to end when the guard is killed, who would have told us."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise _Told
