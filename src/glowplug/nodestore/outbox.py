"""What a pod hands to its node's agent: the document of its start, and what it compiled as sealed archives.

The directory is the pod's own, on a disk that all pods of the node share. So everything in it is capped, room is asked for before
the first byte, a name appears when its bytes are whole, and what a killed writer left is removed by the next one. Nothing is
flushed: the agent compares every byte with its digest, and a start that lost its archive to a power cut is compiled again.

An outbox that cannot be written costs a publish, never a start: callers turn the errors into a reason.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.core import atomic, canonical
from glowplug.core.documents import codec
from glowplug.core.errors import ConflictError, GlowplugError, IntegrityError, UnavailableError
from glowplug.nodestore import layout
from glowplug.tree import archive, room
from glowplug.tree.index import read_again
from glowplug.tree.model import DEFAULT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import BinaryIO, Callable, Optional

    from glowplug.core.clock import Deadline
    from glowplug.core.documents.node import OutboxPart
    from glowplug.core.documents.start import Start
    from glowplug.tree.model import File, Limits

_PACKINGS: Final = 3
_PAUSE_SECONDS: Final = 0.5
_MODE: Final = 0o644
"""Whatever the engine's umask is: an agent that may not do everything has to read it."""
_UNLOCKED_SECONDS: Final = 60
_MOST_NAMES: Final = 10_000
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_TAR_OVERHEAD: Final = 2048


@dataclass(frozen=True)
class Caps:
    """What one pod's outbox holds at most: bytes of all sealed archives together, their number, bytes of a document."""

    bytes: int = 8 * 2**30
    archives: int = 32
    document_bytes: int = 1 << 20


class Outbox:
    """One pod's directory. Used by one thread at a time; containers of one pod may use it at the same time."""

    def __init__(self, mount: Path, caps: Caps = Caps()) -> None:
        self.mount = mount
        self._caps = caps

    def put_start(self, start: Start) -> None:
        """Put the document of a start, or put it anew. Raises as `put_start_bytes`."""
        document = json.dumps(codec.to_json(start), ensure_ascii=False)
        self.put_start_bytes(start.id, document.encode("utf-8", "replace"))

    def put_start_bytes(self, start_id: str, document: bytes) -> None:
        """Put a start document that is encoded already (and has its secrets replaced).

        Raises BadInputError for an id that is no name of a file, IntegrityError (`archive-limit`), UnavailableError (`no-space`,
        `outbox-unwritable`).
        """
        path = layout.start(self.mount, start_id)
        self._put(path, document)

    def put_part(
        self,
        start_id: str,
        part: OutboxPart,
        root: Path,
        files: Sequence[File],
        *,
        deadline: Deadline,
        rewrite: Optional[Callable[[str, bytes], bytes]] = None,
        secrets: Optional[Mapping[str, bytes]] = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Path:
        """Seal `files` below `root` and put them, with what is said of them; the path of the archive.

        `rewrite` and `secrets` as in `tree.archive.pack`. A tree that changes meanwhile is packed again, twice at most. Raises
        ConflictError (`tree-changing`), BadInputError (`secret-found`), IntegrityError (`archive-limit`, `bad-archive`),
        UnavailableError (`no-space`, `outbox-unwritable`, `timeout`). After any of them nothing of the archive is there.
        """
        said = canonical.encode(codec.to_json(part))

        def seal(path: Path, left: int, wanted: Sequence[File]) -> None:
            size = sum(item.size + _TAR_OVERHEAD for item in wanted)
            if size > left:
                raise IntegrityError(f"{size} bytes are more than this outbox may hold", code="archive-limit")
            room.check(self.mount, size, 2)
            with _locked(path) as handle:
                archive.pack(
                    root, wanted, _Capped(handle, left, deadline), rewrite=rewrite, secrets=secrets, limits=limits
                )
                # Before the archive has its name: with it, what is said of it is there too.
                self._put(layout.description(path), said)

        with _ours():
            path, left = self._free(start_id)
            try:
                _settled(seal, path, left, root, files, deadline)
            except BaseException:
                with contextlib.suppress(OSError):
                    layout.description(path).unlink()
                raise
        return path

    def sweep(self) -> None:
        """Remove what killed writers of this outbox left. Raises nothing."""
        with contextlib.suppress(OSError):
            for name in self._names():
                if name.startswith(atomic.TEMPORARY_PREFIX):
                    _remove_dead(self.mount / name)

    def _put(self, path: Path, data: bytes) -> None:
        if len(data) > self._caps.document_bytes:
            raise IntegrityError(f"{path.name}: a document of {len(data)} bytes", code="archive-limit")
        with _ours(), _locked(path) as handle:
            handle.write(data)

    def _free(self, start_id: str) -> tuple[Path, int]:
        """The next archive's path, and how many bytes it may have."""
        self.sweep()
        present = {name for name in self._names() if name.endswith(layout.SEALED)}
        if len(present) >= self._caps.archives:
            raise IntegrityError(f"this outbox holds {len(present)} archives already", code="archive-limit")
        taken = sum(os.lstat(self.mount / name).st_size for name in present)
        numbers = (layout.part_of(name) for name in present)
        last = max((found[1] for found in numbers if found and found[0] == start_id), default=0)
        return layout.sealed(self.mount, start_id, last + 1), self._caps.bytes - taken

    def _names(self) -> list[str]:
        with os.scandir(self.mount) as found:
            return [item.name for item, _ in zip(found, range(_MOST_NAMES))]


def _settled(
    seal: Callable[[Path, int, Sequence[File]], None],
    path: Path,
    left: int,
    root: Path,
    files: Sequence[File],
    deadline: Deadline,
) -> None:
    """Seal, again where the tree changed meanwhile."""
    for packing in range(1, _PACKINGS + 1):
        deadline.check("packing")
        try:
            seal(path, left, files)
        except ConflictError:
            if packing == _PACKINGS:
                raise
        else:
            return
        deadline.clock.sleep(min(_PAUSE_SECONDS, deadline.remaining()))
        files = read_again(root, files)


class _Capped:
    """Stands between a packer and the disk: no more bytes than allowed, no later than the deadline."""

    def __init__(self, handle: BinaryIO, left: int, deadline: Deadline) -> None:
        self._handle = handle
        self._left = left
        self._deadline = deadline

    def write(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            raise IntegrityError("the archive is larger than this outbox may hold", code="archive-limit")
        self._deadline.check("packing")
        self._handle.write(data)


@contextlib.contextmanager
def _ours() -> Iterator[None]:
    """The file system's errors as errors of ours."""
    try:
        yield
    except GlowplugError:
        raise
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise UnavailableError("no space is left for the outbox", code="no-space") from error
        raise UnavailableError(f"the outbox cannot be used: {error.strerror}", code="outbox-unwritable") from error


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` when the block ends well; its lock tells a sweep that somebody is at it."""
    temporary = path.with_name(f"{atomic.TEMPORARY_PREFIX}{os.urandom(8).hex()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            with contextlib.suppress(OSError):
                os.fchmod(descriptor, _MODE)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield handle
            handle.flush()
            temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _remove_dead(path: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_mtime > time.time() - _UNLOCKED_SECONDS:
                return  # perhaps its writer has not come to locking it yet
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        finally:
            os.close(descriptor)
