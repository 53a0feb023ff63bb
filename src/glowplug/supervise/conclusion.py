"""What a start came to: the tree before and after, the engine's words and the opened files, turned into the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from glowplug.core.clock import Deadline
from glowplug.core.documents.start import Compile, RestoreOutcome, Verdict
from glowplug.core.errors import GlowplugError
from glowplug.engines.adapter import Entry, Reach, Trace
from glowplug.observe import new
from glowplug.observe.verdict import Facts, decide, index_digests
from glowplug.supervise import ledger
from glowplug.tree.index import diff, scan

if TYPE_CHECKING:
    from glowplug.engines.adapter import LogReader
    from glowplug.observe.opens import OpenWatch
    from glowplug.supervise.prepare import Prepared

_LOOK_SECONDS = 10.0


@dataclass(frozen=True)
class Conclusion:
    """`own`: the entries that this start made or used; `added_support`: support files that it made."""

    verdict: Verdict
    trace: Trace
    after: new.Tree | None = None
    own: tuple[Entry, ...] = ()
    added_support: tuple[str, ...] = ()


def conclude(prepared: Prepared, reader: LogReader | None, opens: OpenWatch | None) -> Conclusion:
    """Look at the tree again and decide. Raises OSError where the cache root has gone."""
    trace = reader.trace() if reader else Trace()
    opened = None
    if opens is not None:
        seen = opens.stop()
        opened = seen if opens.available or seen else None
    adapter, launch, root = prepared.adapter, prepared.launch, prepared.root
    if adapter is None or launch is None or root is None:
        return Conclusion(Verdict(Compile.UNKNOWN, trace.compile_seconds, prepared.unknown, trace.lines), trace)
    before = prepared.before
    index = scan(root, select=lambda path: adapter.reach(path) is not Reach.NEVER, previous=before.index)
    after = new.look(index, adapter, launch)
    difference = diff(before.index, index)
    own = new.own_entries(before, after, trace, opened)
    added = new.support_added(before, difference, after)
    verdict = decide(
        Facts(
            before=before.entries,
            after=after.entries,
            digests_before=index_digests(before.entries, before.index),
            digests_after=index_digests(after.entries, index),
            opened=opened,
            trace=trace,
            disabled=launch.disabled,
            support_before=len(before.support),
            support_added=len(added),
            cold_seconds=_cold_seconds(prepared, own),
            escaped=prepared.outside.appeared() if prepared.outside else (),
        )
    )
    return Conclusion(verdict, trace, after, own, added)


def _cold_seconds(prepared: Prepared, own: tuple[Entry, ...]) -> float | None:
    """What compiling these entries took when they were made: as this machine remembers, else as their publisher said."""
    if prepared.root is None or not own:
        return None
    known = ledger.load(prepared.root).cold_seconds
    here = [known[entry.name] for entry in own if entry.name in known]
    if here:
        return max(here)
    if prepared.restore.outcome not in (RestoreOutcome.RESTORED, RestoreOutcome.SKIPPED):
        return None
    return _published_seconds(prepared, own)


def _published_seconds(prepared: Prepared, own: tuple[Entry, ...]) -> float | None:
    fingerprint = prepared.fingerprint
    if prepared.store is None or fingerprint is None or fingerprint.key is None:
        return None
    from glowplug.cache.lookup import Found, look_up

    try:
        found = look_up(prepared.store, fingerprint.key, Deadline.after(_LOOK_SECONDS), guards=fingerprint.guards)
    except GlowplugError:
        return None
    if not isinstance(found, Found):
        return None
    names = {entry.name for entry in own}
    said = [offer.entry.observed.get("compile_ms") for offer in found.offers if offer.entry.name in names]
    return max((milliseconds / 1000 for milliseconds in said if milliseconds), default=None)
