"""The verdict of a start: what really happened to compilation.

A cache that is present is not a cache that was used, and a tree that nothing touched is no proof of a hit (docs/concepts.md
tells why). So a verdict rests on three independent things: the engine's *index entries* (path and digest before and after),
*positive proof of use* (the engine's own line, or its opening of an index file), and the *compile seconds* that the engine
reports. Where they do not suffice the answer is `unknown`; it is never a guess.

A pure function of facts. The order of the rules is the meaning: the first one that applies decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Optional

from glowplug.core.documents.start import Compile, Verdict
from glowplug.engines.adapter import Entry, Trace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from glowplug.tree.model import Index

SLOW_SHARE: Final = 0.6
"""A "hit" that compiled for this share of the cold start's seconds or more was none: something that it needs was missing.

Measured on the four compile paths of vLLM 0.32: true hits take 0.03 to 0.5 of the cold seconds (0.5: the first hit of a mega
AOT entry, which completes itself), a hit without its Inductor directory 0.8 and more.
"""


REMADE_SHARE: Final = 0.5
"""When this share of the support files had to be made, the support was not there.

Measured: an entry that completes itself on its first hit makes up to a third of them (mega AOT: 27 of 80), one whose Inductor
directory was lost nearly all.
"""


@dataclass(frozen=True)
class Facts:
    """What is known after a start.

    `before`/`after`: the entries in the tree, with `digests_*` of their index files. `opened`: index files of `before` that
    were opened; None where nobody could watch. `support_before`/`support_added`: numbers of support files. `cold_seconds`:
    compile seconds of the start that made the entry, None where unknown. `escaped`: compile output outside the cache root.
    """

    before: tuple[Entry, ...]
    after: tuple[Entry, ...]
    digests_before: Mapping[str, str]
    digests_after: Mapping[str, str]
    opened: Optional[frozenset[str]] = None
    trace: Trace = field(default_factory=Trace)
    disabled: str = ""
    support_before: int = 0
    support_added: int = 0
    cold_seconds: Optional[float] = None
    escaped: tuple[str, ...] = ()


def index_digests(entries: tuple[Entry, ...], index: Index) -> dict[str, str]:
    """Path → digest of the index files of these entries that are in the tree."""
    return {path: index.files[path].sha256 for entry in entries for path in entry.index_files if path in index.files}


def decide(facts: Facts) -> Verdict:
    """The verdict, with its reason and the evidence that it rests on."""
    trace = facts.trace
    seconds = trace.compile_seconds
    evidence = _evidence(facts)
    disabled = facts.disabled or trace.disabled
    if disabled:
        return Verdict(Compile.DISABLED, seconds, disabled, evidence)
    if trace.rejections:
        return Verdict(Compile.REJECTED, seconds, trace.rejections[0], evidence)
    added = _added(facts)
    changed = _changed(facts)
    used = _used(facts)
    compiled = bool(added or trace.compiled)
    if changed and not used and not trace.loaded:
        return Verdict(Compile.REJECTED, seconds, f"the engine replaced {changed[0]} by other bytes", evidence)
    if compiled or changed:
        if used:
            fresh = added or changed or trace.compiled
            return Verdict(Compile.PARTIAL, seconds, f"compiled anew: {fresh[0]}", evidence)
        return Verdict(Compile.MISS, seconds, _why_missed(facts), evidence)
    if not used:
        return Verdict(Compile.UNKNOWN, seconds, _why_unknown(facts), evidence)
    return _hit_or_partial(facts, evidence)


def _hit_or_partial(facts: Facts, evidence: tuple[str, ...]) -> Verdict:
    seconds = facts.trace.compile_seconds
    missing = [entry for entry in facts.before if entry.incomplete]
    if len(missing) == len(facts.before) and missing:
        return Verdict(Compile.PARTIAL, seconds, f"incomplete: {missing[0].incomplete}", evidence)
    total = facts.support_before + facts.support_added
    if facts.support_added and facts.support_added >= REMADE_SHARE * total:
        reason = f"the entry was there without its support: {facts.support_added} of {total} files were made again"
        return Verdict(Compile.PARTIAL, seconds, reason, evidence)
    if seconds is not None and facts.cold_seconds and seconds >= SLOW_SHARE * facts.cold_seconds:
        reason = f"compiled for {seconds:.1f} s although the entry was loaded (cold: {facts.cold_seconds:.1f} s)"
        return Verdict(Compile.PARTIAL, seconds, reason, evidence)
    if facts.escaped:
        return Verdict(Compile.PARTIAL, seconds, f"compile output outside the cache root: {facts.escaped[0]}", evidence)
    return Verdict(Compile.HIT, seconds, "", evidence)


def _added(facts: Facts) -> tuple[str, ...]:
    known = {entry.name for entry in facts.before if entry.index_files}
    return tuple(entry.name for entry in facts.after if entry.name not in known and entry.index_files)


def _changed(facts: Facts) -> tuple[str, ...]:
    return tuple(
        path
        for path, digest in facts.digests_before.items()
        if path in facts.digests_after and facts.digests_after[path] != digest
    )


def _used(facts: Facts) -> bool:
    """Positive proof that an entry which was there before the start was read."""
    if not facts.before:
        return False
    return bool(facts.trace.loaded or facts.opened)


def _why_missed(facts: Facts) -> str:
    if not facts.before:
        return "no entry was in the cache"
    return "the engine looked for another entry than those in the cache"


def _why_unknown(facts: Facts) -> str:
    if not facts.after:
        return "the engine left no entry in the cache root"
    if facts.opened is None:
        return "nothing changed, and nobody could see whether an entry was read"
    return "nothing changed, and no proof that an entry was read"


def _evidence(facts: Facts) -> tuple[str, ...]:
    found = list(facts.trace.lines[:6])
    found += [f"opened {path}" for path in sorted(facts.opened or ())[:4]]
    found += [f"new entry {name}" for name in _added(facts)[:4]]
    found += [f"changed {path}" for path in _changed(facts)[:4]]
    found += [f"outside the cache root: {path}" for path in facts.escaped[:4]]
    return tuple(found)
