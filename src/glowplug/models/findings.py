"""What a person should know about a model's folder before an engine finds out: what is missing, doubled, broken or in the way.

Pure: takes what was read, gives findings. One finding a rule and not one a file, since a folder has a hundred shards. Names
come out of somebody's bucket: in a message they are made printable, in a command to paste they are quoted for a shell.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.core.printable import one_line
from glowplug.core.units import format_size
from glowplug.models import index as indexes
from glowplug.models import shape as shapes
from glowplug.models.contents import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from glowplug.models.folder import Entry
    from glowplug.models.index import Index
    from glowplug.models.shards import Shard

_SHOWN: Final = 5
_LONGEST_SHOWN: Final = 120

_NUMBERED: Final = re.compile(r"(?P<stem>.+)-(?P<number>\d{1,6})-of-(?P<total>\d{1,6})\.safetensors", re.DOTALL)
_NEEDLESS: Final = re.compile(
    r"\.git|\.cache|\.ipynb_checkpoints|__pycache__|original|onnx|openvino|coreml|metal|gguf|flax|tf|runs"
    r"|checkpoint-\d+|global_step\d+",
    re.IGNORECASE,
)
_WEIGHTS: Final = re.compile(
    r".*\.(?:safetensors|bin|pth?|ckpt|h5|msgpack|ot|gguf|ggml|onnx|onnx_data|tflite|mlmodel|mlpackage|engine|tensors|zip|tar|gz)",
    re.IGNORECASE | re.DOTALL,
)
_NOT_PULLED: Final = (".pt", ".safetensors", ".bin", ".tensors", ".pth")
"""What vLLM leaves out when it copies a model's other files from a bucket (`maybe_pull_model_tokenizer_for_runai`)."""

_TOKENIZERS: Final = frozenset(
    {
        "tokenizer.json",
        "tokenizer.model",
        "tokenizer_config.json",
        "tekken.json",
        "vocab.json",
        "vocab.txt",
        "spiece.model",
        "sentencepiece.bpe.model",
        "tiktoken.model",
    }
)


@dataclass(frozen=True)
class Contents:
    """What was read. `source` is the address, or the path of a directory; `weights` are the files that a streamer lists.

    `index` is None without a usable one, `index_fault` says why. `twice` are tensors that two shards hold, `lost` those that the
    index puts into a shard whose header has them not.
    """

    source: str
    entries: Sequence[Entry]
    weights: Sequence[Entry]
    shards: Sequence[Shard]
    index: Index | None = None
    index_fault: str = ""
    twice: Sequence[str] = ()
    lost: Sequence[str] = ()

    @property
    def in_bucket(self) -> bool:
        """Whether it lies in an object store."""
        return "://" in self.source


def find(contents: Contents) -> tuple[Finding, ...]:
    """All findings about the folder and its shards, errors first."""
    rules = (_shards, _missing, _index, _tensors, _consolidated, _adapters, _files, _folders, _formats)
    found = [finding for rule in rules for finding in rule(contents)]
    return in_order(found)


def in_order(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Errors, warnings, the rest; within these as they come."""
    return tuple(sorted(found, key=lambda finding: ("error", "warning", "info").index(finding.severity)))


def is_consolidated(name: str) -> bool:
    """Whether this is a shard of Mistral's own layout, which usually lies beside the same weights in Hugging Face's."""
    return name.startswith("consolidated")


def is_adapter(name: str) -> bool:
    """Whether this is a LoRA adapter and no model's weights."""
    return name.startswith("adapter_model")


def named(names: Iterable[str]) -> str:
    """The first few names, printable, with the number of the others."""
    every = list(names)
    return _first_of(every, len(every))


def _first_of(names: Iterable[str], count: int) -> str:
    shown = ", ".join(one_line(name)[:_LONGEST_SHOWN] for name in itertools.islice(names, _SHOWN))
    return f"{shown} and {count - _SHOWN} more" if count > _SHOWN else shown


def _shards(contents: Contents) -> Iterator[Finding]:
    for rule, what in (
        ("shard-empty", "no bytes are in"),
        ("shard-truncated", "smaller than their headers say are"),
        ("shard-header", "no safetensors header can be read in"),
    ):
        short = [shard for shard in contents.shards if shard.rule == rule]
        texts = [f"{shard.name} ({shard.fault})" for shard in short]
        if rule == "shard-truncated":
            cut = [shard for shard in contents.shards if not shard.fault and shard.size < shard.expected_bytes]
            texts += [f"{shard.name} ({shard.size} of {shard.expected_bytes} bytes)" for shard in cut]
        if texts:
            yield Finding(
                rule, "error", f"{what} {named(texts)}", "copy these files again, and compare sizes and digests"
            )
    longer = [shard for shard in contents.shards if not shard.fault and shard.size > shard.expected_bytes]
    if longer:
        texts = [f"{shard.name} ({shard.size} instead of {shard.expected_bytes} bytes)" for shard in longer]
        yield Finding(
            "shard-too-long",
            "warning",
            f"larger than their headers say are {named(texts)}",
            "copy these files again; some loaders refuse them",
        )
    bare = [shard.name for shard in contents.shards if not shard.fault and not shard.tensors]
    if bare:
        yield Finding("shard-without-tensors", "warning", f"no tensors are in {named(bare)}", _remove(contents, bare))
    unread = [shard.name for shard in contents.shards if shard.rule == "shard-name"]
    if unread:
        message = f"glowplug reads no objects with such names: {named(unread)}; their sizes count, their tensors do not"
        yield Finding("shard-name", "warning", message, "use letters, digits, . _ and - in names")
    strange = [f"{shard.name} ({', '.join(shard.strange)})" for shard in contents.shards if shard.strange]
    if strange:
        yield Finding(
            "dtype-unknown",
            "warning",
            f"types of numbers that glowplug does not know are in {named(strange)}",
            "make sure that the engine's version reads them",
        )
    no_files = [entry.path for entry in contents.entries if entry.kind != "file"]
    if no_files:
        yield Finding(
            "shard-not-a-file",
            "error",
            f"no files are {named(no_files)}, which an engine takes for weights by their names",
            "remove or rename them",
        )


def _missing(contents: Contents) -> Iterator[Finding]:
    """By the index; where the index names no shard of a series, by the series' own numbers."""
    there = {entry.path for entry in contents.weights}
    indexed = contents.index.shards if contents.index else frozenset()
    by_index = sorted(indexed - there)
    series = [one for one in _series(there) if not one.names & indexed]
    count = len(by_index) + sum(one.missing for one in series)
    if count:
        names = itertools.chain(by_index, *(one.missing_names() for one in series))
        yield Finding(
            "shard-missing",
            "error",
            f"{count} shards are missing: {_first_of(names, count)}",
            "copy them too; the model was copied in part",
        )
    stems = Counter(one.stem for one in _series(there))
    doubled = sorted(stem for stem, times in stems.items() if times > 1)
    if doubled:
        yield Finding(
            "shard-numbers-mixed",
            "warning",
            f"shards of two ways to cut the model lie side by side: {named(doubled)}; a streamer loads both",
            "remove the older ones",
        )


@dataclass(frozen=True)
class _Series:
    """Shards that count themselves: `model-00002-of-00030.safetensors`. Some count from 0."""

    stem: str
    total: int
    width: int
    numbers: frozenset[int]
    names: frozenset[str]

    @property
    def _all(self) -> range:
        first = 0 if 0 in self.numbers else 1
        return range(first, first + self.total)

    @property
    def missing(self) -> int:
        """How many of them are not there."""
        return self.total - sum(number in self._all for number in self.numbers)

    def missing_names(self) -> Iterator[str]:
        """Their names, made one by one: who wrote the names decides how many there are."""
        for number in self._all:
            if number not in self.numbers:
                yield f"{self.stem}-{number:0{self.width}}-of-{self.total:0{self.width}}{indexes.SUFFIX}"


def _series(names: Iterable[str]) -> list[_Series]:
    found: dict[tuple[str, str], list[re.Match[str]]] = defaultdict(list)
    for name in sorted(names):
        match = _NUMBERED.fullmatch(name)
        if match:
            found[match["stem"], match["total"]].append(match)
    return [
        _Series(
            stem,
            int(total),
            len(total),
            frozenset(int(match["number"]) for match in matches),
            frozenset(match[0] for match in matches),
        )
        for (stem, total), matches in found.items()
    ]


def _index(contents: Contents) -> Iterator[Finding]:
    if contents.index_fault:
        message = f"{indexes.NAME} cannot be used: {contents.index_fault}"
        yield Finding("index-unusable", "warning", message, "copy the file again; engines that go by it fail")
    if contents.index is None:
        return
    if contents.index.outside:
        yield Finding(
            "index-outside",
            "error",
            f"{indexes.NAME} names what cannot be a shard beside it: {named(contents.index.outside)}",
            "do not use this model before you know who wrote its index",
        )
    extra = [
        entry.path
        for entry in contents.weights
        if entry.path not in contents.index.shards and not is_consolidated(entry.path) and not is_adapter(entry.path)
    ]
    if extra and contents.index.shards:
        size = format_size(_bytes(entry for entry in contents.weights if entry.path in set(extra)))
        yield Finding(
            "shard-unindexed",
            "warning",
            f"{named(extra)} ({size}) are not in {indexes.NAME}; a streamer loads them all the same",
            _remove(contents, extra),
        )
    yield from _total(contents, contents.index)


def _total(contents: Contents, index: Index) -> Iterator[Finding]:
    shards = [shard for shard in contents.shards if shard.name in index.shards]
    if index.total_size is None or len(shards) != len(index.shards) or any(shard.fault for shard in shards):
        return
    really = sum(shard.data_bytes for shard in shards)
    if really != index.total_size:
        message = f"{indexes.NAME} says {index.total_size} bytes of tensors; the headers say {really}"
        yield Finding("index-total-size", "info", message)


def _tensors(contents: Contents) -> Iterator[Finding]:
    if contents.lost:
        yield Finding(
            "tensor-missing",
            "error",
            f"{len(contents.lost)} tensors are not in the shards that {indexes.NAME} names for them: {named(contents.lost)}",
            "copy the shards and the index again, both from one version of the model",
        )
    if contents.twice:
        yield Finding(
            "tensor-twice",
            "warning",
            f"{len(contents.twice)} tensors are in two shards: {named(contents.twice)}; which one counts is chance",
            "remove what is not the model's",
        )


def _consolidated(contents: Contents) -> Iterator[Finding]:
    own = [entry for entry in contents.weights if is_consolidated(entry.path)]
    others = [entry for entry in contents.weights if not is_consolidated(entry.path) and not is_adapter(entry.path)]
    if own and others:
        yield Finding(
            "consolidated-twice",
            "warning",
            f"{named(entry.path for entry in own)} ({format_size(_bytes(own))}, {_bytes(own)} bytes) hold the same weights as "
            f"{named(entry.path for entry in others)}; vLLM to 0.32 streams both, later ones go by {indexes.NAME}",
            _remove(contents, [entry.path for entry in own]),
        )


def _adapters(contents: Contents) -> Iterator[Finding]:
    own = [entry.path for entry in contents.weights if is_adapter(entry.path)]
    if not own:
        return
    if len(own) == len(contents.weights):
        yield Finding(
            "adapter-only", "error", f"{named(own)} are an adapter, not a model", "give the model that it was made for"
        )
        return
    message = f"{named(own)} are an adapter's; a streamer takes them for weights of the model"
    yield Finding(
        "adapter-beside", "warning", message, "move the adapter to a prefix of its own, and name it with --lora-modules"
    )


def _files(contents: Contents) -> Iterator[Finding]:
    there = {entry.path for entry in contents.entries if entry.in_root}
    if shapes.NAME not in there:
        if "params.json" in there:
            yield Finding(
                "config-missing",
                "warning",
                f"{shapes.NAME} is missing; params.json is there",
                "start vLLM with --config-format=mistral",
            )
        else:
            yield Finding(
                "config-missing",
                "error",
                f"{shapes.NAME} is missing; no engine starts without it",
                "copy it from the model",
            )
    if not there & _TOKENIZERS and not any(name.endswith(".tiktoken") for name in there):
        yield Finding(
            "tokenizer-missing",
            "warning",
            "no file of a tokenizer is there",
            "copy tokenizer.json from the model, or name another with --tokenizer",
        )


def _folders(contents: Contents) -> Iterator[Finding]:
    below: dict[str, list[Entry]] = defaultdict(list)
    for entry in contents.entries:
        if not entry.in_root:
            below[entry.path.partition("/")[0]].append(entry)
    for folder, entries in sorted(below.items()):
        needless = _NEEDLESS.fullmatch(folder) is not None
        ignored = entries if needless else [entry for entry in entries if _WEIGHTS.fullmatch(entry.path)]
        if ignored:
            what = f"{one_line(folder)}/ holds"
            if not needless:
                what += " weights, which engines do not look for in folders below:"
            yield _ignorable(contents, what, ignored, _remove_folder(contents, folder) if needless else "")


def _formats(contents: Contents) -> Iterator[Finding]:
    by_kind: dict[str, list[Entry]] = defaultdict(list)
    for entry in contents.entries:
        name = entry.path.lower()
        if entry.in_root and _WEIGHTS.fullmatch(name) and not name.endswith(indexes.SUFFIX):
            by_kind[name.rpartition(".")[2]].append(entry)
    for kind, entries in sorted(by_kind.items()):
        yield _ignorable(contents, f"*.{kind}:", entries, _remove(contents, [entry.path for entry in entries]))


def _ignorable(contents: Contents, what: str, entries: Sequence[Entry], hint: str) -> Finding:
    size = _bytes(entries)
    message = f"{what} {format_size(size)} ({size} bytes) in {len(entries)} files that are not streamed"
    pulled = _bytes(entry for entry in entries if not entry.path.endswith(_NOT_PULLED))
    if not contents.in_bucket or not pulled:
        return Finding("ignorable-bytes", "info", message, hint)
    message += f"; vLLM downloads {format_size(pulled)} of it before it starts"
    return Finding("ignorable-bytes", "warning", message, hint)


def _remove_folder(contents: Contents, folder: str) -> str:
    place = shlex.quote(f"{contents.source}/{folder}/") if folder.isprintable() else ""
    commands: Mapping[str, str] = {
        "s3": f"aws s3 rm --recursive {place}",
        "gs": f"gcloud storage rm --recursive {place}",
        "": f"rm -r {place}",
    }
    return commands.get(_scheme(contents), "") if place else ""


def _remove(contents: Contents, names: Sequence[str]) -> str:
    """A command for a few names; more than a few are left to the reader."""
    if len(names) > _SHOWN or not all(name.isprintable() for name in names):
        return "remove these files from the folder"
    places = [shlex.quote(f"{contents.source}/{name}") for name in names]
    match _scheme(contents):
        case "s3":
            return " && ".join(f"aws s3 rm {place}" for place in places)
        case "gs":
            return f"gcloud storage rm {' '.join(places)}"
        case "":
            return f"rm {' '.join(places)}"
        case _:
            return "remove these files from the folder"


def _scheme(contents: Contents) -> str:
    """`""` for a directory."""
    return contents.source.partition("://")[0] if contents.in_bucket else ""


def _bytes(entries: Iterable[Entry]) -> int:
    return sum(entry.size for entry in entries)
