"""The folder of a model wherever it lies: what is in it, and some bytes of a file. Nothing is ever written.

Two kinds: a prefix of a bucket, through `store`, and a directory. A model's directory is not a store's: the Hugging Face cache
fills it with links, files have any name, and what is called `x.safetensors` may be a pipe that never answers.

A folder of more than `MOST_ENTRIES` objects is no model's (a whole bucket, most likely): it is refused rather than listed to the
end, so that neither time nor memory depend on what else lies there.
"""

from __future__ import annotations

import errno
import itertools
import os
import secrets
import stat
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol

from glowplug.core.errors import AccessDeniedError, BadInputError, GlowplugError, NotFoundError, UnavailableError
from glowplug.core.printable import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from glowplug.core.clock import Deadline
    from glowplug.store.contract import Store
    from glowplug.store.counting import Counter

MOST_ENTRIES: Final = 50_000

_PAGE: Final = 1000  # names in an answer of S3's
_MISSING: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO})

Kind = Literal["file", "directory", "other", "nothing"]


@dataclass(frozen=True, slots=True)
class Entry:
    """Something in the folder. `path` is relative to it; `kind` is `nothing` for a link that leads nowhere. Bytes."""

    path: str
    size: int
    kind: Kind = "file"

    @property
    def in_root(self) -> bool:
        """Whether it lies in the folder itself."""
        return "/" not in self.path


@dataclass(frozen=True)
class Cost:
    """Requests that were made and bytes of files that came."""

    requests: int
    bytes: int


class Folder(Protocol):
    """Both kinds. Methods may be called from several threads."""

    @property
    def cost(self) -> Cost:
        """What reading cost until now."""
        ...

    def list(self, deadline: Deadline) -> list[Entry]:
        """All that is in it, sub-folders' contents too, by path.

        Raises NotFoundError where there is nothing, BadInputError for too much, and as the store does.
        """
        ...

    def read(self, path: str, start: int, length: int, deadline: Deadline) -> bytes:
        """As `Store.get_range`."""
        ...


class Prefix:
    """A prefix of a bucket. `counter` is the one that `store` counts into."""

    def __init__(self, store: Store, counter: Counter) -> None:
        self._store = store
        self._counter = counter
        self._more_pages = 0

    @property
    def cost(self) -> Cost:
        """A listing counts as many requests as it has pages."""
        counts = self._counter.counts
        return Cost(counts.calls + self._more_pages, counts.bytes_read)

    def list(self, deadline: Deadline) -> list[Entry]:
        """One listing, pages of 1,000. What ends with a slash is a folder's marker."""
        found = _at_most((Entry(meta.path, meta.size) for meta in self._store.list("", deadline)), self._store.url)
        self._more_pages = max(0, len(found) - 1) // _PAGE
        entries = [entry for entry in found if entry.path and not entry.path.endswith("/")]
        if not entries:
            self._demand_store(deadline)
            raise NotFoundError(f"{self._store.url} holds nothing", hint="check the bucket and the prefix")
        return entries

    def _demand_store(self, deadline: Deadline) -> None:
        """Any page of the web reads as an empty listing; only a store says of a name that nobody gave that it is not there.

        Raises UnavailableError.
        """
        try:
            self._store.get(f"{secrets.token_hex(16)}.none", deadline)
        except (NotFoundError, AccessDeniedError):
            return
        except UnavailableError as error:
            if error.code != "no-ranges":
                raise
        raise UnavailableError(
            f"{self._store.url}: what answers is no object store",
            hint="check the network path (a portal to sign in at?), proxies and AWS_ENDPOINT_URL",
        )

    def read(self, path: str, start: int, length: int, deadline: Deadline) -> bytes:
        """One request."""
        return self._store.get_range(path, start, length, deadline)


class LocalDirectory:
    """A directory of this machine. Links to files are followed, since the Hugging Face cache is made of them."""

    def __init__(self, path: Path) -> None:
        self._root = path
        self._lock = threading.Lock()
        self._cost = Cost(0, 0)

    @property
    def cost(self) -> Cost:
        """Reads, and one for the listing."""
        return self._cost

    def list(self, deadline: Deadline) -> list[Entry]:
        """A walk. Folders below are read where they can be; of folders only the names that a streamer would take are given."""
        self._count(0)
        return _at_most(self._walk(deadline), str(self._root))

    def read(self, path: str, start: int, length: int, deadline: Deadline) -> bytes:
        """From one inode. Raises NotFoundError for what is no file."""
        deadline.check(f"reading {self._shown(path)}")
        try:
            descriptor = os.open(self._root / path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise NotFoundError(f"{self._shown(path)} is no file")
                data = _pread(descriptor, start, length)
            finally:
                os.close(descriptor)
        except (OSError, ValueError) as error:
            raise self._fault(error, path) from error
        self._count(len(data))
        return data

    def _walk(self, deadline: Deadline) -> Iterator[Entry]:
        waiting = [""]
        while waiting:
            deadline.check(f"listing {self._shown('')}")
            below = waiting.pop()
            try:
                with os.scandir(self._root / below) as entries:
                    found = list(itertools.islice(entries, MOST_ENTRIES + 1))
            except OSError as error:
                if below:
                    continue  # not the model's own files; what cannot be read there, an engine does not need
                raise self._fault(error, "") from error
            for one in found:
                path = f"{below}/{one.name}" if below else one.name
                try:
                    kind, size = _look(one)
                except PermissionError as error:
                    if below or not one.name.endswith(".safetensors"):
                        continue
                    raise self._fault(error, path) from error
                if kind == "directory" and not one.is_symlink():
                    waiting.append(path)
                if kind == "file" or (not below and one.name.endswith(".safetensors")):
                    yield Entry(path, size, kind)

    def _count(self, size: int) -> None:
        with self._lock:
            self._cost = Cost(self._cost.requests + 1, self._cost.bytes + size)

    def _shown(self, path: str) -> str:
        return one_line(str(self._root / path))

    def _fault(self, error: OSError | ValueError, path: str) -> GlowplugError:
        number = error.errno if isinstance(error, OSError) else errno.ENOENT
        what = f"reading {self._shown(path)}: {os.strerror(number or errno.EIO)}"
        if number in _MISSING:
            return NotFoundError(what)
        if number in (errno.EACCES, errno.EPERM):
            return AccessDeniedError(what, hint="give this user the right to read the file, and to enter its directory")
        return UnavailableError(what, hint="look at the disk or the network file system")


def _at_most(entries: Iterator[Entry], where: str) -> list[Entry]:
    found: list[Entry] = []
    for entry in entries:
        if len(found) == MOST_ENTRIES:
            raise BadInputError(
                f"{where} holds more than {MOST_ENTRIES} objects: that is more than a model",
                hint="give the model's own folder, or copy the model to a prefix that holds nothing else",
            )
        found.append(entry)
    return sorted(found, key=lambda entry: entry.path)


def _look(one: os.DirEntry[str]) -> tuple[Kind, int]:
    """Raises PermissionError where the directory may be listed and not entered."""
    try:
        status = one.stat()
    except PermissionError:
        raise
    except OSError:
        return "nothing", 0
    if stat.S_ISREG(status.st_mode):
        return "file", status.st_size
    return ("directory" if stat.S_ISDIR(status.st_mode) else "other"), 0


def _pread(descriptor: int, start: int, length: int) -> bytes:
    size = os.fstat(descriptor).st_size
    left = max(0, min(length, size - start))
    pieces: list[bytes] = []
    while left:
        piece = os.pread(descriptor, left, start)
        if not piece:
            break
        pieces.append(piece)
        start += len(piece)
        left -= len(piece)
    return b"".join(pieces)
