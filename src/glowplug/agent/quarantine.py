"""Parts that this node does without, on evidence: a start ended before it was ready with them, the next became ready without.

The pod's launcher makes both observations (`launch/attempts.py`), the API says that the container was started again. What is known
lies in the agent's own directory and outlives it; it is this node's alone, since another node may be another machine. For the whole
store only a person decides (`glowplug cache quarantine`).

Two observations may still mislead: the host ran out of memory, and the second start was lucky. So it ends by itself after a day,
when the parts are fetched again and may be found out again. A person ends it sooner by removing the file (docs/format.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.cache.quarantine import FILE, Quarantine
from glowplug.core.clock import SYSTEM, iso
from glowplug.tree import paths

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from glowplug.agent.pods import Pod
    from glowplug.core.clock import Clock


KEPT_SECONDS: Final = 86_400.0


def left_out(root: Path, clock: Clock = SYSTEM) -> frozenset[str]:
    """Digests of the parts that are not fetched into the node store now. Raises nothing."""
    evidence, begin = Quarantine(root / paths.OWN).read(), clock.now() - KEPT_SECONDS
    return frozenset(digest for digest in evidence.quarantined() if evidence.rows[digest].since > begin)


def described(root: Path, parts: Iterable[str], clock: Clock) -> str:
    """Which parts, until when, and how it is lifted."""
    short = ", ".join(sorted(part[:12] for part in parts))
    file = root / paths.OWN / FILE
    return f"part {short} is left out on this node until {iso(clock.now() + KEPT_SECONDS)}, or until {file} is removed"


def convict(root: Path, key_digest: str, parts: Iterable[str], clock: Clock) -> None:
    """Both observations were made about these parts. Raises nothing."""
    book, known = Quarantine(root / paths.OWN, clock), tuple(parts)
    book.lift(known)  # what was known of them counts from now
    book.failed(key_digest, known)
    book.succeeded(key_digest, ())


def was_restarted(pod: Pod) -> bool:
    """Whether the API says that a container of this pod was started more than once."""
    status = pod.object.get("status")
    found = status.get("containerStatuses") if isinstance(status, dict) else None
    return any(isinstance(one, dict) and (one.get("restartCount") or 0) > 0 for one in found or ())
