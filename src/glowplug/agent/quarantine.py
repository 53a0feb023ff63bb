"""Parts that this node does without, on evidence: a start ended before it was ready with them, the next became ready without.

The pod's launcher makes both observations (`launch/attempts.py`), the API says that the container was started again. What is known
lies in the agent's own directory and outlives it; it is this node's alone, since another node may be another machine. For the whole
store only a person decides (`glowplug cache quarantine`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.cache.quarantine import Quarantine
from glowplug.tree import paths

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from glowplug.agent.pods import Pod
    from glowplug.core.clock import Clock


def left_out(root: Path) -> frozenset[str]:
    """Digests of the parts that are not fetched into the node store. Raises nothing."""
    return Quarantine(root / paths.OWN).read().quarantined()


def convict(root: Path, key_digest: str, parts: Iterable[str], clock: Clock) -> None:
    """Both observations were made about these parts. Raises nothing."""
    book = Quarantine(root / paths.OWN, clock)
    book.failed(key_digest, parts)
    book.succeeded(key_digest, ())


def was_restarted(pod: Pod) -> bool:
    """Whether the API says that a container of this pod was started more than once."""
    status = pod.object.get("status")
    found = status.get("containerStatuses") if isinstance(status, dict) else None
    return any(isinstance(one, dict) and (one.get("restartCount") or 0) > 0 for one in found or ())
