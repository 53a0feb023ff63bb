"""Node mode: artifacts come from what this node's agent keeps, new ones and the start document go into the pod's outbox.

Nothing of this reaches beyond the two mounts. What the watcher alone needs is in `launch.outgoing`, which only it imports.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Callable

from glowplug.engines.adapter import Reach
from glowplug.launch import attempts, means
from glowplug.launch.prepare import STALE_SECONDS, Prepared, prepare
from glowplug.nodestore import layout
from glowplug.nodestore.layout import WAIT_SECONDS
from glowplug.nodestore.read import NodeStore
from glowplug.nodestore.restore import restore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from glowplug.core.clock import Deadline
    from glowplug.core.documents.start import RestoreResult
    from glowplug.launch.observer import Owner
    from glowplug.launch.options import RunOptions


def node(options: RunOptions, mount: Path) -> means.Means:
    """With the node store at `mount`."""
    store = NodeStore(mount)
    launcher = os.getpid()  # it becomes the engine; what is below is another process

    def prepared(
        command: Sequence[str],
        environ: Mapping[str, str],
        *,
        deadline: Deadline,
        say: Callable[[str], None],
        stale_seconds: float = STALE_SECONDS,
    ) -> Prepared:
        def restored(known: Prepared) -> RestoreResult:
            result = _restored(store, known, deadline, launcher)
            if known.root is not None:
                attempts.begun(known.root, launcher)
            return result

        return prepare(options, command, environ, say=say, restore=restored, stale_seconds=stale_seconds)

    def owner(known: Prepared, say: Callable[[str], None]) -> Owner:
        from glowplug.launch.outgoing import NodeOwner

        return NodeOwner(known, options, store, say)

    return means.Means(prepared, owner)


def _restored(store: NodeStore, prepared: Prepared, deadline: Deadline, launcher: int) -> RestoreResult:
    adapter, fingerprint, root = prepared.adapter, prepared.fingerprint, prepared.root
    assert adapter is not None  # noqa: S101 - `launch.prepare` restores only where these are known
    assert fingerprint is not None  # noqa: S101
    assert fingerprint.key is not None  # noqa: S101
    assert root is not None  # noqa: S101
    return restore(
        store,
        fingerprint.key,
        fingerprint.guards,
        root,
        deadline=deadline,
        wait_seconds=max(0.0, WAIT_SECONDS - _waited(store.mount, launcher)),
        skip_parts=attempts.left_out(root),
        allowed=lambda path: adapter.reach(path) is Reach.PORTABLE,
    )


def _waited(mount: Path, process: int) -> float:
    """Seconds that this process, as the shell before it, waited for the very program that it runs now: nobody is waited for twice.

    From its birth until the program was there. 0 where that was there before, whatever kept the process busy since, and where
    /proc does not tell.
    """
    try:
        with open(f"/proc/{process}/stat", "rb") as stat, open("/proc/uptime", "rb") as uptime:  # noqa: PTH123
            ticks = int(stat.read().rpartition(b")")[2].split()[19])
            up = float(uptime.read().split()[0])
        age = up - ticks / os.sysconf("SC_CLK_TCK")
        since = time.time() - (mount / layout.PROGRAM).stat().st_ctime
        return max(0.0, age - max(0.0, since))
    except (OSError, ValueError, IndexError):
        return 0.0
