"""A part and its blob: files of a tree ⇄ `.tar.zst` under its digest.

Packing goes to a file, never to memory, and takes digest and sizes on the way. Fetching is a pipe: store → SHA-256 → zstd →
unpack; what comes out lies in a directory of its own until the last byte was checked, and callers move it from there.
"""

from __future__ import annotations

import dataclasses
import hashlib
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from glowplug.cache import layout
from glowplug.cache.zstd import Compressing, Expanding
from glowplug.core.errors import ConflictError, IntegrityError, NotFoundError
from glowplug.tree import archive
from glowplug.tree.index import read_again
from glowplug.tree.model import DEFAULT_LIMITS, File, Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from glowplug.cache.format import Part
    from glowplug.core.clock import Deadline
    from glowplug.store.contract import Store

_PACKINGS: Final = 3
_PAUSE_SECONDS: Final = 0.5
_TAR_OVERHEAD: Final = 4096
_TABLE_CHUNK: Final = 1 << 16


@dataclass(frozen=True)
class NewPart:
    """Files of a tree that are to become a part. Names as in `format.Part`; `root` is where `files` lie now.

    Pass an entry together with its support part, also where the entry is known to be published: what the store has of it is
    compared with `index`, and only then a more complete support part takes the old one's place.
    """

    kind: str
    name: str
    root: Path
    files: tuple[File, ...]
    of: str = ""
    index: tuple[str, ...] = ()
    observed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Cleaning:
    """What must not leave the machine. `rewrite(path, data)` redacts by structure, `secrets` are searched for by value."""

    rewrite: Callable[[str, bytes], bytes] | None = None
    secrets: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Blob:
    """A packed part in a local file."""

    path: Path
    sha256: str
    size: int
    unpacked_bytes: int
    files: tuple[File, ...]


def pack(
    part: NewPart, folder: Path, deadline: Deadline, *, cleaning: Cleaning, limits: Limits = DEFAULT_LIMITS
) -> Blob:
    """Pack into a new file below `folder`; a tree that changes meanwhile is indexed and packed again, twice at most.

    Raises ConflictError (`tree-changing`), BadInputError (`secret-found`), IntegrityError (`archive-limit`), OSError.
    """
    files = part.files
    for attempt in range(1, _PACKINGS + 1):
        deadline.check("packing")
        try:
            return _pack_once(dataclasses.replace(part, files=files), folder, cleaning, limits)
        except ConflictError:
            if attempt == _PACKINGS:
                raise
            deadline.clock.sleep(min(_PAUSE_SECONDS, deadline.remaining()))
            files = read_again(part.root, files)
    raise AssertionError("unreachable")


def fetch(
    store: Store, domain: str, part: Part, into: Path, deadline: Deadline, limits: Limits = DEFAULT_LIMITS
) -> tuple[File, ...]:
    """Unpack a part's blob into `into`, a directory that this call makes, and return its files.

    Nothing is left at `into` after an exception. Raises IntegrityError where any byte is not what manifest and table say,
    NotFoundError (`blob-missing`), UnavailableError (`no-space`, `timeout` …), OSError.
    """
    check_claims(part, limits)
    checked = _Checked(stream(store, domain, part, deadline), part)
    expanded = Expanding(iter(checked), _most(part))
    files = archive.unpack(_Ending(expanded, checked), into, limits)
    return _as_claimed(part, files, into)


def read_table(
    store: Store, domain: str, part: Part, deadline: Deadline, limits: Limits = DEFAULT_LIMITS
) -> tuple[File, ...]:
    """Which files a part's blob claims to hold, from its beginning alone. Raises as `fetch`.

    Good for deciding what to offer; nothing is believed on the strength of it.
    """
    check_claims(part, limits)
    chunks = stream(store, domain, part, deadline, chunk_bytes=_TABLE_CHUNK)
    return archive.read_table(Expanding(chunks, _most(part)), limits)


def check_claims(part: Part, limits: Limits) -> None:
    """Refuse by what the manifest says alone, before a byte is fetched. Raises IntegrityError (`archive-limit`)."""
    if part.unpacked_bytes > limits.unpacked_bytes or part.files > limits.files:
        raise IntegrityError(f"part {part.name!r} is larger than the limits allow", code="archive-limit")
    archive.check_ratio(part.unpacked_bytes, part.size, limits)


def _most(part: Part) -> int:
    """The bytes that the tar of this part can have: its files, their headers and padding, its table."""
    return part.unpacked_bytes + (part.files + 4) * _TAR_OVERHEAD * 2


def stream(store: Store, domain: str, part: Part, deadline: Deadline, *, chunk_bytes: int = 1 << 20) -> Iterator[bytes]:
    """The packed bytes of a part, unchecked. Raises NotFoundError (`blob-missing`) and the store's errors."""
    try:
        for chunk in store.stream(layout.blob_path(domain, part.sha256), deadline, chunk_bytes=chunk_bytes):
            deadline.check("reading a part")
            yield bytes(chunk)
    except NotFoundError as error:
        raise NotFoundError(f"the store lacks the blob of {part.name!r}", code="blob-missing") from error


class _Checked:
    """The compressed stream, counted and digested as it passes."""

    def __init__(self, chunks: Iterator[bytes], part: Part) -> None:
        self._chunks = chunks
        self._part = part
        self._digest = hashlib.sha256()
        self._count = 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self._count += len(chunk)
            if self._count > self._part.size:
                raise IntegrityError(f"the blob of {self._part.name!r} is longer than its manifest says")
            self._digest.update(chunk)
            yield chunk

    def check(self) -> None:
        """All of it has passed: is it what the manifest names?"""
        if self._count != self._part.size or self._digest.hexdigest() != self._part.sha256:
            raise IntegrityError(f"the blob of {self._part.name!r} is not what its digest says")


class _Ending:
    """At the end of the tar, the ends of frame, stream and digest are checked too, before `unpack` returns."""

    def __init__(self, expanded: Expanding, checked: _Checked) -> None:
        self._expanded = expanded
        self._checked = checked

    def read(self, size: int, /) -> bytes:
        data = self._expanded.read(size)
        if not data:
            self._expanded.finish()
            self._checked.check()
        return data


def _as_claimed(part: Part, files: tuple[File, ...], into: Path) -> tuple[File, ...]:
    """The table against the manifest's own words; both are covered by digests, so a difference is a writer's fault."""
    paths = {item.path for item in files}
    if (
        len(files) == part.files
        and sum(item.size for item in files) == part.unpacked_bytes
        and paths.issuperset(part.index)
    ):
        return files
    archive.discard(into)
    raise IntegrityError(f"part {part.name!r} does not hold what its manifest says")


def _pack_once(part: NewPart, folder: Path, cleaning: Cleaning, limits: Limits) -> Blob:
    path = folder / f"{secrets.token_hex(8)}.tar.zst"
    try:
        with path.open("xb") as out:
            compressing = Compressing(out)
            packed = archive.pack(
                part.root, part.files, compressing, rewrite=cleaning.rewrite, secrets=cleaning.secrets, limits=limits
            )
            digest = compressing.finish()
        archive.check_ratio(packed.unpacked_bytes, compressing.size, limits)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return Blob(path, digest, compressing.size, packed.unpacked_bytes, packed.files)
