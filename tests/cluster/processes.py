"""The processes of a pod, as the machine sees them: by the control group that kubelet makes for it."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.kube.client import wait_for

_SANDBOX = "/pause"
_WATCHER = " run --exec -- "
"""In the words of a launcher, which its watcher keeps when it has become the engine."""


def of_pod(pod: Mapping[str, Any]) -> dict[int, str]:
    """Process → its words, without the one that holds the pod's namespaces."""
    uid, found = f"pod{pod['metadata']['uid']}", {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if uid not in (place / "cgroup").read_text():
                continue
            words = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            if words and words.split()[0] != _SANDBOX:  # one that has ended, and is not reaped yet, has no words
                found[int(place.name)] = words
        except OSError:
            continue
    return found


def engine(pod: Mapping[str, Any], *, watchers: int = 0, other_than: int = 0) -> int:
    """The engine of a pod, once there is nothing beside it but so many watchers. Raises TimeoutError naming what there is.

    `other_than` is the engine before a container was started again.
    """
    found: list[int] = []

    def settled() -> bool:
        there = of_pod(pod)
        found[:] = [number for number, words in there.items() if _WATCHER not in words]
        return len(found) == 1 and found != [other_than] and len(there) == 1 + watchers

    try:
        wait_for(30, f"an engine and {watchers} watchers run in the pod", settled)
    except TimeoutError as error:
        raise TimeoutError(f"{error}: {of_pod(pod)}") from None
    return found[0]


def wait_for_none(pod: Mapping[str, Any]) -> None:
    """Return when nothing of a pod runs. Raises TimeoutError naming what does."""
    try:
        wait_for(30, "nothing is left of the pod", lambda: not of_pod(pod))
    except TimeoutError as error:
        raise TimeoutError(f"{error}: {of_pod(pod)}") from None


def kill(number: int) -> None:
    """As the kernel does when memory is short."""
    os.kill(number, signal.SIGKILL)
