"""The outboxes of a node's pods as their agent reads them: as the work of an enemy.

Whoever can write an outbox can plant links, pipes and devices in it, names by the million, files that claim terabytes or
change while they are read, directories without a bottom. So a listing stops at a number, a name is opened only if it is one that
our own writer makes, what is opened is a regular file with one name, documents are bounded, and an archive is a stream that
ends where its claim ended when it was opened. Bytes are believed only by `tree.archive.unpack`, which digests what it writes.

What a pod says of itself stays a claim: the name of its directory is kubelet's word, all else has to be compared with the API's.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.core.documents import codec
from glowplug.core.documents import start as starts
from glowplug.core.documents.node import ENTRY, PART_SCHEMA, SUPPORT, OutboxPart
from glowplug.core.documents.start import Start
from glowplug.core.errors import BadInputError, GlowplugError, IntegrityError
from glowplug.nodestore import documents, layout
from glowplug.tree import hostile, paths
from glowplug.tree.model import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from glowplug.core.clock import Deadline

_OPEN_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_INDEX_FILES: Final = 256
_LONGEST: Final = 1024
_GUARDS: Final = 64
_LARGEST: Final = 2**63 - 1

LIMITS: Final = Limits(files=50_000, table_bytes=16 << 20)
"""For unpacking what pods left: one table must not take the agent's memory."""


@dataclass(frozen=True)
class Caps:
    """What is looked at of one outbox; the rest is as if it were not there. `names` bounds a listing, junk included."""

    archive_bytes: int = 8 * 2**30
    document_bytes: int = 1 << 20
    names: int = 1000
    starts: int = 64
    archives: int = 32
    pods: int = 1000


@dataclass(frozen=True)
class Refused:
    """A name that our writer makes, with something else under it; `reason` is for logs and metrics."""

    name: str
    reason: str


class Sealed:
    """One archive that a pod left: open, with what the pod says of it. A reader for `archive.unpack`; close it."""

    def __init__(
        self, name: str, start_id: str, part: OutboxPart, descriptor: int, size: int, deadline: Deadline
    ) -> None:
        self.name = name
        self.start_id = start_id
        self.part = part
        self.size = size
        self._descriptor = descriptor
        self._left = size
        self._deadline = deadline

    def read(self, size: int, /) -> bytes:
        """The next bytes, never beyond the size that the file had when it was opened. Raises UnavailableError (`timeout`)."""
        self._deadline.check("reading an outbox")
        try:
            data = os.read(self._descriptor, min(size, self._left))
        except OSError as error:
            raise documents.of_reading(error, self.name) from error
        self._left -= len(data)
        return data

    def close(self) -> None:
        """Give the descriptor back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Sealed:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Inbox:
    """All outboxes of this node. `refused` collects what was not believed; nothing here raises for what a pod did."""

    def __init__(self, root: Path, caps: Caps = Caps()) -> None:
        self._folder = layout.outboxes(root)
        self._caps = caps
        self.refused: list[Refused] = []

    def pods(self) -> tuple[str, ...]:
        """UIDs of the pods that have an outbox, sorted. Other names are nobody's."""
        try:
            with os.scandir(self._folder) as found:
                names = [
                    item.name
                    for item, _ in zip(found, range(self._caps.pods))
                    if layout.is_pod_uid(item.name) and item.is_dir(follow_symlinks=False)
                ]
        except OSError:
            return ()
        return tuple(sorted(names))

    def starts(self, pod_uid: str) -> tuple[Start, ...]:
        """The documents of a pod's starts, by id."""
        found = []
        with self._opened(pod_uid) as (folder, names):
            for name in [name for name in names if layout.start_of(name)][: self._caps.starts]:
                with self._judging(name):
                    found.append(_start(self._document(folder, name), name))
        return tuple(found)

    def archives(self, pod_uid: str, deadline: Deadline) -> Iterator[Sealed]:
        """A pod's sealed archives, each open until the next is asked for."""
        with self._opened(pod_uid) as (folder, names):
            for name in [name for name in names if layout.part_of(name)][: self._caps.archives]:
                sealed = self._sealed(folder, name, deadline)
                if sealed is not None:
                    with sealed:
                        yield sealed

    def drop(self, pod_uid: str, name: str) -> None:
        """Remove a start document, or an archive with what is said of it, that was dealt with. Raises nothing."""
        names = [name] if layout.start_of(name) else []
        if layout.part_of(name):
            names = [name, name[: -len(layout.SEALED)] + layout.JSON]
        with self._opened(pod_uid) as (folder, _):
            for one in names:
                with contextlib.suppress(OSError):
                    os.unlink(one, dir_fd=folder)

    def clear(self, pod_uid: str, deadline: Deadline) -> bool:
        """Remove a pod's outbox, whatever is in it; whether it is gone. For pods that are gone themselves. Raises nothing."""
        return layout.is_pod_uid(pod_uid) and hostile.remove(self._folder / pod_uid, deadline)

    def _sealed(self, folder: int, name: str, deadline: Deadline) -> Sealed | None:
        start_id, number = layout.part_of(name) or ("", 0)
        found: list[Sealed] = []
        with self._judging(name):
            part = _part(self._document(folder, f"{start_id}-{number}{layout.JSON}"), name)
            descriptor, size = _open(folder, name)
            found.append(Sealed(name, start_id, part, descriptor, size, deadline))
            if size > self._caps.archive_bytes:
                found.pop().close()
                raise IntegrityError(f"an archive of {size} bytes", code="archive-limit")
        return found[0] if found else None

    def _document(self, folder: int, name: str) -> bytes:
        descriptor, size = _open(folder, name)
        with os.fdopen(descriptor, "rb", buffering=0) as handle:
            data = b""
            while size <= self._caps.document_bytes and len(data) <= self._caps.document_bytes:
                piece = handle.read(self._caps.document_bytes + 1 - len(data))
                if not piece:
                    return data
                data += piece
        raise IntegrityError(f"a document of more than {self._caps.document_bytes} bytes", code="archive-limit")

    @contextlib.contextmanager
    def _judging(self, name: str) -> Iterator[None]:
        try:
            yield
        except (GlowplugError, OSError) as error:
            self.refused.append(Refused(name, str(error)[:500]))

    @contextlib.contextmanager
    def _opened(self, pod_uid: str) -> Iterator[tuple[int, list[str]]]:
        """A pod's directory and its names, sorted; nothing where it cannot be read."""
        if not layout.is_pod_uid(pod_uid):
            raise BadInputError(f"{pod_uid[:80]!r} is no pod's UID")
        descriptor = -1
        names: list[str] = []
        with contextlib.suppress(OSError):
            descriptor = os.open(self._folder / pod_uid, _OPEN_DIRECTORY)
            with os.scandir(descriptor) as found:
                names = sorted(item.name for item, _ in zip(found, range(self._caps.names)))
        try:
            yield descriptor, names
        finally:
            if descriptor >= 0:
                os.close(descriptor)


def _open(folder: int, name: str) -> tuple[int, int]:
    """A regular file with one name, and its size. Raises NotFoundError, IntegrityError, AccessDeniedError, UnavailableError."""
    try:
        descriptor = os.open(name, _OPEN, dir_fd=folder)
    except OSError as error:
        raise documents.of_reading(error, name) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        raise IntegrityError(f"{name} is not a regular file with one name", code="bad-document")
    return descriptor, status.st_size


def _start(data: bytes, name: str) -> Start:
    value = documents.parse_json(data, name)
    if value.get("schema") != starts.SCHEMA:
        raise IntegrityError(f"{name}: another kind of document", code="bad-document")
    try:
        start = codec.from_json(Start, value, name)
    except (BadInputError, RecursionError) as error:
        raise IntegrityError(str(error), code="bad-document") from None
    if start.id != layout.start_of(name):
        raise IntegrityError(f"{name} is the document of another start", code="bad-document")
    return start


def _part(data: bytes, name: str) -> OutboxPart:
    part = documents.parse(OutboxPart, PART_SCHEMA, data, name)
    fault = ""
    if part.kind not in (ENTRY, SUPPORT) or not part.name or (part.kind == SUPPORT) != bool(part.of):
        fault = "neither an entry nor its support"
    elif max(len(part.name), len(part.of), *map(len, part.guards), *map(len, part.guards.values())) > _LONGEST:
        fault = "a name or guard that is too long"
    elif len(part.index) > _INDEX_FILES or any(paths.fault(path) for path in part.index):
        fault = "index files that it cannot have"
    elif len(part.guards) > _GUARDS or len(part.observed) > _GUARDS:
        fault = "too many guards"
    elif any(abs(number) > _LARGEST for number in part.observed.values()):
        fault = "a number that none can be"
    if fault:
        raise IntegrityError(f"{name}: {fault}", code="bad-document")
    return part
