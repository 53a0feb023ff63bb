"""New parts of a start into the store: blobs first, then the manifest that names them.

What is decided, and why (docs/format.md):
- An entry that is there is kept whole: two cold compiles of one configuration never give the same files, and readers may be
  using what is there. Entries are never merged file by file.
- Its support part may be replaced by a more complete one, twice at most, and only by a tree that holds the very entry that is
  published (same index files): some engines write the rest only on the first hit.
- An entry whose blob is gone from the store is as good as absent and published anew.
- Two rejections by different starts block the key: an engine that throws away what it loads would publish for ever.
- A blob that is present is written again when it is older than half of gc's grace, so that gc cannot take it from under us.

Every reason for not publishing is an outcome, not an exception: a start has succeeded already.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import glowplug
from glowplug.cache import bundle, commit, control, layout, uses
from glowplug.cache.bundle import Blob, Cleaning, NewPart
from glowplug.cache.format import (
    ENTRY,
    LAST_REVISION,
    SUPPORT,
    Manifest,
    NewerManifestError,
    Part,
    Rejection,
    identity,
)
from glowplug.core.clock import SYSTEM, iso
from glowplug.core.documents.fingerprint import conflicts
from glowplug.core.documents.start import PublishOutcome, PublishResult
from glowplug.core.errors import AccessDeniedError, GlowplugError, IntegrityError, NotFoundError
from glowplug.core.faults import reason_of
from glowplug.tree.model import DEFAULT_LIMITS, Limits
from glowplug.tree.workspace import workspace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from glowplug.cache.commit import Signs
    from glowplug.core.clock import Clock, Deadline
    from glowplug.core.documents.fingerprint import Key
    from glowplug.store.contract import Store

GC_GRACE_SECONDS: Final = 7 * 86_400.0
REJECTIONS_THAT_BLOCK: Final = 2
_REJECTIONS_KEPT: Final = 20
_REASON_BYTES: Final = 500


@dataclass(frozen=True)
class Caps:
    """What a key may hold at most; the oldest entries give way. `bytes` are packed."""

    entries: int = 8
    bytes: int = 16 * 10**9


_Mark: TypeAlias = "tuple[str, str, frozenset[tuple[str, str]], str]"


def _mark(part: Part) -> _Mark:
    """A row of a manifest, hashable: equal bytes may be there twice, under other guards."""
    return (part.kind, *identity(part), part.sha256)


@dataclass(frozen=True)
class _Intent:
    """What to do about the entry `name`: `parts` come in, and those marked in `over` give way to them.

    It holds as long as the manifest has exactly `seen` of this entry: the decision was made looking at these.
    """

    name: str
    parts: tuple[Part, ...]
    seen: frozenset[_Mark] = field(default_factory=frozenset)
    over: frozenset[_Mark] = field(default_factory=frozenset)


def publish(
    store: Store,
    key: Key,
    guards: Mapping[str, str],
    parts: Sequence[NewPart],
    *,
    deadline: Deadline,
    rejections: Sequence[Rejection] = (),
    clock: Clock = SYSTEM,
    created_by: str = f"glowplug {glowplug.__version__}",
    cleaning: Cleaning | None = None,
    limits: Limits = DEFAULT_LIMITS,
    caps: Caps | None = None,
    gc_grace: float = GC_GRACE_SECONDS,
    scratch: Path | None = None,
    sign: Signs | None = None,
    doubt: bool = False,
) -> PublishResult:
    """Publish what is new in `parts` and record `rejections`; never raises for a foreseeable fault.

    `scratch` is a directory for packed blobs (default: below the parts' own root). With `doubt` what is published already is read
    and checked first, and damage counts as absence: for those who have just seen damage, and for a person's repair. The result's
    `parts` are the digests that are new in the manifest. Reasons: `publish_off`, `min_version`, `key_blocked`, `newer_format`,
    `read_only_store` (skipped); `tree_changing`, `secret_found: …`, `archive_limit`, `store_unavailable`, `deadline`, `no_space`
    (failed) and the like.
    """
    began = clock.monotonic()
    job = _Job(
        store,
        key,
        guards,
        deadline,
        clock,
        created_by,
        cleaning or Cleaning(),
        limits,
        caps or Caps(),
        gc_grace,
        sign,
        doubt=doubt,
    )
    try:
        result = job.run(parts, rejections, scratch)
    except NewerManifestError:
        result = PublishResult(PublishOutcome.SKIPPED, "newer_format")
    except AccessDeniedError as error:
        result = PublishResult(PublishOutcome.SKIPPED, reason_of(error))
    except (GlowplugError, OSError) as error:
        result = PublishResult(PublishOutcome.FAILED, reason_of(error))
    return dataclasses.replace(result, seconds=clock.monotonic() - began)


@dataclass(frozen=True)
class _Job:
    store: Store
    key: Key
    guards: Mapping[str, str]
    deadline: Deadline
    clock: Clock
    created_by: str
    cleaning: Cleaning
    limits: Limits
    caps: Caps
    gc_grace: float
    sign: Signs | None
    doubt: bool

    @property
    def path(self) -> str:
        return layout.manifest_path(self.key)

    def run(self, parts: Sequence[NewPart], rejections: Sequence[Rejection], scratch: Path | None) -> PublishResult:
        if not parts and not rejections:
            return PublishResult(PublishOutcome.UNCHANGED)
        allowed = control.read(self.store, self.deadline)
        if not allowed.publish:
            return PublishResult(PublishOutcome.SKIPPED, "publish_off")
        if not allowed.admits(glowplug.__version__):
            return PublishResult(PublishOutcome.SKIPPED, "min_version")
        manifest = commit.read(self.store, self.path, self.deadline).manifest
        if self.sign is not None:
            manifest = self.sign.own(manifest)
        if manifest is not None and manifest.blocked is not None:
            return PublishResult(PublishOutcome.SKIPPED, "key_blocked")
        root = scratch or (parts[0].root if parts else None)
        with _folder(root) as folder:
            intents = [self.intent(entry, support, manifest, folder) for entry, support in pairs(parts)]
            return self.write([intent for intent in intents if intent is not None], rejections)

    def intent(
        self, entry: NewPart | None, support: NewPart | None, manifest: Manifest | None, folder: Path
    ) -> _Intent | None:
        """Compare with what is published; pack and upload what is to be published."""
        name = entry.name if entry else support.of if support else ""
        known = manifest.entry(name, self.guards) if manifest else None
        if manifest is None or known is None:
            return self.fresh(entry, support, folder) if entry else None
        old = manifest.support(known)
        seen = [part for part in (known, old) if part is not None]
        if not all(self.present(part) for part in seen):
            return self.fresh(entry, support, folder, seen) if entry else None
        if entry is None or support is None or not self.completes(known, old, entry, support):
            return None
        part = self.upload(support, folder, known.guards, old.revision + 1 if old else 0)
        if old is not None and part.sha256 == old.sha256:
            return None
        return _Intent(name, (part,), frozenset(map(_mark, seen)), frozenset([_mark(old)] if old is not None else []))

    def fresh(self, entry: NewPart, support: NewPart | None, folder: Path, seen: Sequence[Part] = ()) -> _Intent:
        made = [self.upload(part, folder, self.guards, 0) for part in (support, entry) if part is not None]
        marks = frozenset(map(_mark, seen))
        return _Intent(entry.name, tuple(made), marks, marks)

    def present(self, part: Part) -> bool:
        known = self.store.head(layout.blob_path(self.key.domain, part.sha256), self.deadline)
        if known is None or known.size != part.size:
            return False
        return not self.doubt or self.is_whole(part)

    def is_whole(self, part: Part) -> bool:
        digest = hashlib.sha256()
        try:
            for chunk in bundle.stream(self.store, self.key.domain, part, self.deadline):
                digest.update(chunk)
        except (IntegrityError, NotFoundError):
            return False
        return digest.hexdigest() == part.sha256

    def completes(self, known: Part, old: Part | None, entry: NewPart, support: NewPart) -> bool:
        """Whether this tree holds the published entry itself, and more support for it than is published."""
        if old is not None and (old.revision >= LAST_REVISION or old.files >= len(support.files)):
            return False
        try:
            published = bundle.read_table(self.store, self.key.domain, known, self.deadline, self.limits)
            supported = (
                () if old is None else bundle.read_table(self.store, self.key.domain, old, self.deadline, self.limits)
            )
        except (NotFoundError, GlowplugError):
            return False
        here = {item.path: item.sha256 for item in entry.files}
        same = known.index and all(here.get(item.path) == item.sha256 for item in published if item.path in known.index)
        return bool(same) and {item.path for item in support.files} > {item.path for item in supported}

    def upload(self, part: NewPart, folder: Path, guards: Mapping[str, str], revision: int) -> Part:
        """Pack and store the blob; the row for the manifest."""
        blob = bundle.pack(part, folder, self.deadline, cleaning=self.cleaning, limits=self.limits)
        path = layout.blob_path(self.key.domain, blob.sha256)
        known = self.store.head(path, self.deadline)
        if (
            self.doubt
            or known is None
            or known.size != blob.size
            or self.clock.now() - known.modified > self.gc_grace / 2
        ):
            self.store.put(path, blob.path, self.deadline)
        blob.path.unlink(missing_ok=True)
        return self.row(part, blob, guards, revision)

    def row(self, part: NewPart, blob: Blob, guards: Mapping[str, str], revision: int) -> Part:
        return Part(
            kind=part.kind,
            name=part.name,
            of=part.of,
            sha256=blob.sha256,
            size=blob.size,
            unpacked_bytes=blob.unpacked_bytes,
            files=len(blob.files),
            revision=revision,
            index=tuple(sorted(part.index)),
            guards=dict(guards),
            observed=dict(part.observed),
            created=iso(self.clock.now()),
            created_by=self.created_by,
        )

    def write(self, intents: Sequence[_Intent], rejections: Sequence[Rejection]) -> PublishResult:
        if not intents and not rejections:
            uses.touch(self.store, self.key, self.deadline, self.clock)
            return PublishResult(PublishOutcome.UNCHANGED)
        looked: list[set[_Mark]] = []

        def decide(current: Manifest | None) -> Manifest | None:
            looked.append(set(map(_mark, current.parts)) if current else set())
            return merge(current, self.key, intents, rejections, self.caps)

        written = commit.change(self.store, self.path, decide, self.deadline, sign=self.sign)
        uses.touch(self.store, self.key, self.deadline, self.clock)
        if written is not None and written.blocked is not None:
            return PublishResult(PublishOutcome.SKIPPED, "key_blocked")
        # What came in through a write whose answer was lost, and was built upon by others since, is in the last look.
        there = set(map(_mark, written.parts)) if written else looked[-1]
        new = [part for intent in intents for part in intent.parts if _mark(part) in there - looked[0]]
        if not new:
            return PublishResult(PublishOutcome.UNCHANGED, "rejection_recorded" if written else "")
        return PublishResult(
            PublishOutcome.PUBLISHED, "", tuple(part.sha256 for part in new), sum(part.size for part in new)
        )


def pairs(parts: Sequence[NewPart]) -> list[tuple[NewPart | None, NewPart | None]]:
    """Each entry with its support part; a support part without its entry stands alone."""
    entries = {part.name: part for part in parts if part.kind == ENTRY}
    supports = {part.of: part for part in parts if part.kind == SUPPORT}
    names = [*entries, *(name for name in supports if name not in entries)]
    return [(entries.get(name), supports.get(name)) for name in names]


def merge(
    current: Manifest | None,
    key: Key,
    intents: Sequence[_Intent],
    rejections: Sequence[Rejection],
    caps: Caps,
) -> Manifest | None:
    """The manifest with what is new in it; None where nothing is to be written. Pure."""
    if current is not None and current.blocked is not None:
        return None
    manifest = current or Manifest(key)
    noted = note(manifest, rejections)
    if noted.blocked is not None:
        return noted
    parts = noted.parts
    fresh: set[_Mark] = set()
    for intent in intents:
        parts, taken = _with(parts, intent)
        fresh.update(taken)
    result = dataclasses.replace(noted, parts=_capped(parts, caps, fresh))
    return None if result == manifest or (current is None and not result.parts) else result


def note(manifest: Manifest, rejections: Sequence[Rejection]) -> Manifest:
    """With rejections of entries that the manifest has, one for each start; blocked from the second start on. Pure."""
    known = {item.start_id for item in manifest.rejections}
    names = {part.name for part in manifest.entries()}
    new: list[Rejection] = []
    for item in rejections:
        if item.start_id not in known and item.entry in names:
            known.add(item.start_id)
            new.append(dataclasses.replace(item, reason=item.reason[:_REASON_BYTES]))
    if not new:
        return manifest
    noted = (*manifest.rejections, *new)[-_REJECTIONS_KEPT:]
    blocked = manifest.blocked
    if len({item.start_id for item in noted}) >= REJECTIONS_THAT_BLOCK:
        blocked = f"rejected by {len(noted)} starts: {noted[-1].reason}"
    return dataclasses.replace(manifest, rejections=noted, blocked=blocked)


def _with(parts: tuple[Part, ...], intent: _Intent) -> tuple[tuple[Part, ...], set[_Mark]]:
    """The list with an intent carried out, unless others were faster; and the marks of what came in."""
    seen = next((part for part in parts if part.kind == ENTRY and _mark(part) in intent.seen), None)
    if seen is None:
        guards = intent.parts[0].guards
        same = [part for part in parts if identity(part)[0] == intent.name and not conflicts(part.guards, guards)]
        free = not same and _has_entry(intent)
    else:
        free = {_mark(part) for part in parts if identity(part) == identity(seen)} == intent.seen
    if not free:
        return parts, set()
    kept = tuple(part for part in parts if _mark(part) not in intent.over)
    return (*kept, *intent.parts), set(map(_mark, intent.parts))


def _has_entry(intent: _Intent) -> bool:
    """A support part alone is of no use where its entry went away meanwhile."""
    return any(part.kind == ENTRY for part in intent.parts)


def _capped(parts: tuple[Part, ...], caps: Caps, fresh: set[_Mark]) -> tuple[Part, ...]:
    """Without the oldest entries where there are too many; what came in just now stays."""
    protected = {identity(part) for part in parts if _mark(part) in fresh}
    for oldest in sorted((part for part in parts if part.kind == ENTRY), key=lambda part: part.created):
        count = sum(part.kind == ENTRY for part in parts)
        if count <= caps.entries and sum(part.size for part in parts) <= caps.bytes:
            break
        if identity(oldest) not in protected:
            parts = tuple(part for part in parts if identity(part) != identity(oldest))
    return parts


@contextlib.contextmanager
def _folder(root: Path | None) -> Iterator[Path]:
    """A place for packed blobs: below the tree's root, whose file system has room for it, else the temporary directory."""
    with contextlib.ExitStack() as stack:
        folder: Path | None = None
        if root is not None:
            with contextlib.suppress(OSError):
                folder = stack.enter_context(workspace(root))
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="glowplug-pack-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        yield folder


def block(store: Store, path: str, reason: str, deadline: Deadline, *, sign: Signs | None = None) -> Manifest | None:
    """A person's decision that nothing more is offered or published for a key. None where it was blocked already.

    Raises NotFoundError (`key-not-found`) and the store's errors.
    """

    def decide(current: Manifest | None) -> Manifest | None:
        present = _there(current, path)
        return None if present.blocked is not None else dataclasses.replace(present, blocked=reason)

    return commit.change(store, path, decide, deadline, sign=sign)


def unblock(store: Store, path: str, deadline: Deadline, *, sign: Signs | None = None) -> Manifest | None:
    """A person's decision that a key is good again: rejections are forgotten too. None where it was not blocked."""

    def decide(current: Manifest | None) -> Manifest | None:
        present = _there(current, path)
        return None if present.blocked is None else dataclasses.replace(present, blocked=None, rejections=())

    return commit.change(store, path, decide, deadline, sign=sign)


def _there(manifest: Manifest | None, path: str) -> Manifest:
    if manifest is None:
        raise NotFoundError(f"no key at {path}", code="key-not-found")
    return manifest
