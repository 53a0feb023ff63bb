"""What a pod hands to its node's agent after a start: the document, and sealed parts that the node does not have.

The agent publishes what it finds in the outbox, or does not. So `published` with the reason `outbox` means: whole, sealed, handed
over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, Final, Optional

from glowplug.core import redact, units
from glowplug.core.documents.fingerprint import conflicts
from glowplug.core.documents.node import ENTRY, SUPPORT, OutboxPart
from glowplug.core.documents.start import Compile, PublishOutcome, PublishResult
from glowplug.core.errors import GlowplugError
from glowplug.core.faults import reason_of
from glowplug.launch import attempts
from glowplug.launch.telling import tell_verdict
from glowplug.launch.words import explained
from glowplug.nodestore.outbox import Outbox
from glowplug.observe.new import support_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from glowplug.core.clock import Deadline
    from glowplug.core.documents.fingerprint import Key
    from glowplug.core.documents.start import Start
    from glowplug.engines.adapter import Entry
    from glowplug.launch.conclusion import Conclusion
    from glowplug.launch.options import RunOptions
    from glowplug.launch.prepare import Prepared
    from glowplug.nodestore.read import Held, HeldPart, NodeStore
    from glowplug.observe.new import Tree
    from glowplug.tree.model import File

OUTBOX: Final = "outbox"
"""The reason of a publish that was handed to the agent."""
NOT_WANTED: Final = "outbox_off"
"""The agent publishes nothing (`--read-only`, `--observe`), so packing would be for nobody."""
_DOUBTFUL: Final = frozenset(("integrity", "blob_missing"))
_UNKEPT: Final[Mapping[Compile, str]] = {
    Compile.DISABLED: "compile_disabled",
    Compile.UNKNOWN: "verdict_unknown",
    Compile.REJECTED: "rejected",
}
"""A rejection is in the start document; the agent counts it."""


@dataclass(frozen=True)
class _Sealable:
    """A part that the node does not have, and its files in this pod's tree."""

    kind: str
    name: str
    files: tuple[File, ...]
    of: str = ""
    index: tuple[str, ...] = ()


class NodeOwner:
    """A start beside a node's agent. An `observer.Owner`."""

    source = "exec"

    def __init__(self, prepared: Prepared, options: RunOptions, store: NodeStore, say: Callable[[str], None]) -> None:
        self._prepared = prepared
        self._options = options
        self._store = store
        self._say = say
        self._outbox = Outbox(options.outbox) if options.outbox is not None else None
        self._complained = False

    def note(self, start: Start) -> None:
        """Each version goes into the outbox, the first one too: an engine that dies takes this process with it."""
        if self._outbox is None:
            return
        try:
            self._outbox.put_start(start)
        except (GlowplugError, OSError) as error:
            if not self._complained:
                self._complained = True
                self._say(f"the outbox cannot be written: {error}")

    def cold_seconds(self, own: tuple[Entry, ...]) -> Optional[float]:
        """Not known: nobody reads the engine's log lines, so there is nothing to compare with either."""
        del own
        return None

    def failed(self) -> None:
        """The document says it, and the agent reads that."""

    def succeeded(self, conclusion: Conclusion) -> None:
        """For the next start in this cache root; the agent reads it in the document."""
        if self._prepared.root is not None and not self._prepared.private:
            attempts.succeeded(self._prepared.root)

    def publish(
        self, conclusion: Conclusion, start: Start, ready_seconds: float, deadline: Deadline
    ) -> Optional[PublishResult]:
        """Seal what the node does not have, or say why not."""
        refused = self._why_not(conclusion)
        if refused is not None:
            return refused
        fingerprint, outbox = self._prepared.fingerprint, self._outbox
        assert fingerprint is not None  # noqa: S101 - _why_not has seen to these
        assert fingerprint.key is not None  # noqa: S101
        assert outbox is not None  # noqa: S101
        began = deadline.clock.monotonic()
        try:
            held = self._held(fingerprint.key)
            if held is not None and held.blocked:
                return PublishResult(PublishOutcome.SKIPPED, "key_blocked")
            # What could not be had from the node whole is handed over as new; the agent knows what the store has.
            doubt = self._prepared.restore.reason in _DOUBTFUL
            parts = _new_parts(conclusion, None if doubt else held, fingerprint.guards)
            sealed = sum(self._seal(outbox, part, fingerprint.key, start.id, ready_seconds, deadline) for part in parts)
        except (GlowplugError, OSError) as error:
            reason = reason_of(error)
            return PublishResult(PublishOutcome.FAILED, reason, seconds=deadline.clock.monotonic() - began)
        if not parts:
            incomplete = [entry.incomplete for entry in conclusion.own if entry.incomplete]
            if incomplete:
                return PublishResult(PublishOutcome.SKIPPED, f"incomplete: {incomplete[0]}")
            return PublishResult(PublishOutcome.UNCHANGED)
        seconds = deadline.clock.monotonic() - began
        return PublishResult(PublishOutcome.PUBLISHED, OUTBOX, bytes=sealed, seconds=seconds)

    def tell(self, conclusion: Conclusion, ready_seconds: float) -> None:
        """One line."""
        tell_verdict(conclusion.verdict, ready_seconds, self._say)

    def tell_publish(self, result: PublishResult) -> None:
        """A line for what was handed over, and for what could not be."""
        if result.outcome is PublishOutcome.PUBLISHED:
            self._say(f"handed {units.format_size(result.bytes)} to the node's agent")
        elif result.outcome is PublishOutcome.FAILED:
            self._say(f"nothing handed to the node's agent: {explained(result.reason)}")

    def _why_not(self, conclusion: Conclusion) -> Optional[PublishResult]:
        prepared = self._prepared
        if not self._options.publish:
            return PublishResult(PublishOutcome.UNCHANGED, "no_publish")
        reason = "cache_root_unwritable" if prepared.private else prepared.unknown
        if not reason and self._outbox is None:
            reason = "no_outbox"
        if not reason and not self._wanted():
            reason = NOT_WANTED
        if not reason and (prepared.fingerprint is None or prepared.fingerprint.key is None):
            reason = "unknown:" + ",".join(prepared.fingerprint.unknown if prepared.fingerprint else ())
        reason = reason or _UNKEPT.get(conclusion.verdict.compile, "")
        return PublishResult(PublishOutcome.SKIPPED, reason) if reason else None

    def _wanted(self) -> bool:
        """Whether the agent does anything with an archive. Without a word of it there may be one again before this pod ends."""
        node = self._store.node()
        return node is None or node.outbox

    def _held(self, key: Key) -> Optional[Held]:
        try:
            return self._store.held(key.digest())
        except GlowplugError:
            return None  # what the node cannot show is offered to it again

    def _seal(
        self, outbox: Outbox, part: _Sealable, key: Key, start_id: str, ready_seconds: float, deadline: Deadline
    ) -> int:
        prepared = self._prepared
        assert prepared.adapter is not None  # noqa: S101 - there are entries
        assert prepared.root is not None  # noqa: S101
        assert prepared.fingerprint is not None  # noqa: S101
        said = OutboxPart(
            key,
            part.kind,
            part.name,
            part.of,
            part.index,
            dict(prepared.fingerprint.guards),
            {"ready_ms": round(ready_seconds * 1000)},
        )
        path = outbox.put_part(
            start_id,
            said,
            prepared.root,
            part.files,
            deadline=deadline,
            rewrite=prepared.adapter.redact,
            secrets=redact.secret_values(prepared.invocation.environ, prepared.invocation.argv),
        )
        return path.stat().st_size


def _new_parts(conclusion: Conclusion, held: Optional[Held], guards: Mapping[str, str]) -> list[_Sealable]:
    """What of a start's own, whole entries the node does not have: support before the entry that needs it."""
    tree = conclusion.after
    found: list[_Sealable] = []
    for entry in conclusion.own if tree is not None else ():
        if entry.incomplete or tree is None:
            continue
        known = _known(held, entry.name, guards)
        support = _files(tree, support_of(entry, tree))
        complete = known is None or (held is not None and _completes(held, known, entry, support, tree))
        if support and complete:
            found.append(_Sealable(SUPPORT, f"{entry.name}/support", support, of=entry.name))
        if known is None:
            index = tuple(sorted(entry.index_files))
            found.append(_Sealable(ENTRY, entry.name, _files(tree, entry.files), index=index))
    return found


def _files(tree: Tree, paths: Sequence[str]) -> tuple[File, ...]:
    return tuple(tree.index.files[path] for path in sorted(paths))


def _known(held: Optional[Held], name: str, guards: Mapping[str, str]) -> Optional[HeldPart]:
    entries = held.entries() if held is not None else ()
    return next((part for part in entries if part.name == name and not conflicts(part.guards, guards)), None)


def _completes(held: Held, known: HeldPart, entry: Entry, support: tuple[File, ...], tree: Tree) -> bool:
    """Whether this tree holds the node's entry itself, and more support for it than the node has."""
    old = next((offer.support for offer in held.offers(known.guards) if offer.entry.sha256 == known.sha256), None)
    try:
        there = {item.path: item.sha256 for item in held.table(known)}
        supported = {item.path for item in held.table(old)} if old is not None else set()
    except GlowplugError:
        return False
    same = all(tree.index.files[path].sha256 == there.get(path) for path in entry.index_files)
    return same and {item.path for item in support} > supported
