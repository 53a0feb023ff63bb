"""`glowplug.start/1`: one start of an engine, wherever it was seen."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, Final, Mapping, Optional

from glowplug.core.documents.fingerprint import Fact

SCHEMA: Final = "glowplug.start/1"

PHASES: Final = (
    "node_launch",
    "schedule",
    "image_pull",
    "init",
    "restore",
    "process",
    "imports",
    "weights",
    "compile",
    "graph_capture",
    "warmup",
    "ready",
    "unattributed",
)
"""Names of phases, in the order in which they usually happen."""


class Compile(enum.Enum):
    """What really happened to compilation at a start."""

    HIT = "hit"
    PARTIAL = "partial"
    MISS = "miss"
    REJECTED = "rejected"
    DISABLED = "disabled"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Verdict:
    """`compile_seconds`: what the engine reports, else what was measured, None where neither is known."""

    compile: Compile
    compile_seconds: Optional[float] = None
    reason: str = ""
    evidence: tuple[str, ...] = ()


class RestoreOutcome(enum.Enum):
    """Whether artifacts were put in place before the engine started."""

    RESTORED = "restored"
    NONE = "none"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True)
class RestoreResult:
    """`parts` are blob digests, `bytes` the unpacked bytes written, `source` the store or node store.

    `aside` are parts that were left out since a start ended before it was ready with them: with a start that becomes ready
    without them that is evidence. `damaged` are parts that are not what their digests say where they lie.
    """

    outcome: RestoreOutcome
    reason: str = ""
    source: str = ""
    parts: tuple[str, ...] = ()
    bytes: int = 0
    seconds: float = 0.0
    aside: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()


class PublishOutcome(enum.Enum):
    """What became of a start's new artifacts."""

    PUBLISHED = "published"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True)
class PublishResult:
    """`parts` are the blob digests that are new in the manifest, `bytes` their packed bytes."""

    outcome: PublishOutcome
    reason: str = ""
    parts: tuple[str, ...] = ()
    bytes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Phase:
    """A stretch of a start. Seconds count from `started_at`; `source` says who measured it."""

    name: str
    start_seconds: float
    seconds: float
    bytes: Optional[int] = None
    source: str = ""


@dataclass(frozen=True)
class Weights:
    """What was loaded: bytes and the seconds it took."""

    bytes: Optional[int] = None
    seconds: Optional[float] = None


@dataclass(frozen=True)
class Start:
    """One start. `source` is one of run, exec, agent, log, pod; moments are RFC 3339 in UTC, durations seconds."""

    id: str
    source: str
    started_at: str
    workload: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: Mapping[str, Fact] = field(default_factory=dict)
    key_digest: Optional[str] = None
    restore: RestoreResult = field(default_factory=lambda: RestoreResult(RestoreOutcome.NONE))
    verdict: Verdict = field(default_factory=lambda: Verdict(Compile.UNKNOWN))
    phases: tuple[Phase, ...] = ()
    weights: Weights = field(default_factory=Weights)
    engine_init_seconds: Optional[float] = None
    ready_seconds: Optional[float] = None
    kubernetes: Optional[Mapping[str, Any]] = None
    publish: Optional[PublishResult] = None
    exit_status: Optional[int] = None
    schema: str = field(default=SCHEMA)
