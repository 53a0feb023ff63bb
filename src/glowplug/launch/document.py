"""The start document as it is when the engine is about to be started: what runs, under which facts, with what restored.

Everything quoted of the command and the environment passes through redaction.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from glowplug.core import redact
from glowplug.core.clock import iso
from glowplug.core.documents import codec
from glowplug.core.documents.start import Compile, PublishOutcome, PublishResult, Start, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from glowplug.launch.options import RunOptions
    from glowplug.launch.prepare import Prepared
    from glowplug.launch.record import Record


def begun(prepared: Prepared, options: RunOptions, command: Sequence[str], *, wall: float, source: str) -> Start:
    """The document of a start whose engine is about to be started; `wall`: seconds since the epoch when ours began."""
    fingerprint = prepared.fingerprint
    workload: dict[str, Any] = {"engine": prepared.engine, "command": redact.arguments(command)}
    launch = prepared.launch
    if launch is not None:
        workload.update(
            {
                "model": redact.value("model", launch.model),
                "layout": codec.to_json(launch.layout),
                "args": {name: redact.value(name, text) for name, text in launch.other_args.items()},
                "env": {name: redact.value(name, text) for name, text in launch.other_env.items()},
                "placed": dict(prepared.placement.variables),
                "kept": {name: redact.value(name, text) for name, text in prepared.placement.kept.items()},
            }
        )
    if prepared.private:
        workload["cache_root"] = {"private": True, "reason": prepared.private}
    workload["domain"] = options.domain
    return Start(
        id=os.urandom(8).hex(),
        source=source,
        started_at=iso(wall),
        workload=workload,
        fingerprint=fingerprint.fields if fingerprint else {},
        key_digest=fingerprint.key_digest if fingerprint else None,
        restore=prepared.restore,
    )


def secrets_of(prepared: Prepared, command: Sequence[str], environ: Mapping[str, str]) -> dict[str, bytes]:
    """Name → value of what must not occur in the document: of the command as given, and as seen through."""
    inner = prepared.invocation
    return {**redact.secret_values(environ, command), **redact.secret_values(inner.environ, inner.argv)}


def note_unfinished(record: Record, why: str, publish: str, outcome: PublishOutcome) -> None:
    """Fill in what nobody has found out: no field is left to mean anything."""
    start = record.start
    if start.verdict.compile is Compile.UNKNOWN and not start.verdict.reason:
        record.add(verdict=Verdict(Compile.UNKNOWN, reason=why))
    if start.publish is None:
        record.add(publish=PublishResult(outcome, publish))
