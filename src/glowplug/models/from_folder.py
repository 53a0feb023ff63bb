"""From a folder to a `Model`: list it, read configuration and index, then every shard's header.

Three steps, each with its requests side by side, so that the time is a few round trips and not one a shard: the listing; the two
small files; the headers, two requests for each at most (`shards`). Whatever is wrong *in* the folder becomes a finding, so that a
person sees all of it at once; what keeps the folder from being read (rights, region, silence) is an error, and so is a folder
without weights, of which nothing can be planned.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from glowplug.core import bounded
from glowplug.core.errors import BadInputError, NotFoundError
from glowplug.core.printable import one_line
from glowplug.core.units import format_size
from glowplug.models import findings, index, shape, shards
from glowplug.models.contents import Model
from glowplug.models.findings import Contents
from glowplug.models.json_text import JsonError
from glowplug.models.parallel import each
from glowplug.models.safetensors import MOST_TENSORS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from glowplug.core.clock import Deadline
    from glowplug.models.contents import Finding, Shape
    from glowplug.models.folder import Entry, Folder
    from glowplug.models.index import Index
    from glowplug.models.shards import Shard

    Progress = Callable[[int, int], None]

_LIMITS: Final = {shape.NAME: shape.LARGEST, index.NAME: index.LARGEST}
_COUNTED: Final = frozenset(
    {"F4", "F6_E2M3", "F6_E3M2", "F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F16", "BF16", "F32", "F64", "I8"}
)
_UNCOUNTED: Final = frozenset({"BOOL", "F8_E8M0", "C64"})
_NEGLIGIBLE: Final = 0.01  # of the bytes: buffers such as position numbers


def model(
    source: str, place: str, folder: Folder, deadline: Deadline, parallel: int, progress: Progress | None = None
) -> Model:
    """What lies in `folder`, which people call `source` and commands `place`. Errors as `read.read`."""
    entries = bounded.call(lambda: folder.list(deadline), deadline, f"listing {place}")
    weights = [entry for entry in entries if entry.kind == "file" and _is_weights(entry, place)]
    if not weights:
        raise _no_weights(place, entries)
    small = _small_files(folder, entries, deadline, parallel)
    # What was removed after the listing was never there.
    entries = [entry for entry in entries if entry.path not in _LIMITS or entry.path in small]
    known, index_fault = bounded.call(lambda: _index(small), deadline, f"reading {index.NAME}")
    outline, notes = bounded.call(lambda: _shape(small), deadline, f"reading {shape.NAME}")
    read_shards = _Reading(folder, known, deadline, parallel).all(weights, progress)
    contents = Contents(
        source=place,
        entries=entries,
        weights=weights,
        shards=read_shards.shards,
        index=known,
        index_fault=index_fault,
        twice=read_shards.twice,
        lost=read_shards.lost,
    )
    summed = _sum_up(source, weights, read_shards.shards, known)
    return replace(summed, shape=outline, findings=(*notes, *findings.find(contents)))


def _is_weights(entry: Entry, place: str) -> bool:
    """By name alone, as the streamer lists: a glob in a directory, which passes hidden files over, else a pattern of names."""
    hidden = "://" not in place and entry.path.startswith(".")
    return entry.in_root and entry.path.endswith(index.SUFFIX) and not hidden


class _Small(NamedTuple):
    """A small file that was read, or why not."""

    name: str
    data: bytes
    fault: str


def _small_files(folder: Folder, entries: Sequence[Entry], deadline: Deadline, parallel: int) -> dict[str, _Small]:
    """Those that are there still."""

    def work(entry: Entry) -> _Small | None:
        if not entry.size:
            return _Small(entry.path, b"", "it is empty")
        largest = _LIMITS[entry.path]
        if entry.size > largest:
            return _Small(entry.path, b"", f"it has {entry.size} bytes, more than the {largest} that are read")
        try:
            return _Small(entry.path, folder.read(entry.path, 0, entry.size, deadline), "")
        except NotFoundError:
            return None

    there = [entry for entry in entries if entry.path in _LIMITS]
    found = each(work, there, parallel, deadline, "reading the configuration")
    return {small.name: small for small in found if small is not None}


def _index(small: Mapping[str, _Small]) -> tuple[Index | None, str]:
    found = small.get(index.NAME)
    if found is None:
        return None, ""
    if found.fault:
        return None, found.fault
    try:
        return index.parse(found.data), ""
    except JsonError as error:
        return None, str(error)


def _shape(small: Mapping[str, _Small]) -> tuple[Shape | None, tuple[Finding, ...]]:
    found = small.get(shape.NAME)
    if found is None:
        return None, ()
    return (None, (shape.unusable(found.fault),)) if found.fault else shape.read(found.data)


class _Reading:
    """Reads all headers, and keeps the names of tensors only as long as they are compared."""

    def __init__(self, folder: Folder, known: Index | None, deadline: Deadline, parallel: int) -> None:
        self.shards: list[Shard] = []
        self.twice: list[str] = []
        self.lost: list[str] = []
        self._folder = folder
        self._index = known
        self._deadline = deadline
        self._parallel = parallel
        self._owner: dict[str, str] = {}

    def all(self, weights: Sequence[Entry], progress: Progress | None) -> _Reading:
        """Every shard, in the order of their names."""
        expected = self._index.head_bytes() if self._index else {}
        room = shards.Room()

        def work(entry: Entry) -> tuple[Entry, Shard, list[str]]:
            first = shards.guess(expected.get(entry.path))
            return entry, *shards.read(self._folder, entry, first, room, self._deadline)

        for entry, shard, names in each(work, weights, self._parallel, self._deadline, "reading headers"):
            self.shards.append(self._keep(entry, shard, names))
            if progress is not None:
                progress(len(self.shards), len(weights))
        self.shards.sort(key=lambda shard: shard.name)
        self._compare()
        return self

    def _keep(self, entry: Entry, shard: Shard, names: list[str]) -> Shard:
        if len(self._owner) + len(names) > MOST_TENSORS:
            return shards.faulty(entry, f"the model has more than {MOST_TENSORS} tensors")
        for name in names:
            if self._owner.setdefault(name, shard.name) != shard.name:
                self.twice.append(name)
        return shard

    def _compare(self) -> None:
        self.twice = sorted(set(self.twice))
        if self._index is None:
            return
        sound = {shard.name for shard in self.shards if not shard.fault}
        twice = set(self.twice)
        self.lost = [
            tensor
            for tensor, shard in self._index.shard_of.items()
            if shard in sound and self._owner.get(tensor) != shard and tensor not in twice
        ]
        self._owner.clear()


def _sum_up(source: str, weights: Sequence[Entry], found: Sequence[Shard], known: Index | None) -> Model:
    sound = [shard for shard in found if not shard.fault]
    indexed = [entry.size for entry in weights if known and entry.path in known.shards]
    copy = _one_copy(found, known)
    bytes_of = _total(shard.bytes_of for shard in copy)
    return Model(
        source=source,
        weights_bytes=sum(entry.size for entry in weights),
        indexed_bytes=sum(indexed) if indexed else None,
        shards=len(weights),
        tensors=sum(shard.tensors for shard in sound) if sound else None,
        largest_tensor_bytes=max((shard.largest_bytes for shard in sound), default=None),
        largest_shard_bytes=max(entry.size for entry in weights),
        parameters=None if any(shard.fault for shard in copy) else _parameters(copy, bytes_of),
        dtype=max(sorted(bytes_of), key=lambda dtype: bytes_of[dtype], default=None),
    )


def _one_copy(found: Sequence[Shard], known: Index | None) -> list[Shard]:
    """The shards of which each holds weights that no other one holds, as far as names tell."""
    indexed = [shard for shard in found if known and shard.name in known.shards]
    own = [s for s in found if not findings.is_consolidated(s.name) and not findings.is_adapter(s.name)]
    return indexed or own or list(found)


def _parameters(copy: Sequence[Shard], bytes_of: Mapping[str, int]) -> int | None:
    packed = sum(size for dtype, size in bytes_of.items() if dtype not in _COUNTED | _UNCOUNTED)
    if not bytes_of or packed > _NEGLIGIBLE * sum(bytes_of.values()):
        return None
    elements = _total(shard.elements_of for shard in copy)
    return sum(count for dtype, count in elements.items() if dtype in _COUNTED)


def _total(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, number in part.items():
            total[name] = total.get(name, 0) + number
    return total


def _no_weights(place: str, entries: Sequence[Entry]) -> BadInputError:
    """What is there instead decides what to do."""
    what = f"{one_line(place)} has no *{index.SUFFIX} in its root"
    below = sorted({e.path.rpartition("/")[0] for e in entries if not e.in_root and e.path.endswith(index.SUFFIX)})
    if below:
        hint = f"give the folder that holds them: {one_line(place)}/{one_line(below[0])}"
        return BadInputError(f"{what}; they lie in {findings.named(below)}", code="no-safetensors", hint=hint)
    for suffixes, hint in _INSTEAD:
        others = [entry for entry in entries if entry.in_root and entry.path.lower().endswith(suffixes)]
        if others:
            size = format_size(sum(entry.size for entry in others))
            there = findings.named(entry.path for entry in others)
            return BadInputError(f"{what}; there are {there} ({size})", code="no-safetensors", hint=hint)
    no_files = [entry.path for entry in entries if entry.kind != "file"]
    if no_files:
        return BadInputError(f"{what} but {findings.named(no_files)}, which is no file", code="no-safetensors")
    return BadInputError(what, code="no-safetensors")


_INSTEAD: Final = (
    (
        (".bin", ".pt", ".pth", ".ckpt"),
        "convert them with transformers: AutoModelForCausalLM.from_pretrained(folder).save_pretrained(folder)",
    ),
    ((".gguf", ".ggml"), "no engine streams GGUF; take the model's safetensors"),
    ((".h5", ".msgpack", ".onnx", ".engine", ".tflite"), "no engine streams these; take the model's safetensors"),
)
