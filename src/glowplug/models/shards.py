"""One shard: its header fetched in two requests at most and summed up.

The first request takes as much of the beginning as the header most likely has (the index says how many tensors to expect), so one
is enough for nearly every file. Where the header is longer, all of it is fetched again in one request and not only its rest: an
object that was replaced in between then gives its new header, never a mixture.

Memory: first requests are small. Longer headers are fetched and looked through one at a time (`Room`), and all of them together
may have no more than `MOST_LONG_BYTES`.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from glowplug.core import bounded
from glowplug.core.errors import BadInputError, NotFoundError
from glowplug.models import safetensors
from glowplug.models.safetensors import HeaderError, TruncatedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from glowplug.core.clock import Deadline
    from glowplug.models.folder import Entry, Folder

LEAST_GUESS: Final = 8 << 10
USUAL_GUESS: Final = 64 << 10
"""Bytes of a first request where nothing says how long the header is: enough for 500 tensors."""

MOST_GUESS: Final = 1 << 20
MOST_LONG_BYTES: Final = 256 << 20

_POLL_TENSORS: Final = 4096


@dataclass(frozen=True)
class Shard:
    """What its header says. Bytes; `expected_bytes` is the file's size by its header.

    `fault` is "" or why nothing else is known of it, and `rule` what kind of fault that is. `bytes_of` and `elements_of` are by
    dtype. `strange` are dtypes that are not known here.
    """

    name: str
    size: int
    fault: str = ""
    rule: str = ""
    expected_bytes: int = 0
    tensors: int = 0
    largest_bytes: int = 0
    bytes_of: Mapping[str, int] = field(default_factory=dict)
    elements_of: Mapping[str, int] = field(default_factory=dict)
    strange: tuple[str, ...] = ()

    @property
    def data_bytes(self) -> int:
        """Bytes of its tensors."""
        return sum(self.bytes_of.values())


class Room:
    """Lets one long header in at a time, until their bytes are used up."""

    def __init__(self, nbytes: int = MOST_LONG_BYTES) -> None:
        self._left = nbytes
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def take(self, nbytes: int, deadline: Deadline) -> Iterator[None]:
        """Wait for one's turn. Raises HeaderError where no room is left, UnavailableError (`timeout`)."""
        if nbytes <= MOST_GUESS:
            yield
            return
        if not self._lock.acquire(timeout=min(deadline.remaining(), threading.TIMEOUT_MAX)):
            raise bounded.out_of_time("waiting for room for a long header")
        try:
            deadline.check("waiting for room for a long header")
            if nbytes > self._left:
                raise HeaderError("it was not read: the headers of this model are too long in all")
            self._left -= nbytes
            yield
        finally:
            self._lock.release()


def guess(head_bytes: int | None) -> int:
    """Bytes of the first request, for a header that the index expects to end there (None: nobody says)."""
    if head_bytes is None:
        return USUAL_GUESS
    return min(max(head_bytes, LEAST_GUESS), MOST_GUESS)


def read(folder: Folder, entry: Entry, first_bytes: int, room: Room, deadline: Deadline) -> tuple[Shard, list[str]]:
    """The shard and its tensors' names. Raises as the folder does, where that is no matter of this file; else it is a `fault`."""
    if not entry.size:
        return faulty(entry, "it is empty", "shard-empty"), []
    try:
        with _head(folder, entry, first_bytes, room, deadline) as head:
            return _sum_up(entry, head, deadline)
    except TruncatedError as error:
        return faulty(entry, str(error), "shard-truncated"), []
    except HeaderError as error:
        return faulty(entry, str(error)), []
    except NotFoundError:
        return faulty(entry, "it was removed while the folder was read"), []
    except BadInputError:
        return faulty(entry, "its name is outside of what is read", "shard-name"), []


def faulty(entry: Entry, fault: str, rule: str = "shard-header") -> Shard:
    """A shard of which only its size is known."""
    return Shard(entry.path, entry.size, fault, rule)


@contextlib.contextmanager
def _head(folder: Folder, entry: Entry, first_bytes: int, room: Room, deadline: Deadline) -> Iterator[bytes]:
    beginning = folder.read(entry.path, 0, min(first_bytes, entry.size), deadline)
    head = safetensors.head_bytes(beginning)
    if head > entry.size:
        raise TruncatedError(f"it has {entry.size} bytes, fewer than the {head} of its header")
    if head <= len(beginning):
        yield beginning[:head]
        return
    with room.take(head, deadline):
        whole = folder.read(entry.path, 0, head, deadline)
        if safetensors.head_bytes(whole) != len(whole):
            raise HeaderError("it was replaced while it was read")
        yield whole


def _sum_up(entry: Entry, head: bytes, deadline: Deadline) -> tuple[Shard, list[str]]:
    names: list[str] = []
    bytes_of: dict[str, int] = {}
    elements_of: dict[str, int] = {}
    largest = end = 0
    for tensor in safetensors.tensors(memoryview(head)[safetensors.PREFIX_BYTES :]):
        if len(names) % _POLL_TENSORS == 0:
            deadline.check(f"reading {entry.path}")
        names.append(tensor.name)
        size = tensor.end - tensor.begin
        bytes_of[tensor.dtype] = bytes_of.get(tensor.dtype, 0) + size
        elements_of[tensor.dtype] = elements_of.get(tensor.dtype, 0) + tensor.elements
        largest, end = max(largest, size), max(end, tensor.end)
    shard = Shard(
        name=entry.path,
        size=entry.size,
        expected_bytes=len(head) + end,
        tensors=len(names),
        largest_bytes=largest,
        bytes_of=bytes_of,
        elements_of=elements_of,
        strange=tuple(sorted(dtype for dtype in bytes_of if safetensors.bits_of(dtype) is None)),
    )
    return shard, names
