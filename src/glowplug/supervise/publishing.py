"""From a conclusion to new parts in the store: what is handed to `cache.publish`, and when nothing is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.cache import parts as parts_of
from glowplug.cache import publish as publishing
from glowplug.cache.bundle import Cleaning
from glowplug.cache.format import Rejection
from glowplug.core import redact
from glowplug.core.documents.start import Compile, PublishOutcome, PublishResult, RestoreOutcome

if TYPE_CHECKING:
    from glowplug.cache.bundle import NewPart
    from glowplug.cache.sign import Signer
    from glowplug.core.clock import Deadline
    from glowplug.core.documents.start import Start
    from glowplug.launch.conclusion import Conclusion
    from glowplug.launch.options import RunOptions
    from glowplug.supervise.prepare import Prepared

_NOTHING = {
    Compile.DISABLED: "compile_disabled",
    Compile.UNKNOWN: "verdict_unknown",
}


def publish(
    prepared: Prepared,
    options: RunOptions,
    conclusion: Conclusion,
    start: Start,
    ready_seconds: float,
    deadline: Deadline,
) -> PublishResult:
    """Publish what this start made. Raises OSError where a signing key cannot be read; everything else is a reason."""
    refused = _why_not(prepared, options, conclusion)
    if refused is not None:
        return refused
    fingerprint = prepared.fingerprint
    assert prepared.store is not None  # noqa: S101 - _why_not has seen to these
    assert fingerprint is not None  # noqa: S101
    assert fingerprint.key is not None  # noqa: S101
    if conclusion.verdict.compile is Compile.REJECTED:
        return publishing.publish(
            prepared.store,
            fingerprint.key,
            fingerprint.guards,
            (),
            rejections=_rejections(prepared, conclusion, start.id),
            deadline=deadline,
            sign=_signer(options),
        )
    parts = _parts(prepared, conclusion, ready_seconds)
    if not parts:
        incomplete = [entry.incomplete for entry in conclusion.own if entry.incomplete]
        if incomplete:
            return PublishResult(PublishOutcome.SKIPPED, f"incomplete: {incomplete[0]}")
        return PublishResult(PublishOutcome.UNCHANGED)
    assert prepared.adapter is not None  # noqa: S101 - there are entries
    return publishing.publish(
        prepared.store,
        fingerprint.key,
        fingerprint.guards,
        parts,
        deadline=deadline,
        created_by=f"{start.source} {start.id}",
        cleaning=Cleaning(
            prepared.adapter.redact, redact.secret_values(prepared.invocation.environ, prepared.invocation.argv)
        ),
        scratch=prepared.root,
        sign=_signer(options),
        doubt=prepared.restore.reason == "integrity",
    )


def _why_not(prepared: Prepared, options: RunOptions, conclusion: Conclusion) -> PublishResult | None:
    def skipped(reason: str) -> PublishResult:
        return PublishResult(PublishOutcome.SKIPPED, reason)

    if not options.publish:
        return PublishResult(PublishOutcome.UNCHANGED, "no_publish")
    if prepared.private:
        return skipped("cache_root_unwritable")
    if prepared.unknown:
        return skipped(prepared.unknown)
    if prepared.store is None:
        return skipped("no_store")
    if prepared.fingerprint is None or prepared.fingerprint.key is None:
        names = prepared.fingerprint.unknown if prepared.fingerprint else ()
        return skipped("unknown:" + ",".join(names))
    reason = _NOTHING.get(conclusion.verdict.compile)
    return skipped(reason) if reason else None


def _rejections(prepared: Prepared, conclusion: Conclusion, start_id: str) -> tuple[Rejection, ...]:
    """Only what came from the store counts against it: an entry that this machine made and rejects harms nobody else."""
    if prepared.restore.outcome is not RestoreOutcome.RESTORED:
        return ()
    names = [entry.name for entry in conclusion.own] or [entry.name for entry in prepared.before.entries]
    return tuple(Rejection(start_id, name, conclusion.verdict.reason) for name in names[:1])


def _parts(prepared: Prepared, conclusion: Conclusion, ready_seconds: float) -> list[NewPart]:
    after, root = conclusion.after, prepared.root
    if after is None or root is None:
        return []
    seconds = conclusion.verdict.compile_seconds
    observed = {"ready_ms": round(ready_seconds * 1000)}
    if conclusion.verdict.compile is Compile.MISS and seconds is not None:
        observed["compile_ms"] = round(seconds * 1000)
    return parts_of.of_entries(conclusion.own, after, root, observed)


def _signer(options: RunOptions) -> Signer | None:
    if options.sign_key is None:
        return None
    from glowplug.cache import sign

    return sign.signer_in(options.sign_key)
