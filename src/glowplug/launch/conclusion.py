"""What a start came to: the tree before and after, the engine's words and the opened files, turned into the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, Optional

from glowplug.core.documents.start import Compile, Verdict
from glowplug.engines.adapter import Entry, Reach, Trace
from glowplug.observe import new
from glowplug.observe.verdict import Facts, decide, index_digests
from glowplug.tree.index import diff, scan

if TYPE_CHECKING:
    from glowplug.engines.adapter import LogReader
    from glowplug.launch.prepare import Prepared
    from glowplug.observe.opens import OpenWatch

ColdSeconds = Callable[[tuple[Entry, ...]], Optional[float]]
"""What compiling these entries took when they were made; None where that is not known."""


@dataclass(frozen=True)
class Conclusion:
    """`own`: the entries that this start made or used; `added_support`: support files that it made."""

    verdict: Verdict
    trace: Trace
    after: Optional[new.Tree] = None
    own: tuple[Entry, ...] = ()
    added_support: tuple[str, ...] = ()


def conclude(
    prepared: Prepared, reader: Optional[LogReader], opens: Optional[OpenWatch], cold_seconds: ColdSeconds
) -> Conclusion:
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
            cold_seconds=cold_seconds(own) if own else None,
            escaped=prepared.outside.appeared() if prepared.outside else (),
        )
    )
    return Conclusion(verdict, trace, after, own, added)
