"""How an engine gets its weights, as far as a manifest says it: what the rules of this area ask for, read once for each pod.

`weights_of` is about any engine whose command can be followed, `stream_of` about those that stream through the Run:ai streamer.
What cannot be known is None. Versions are those of the image's tag; the streamer's is inferred from it, as plans do.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.catalog.limits import fact
from glowplug.catalog.releases import newest, release_or_older, releases, version_key
from glowplug.lint import json_options
from glowplug.plan import request
from glowplug.plan.guide import CHUNK
from glowplug.plan.loaders import STREAMER, UNKNOWN, Loader
from glowplug.plan.versions import shipped_streamer

if TYPE_CHECKING:
    from glowplug.lint.json_options import Extra
    from glowplug.lint.view import Environment, JsonPart, Option, Variable, Workload
    from glowplug.manifests.source import Place
    from glowplug.manifests.values import Value
    from glowplug.plan.hosting import Streamer

SHARDED: Final = "runai_streamer_sharded"
FORMAT: Final = "load-format"
EXTRA: Final = "model-loader-extra-config"
CONCURRENCY: Final = "RUNAI_STREAMER_CONCURRENCY"
OBJECTS_CONCURRENCY: Final = "RUNAI_STREAMER_OBJ_CONCURRENCY"
MEMORY_LIMIT: Final = "RUNAI_STREAMER_MEMORY_LIMIT"
RINGS: Final = "RUNAI_STREAMER_RING_BUFFERS"
ENDPOINT: Final = "AWS_ENDPOINT_URL"
PREFIX: Final = "RUNAI_STREAMER_"
_SCHEMES: Final = ("s3", "gs", "az")
_TENSOR: Final = "tensor-parallel-size"
# No model that is worth a GPU has a largest tensor below: a limit in gigabytes where bytes are read.
_LEAST_LIMIT: Final = 1 << 20
# From these on `distributed` lets the limit count; in between it was forced to none.
_LIMIT_FORCED: Final = ("0.15.0", "0.17.0")
_OTHER_RANKS: Final = ("pipeline-parallel-size", "data-parallel-size", "nnodes")
_STREAMING_ENGINES: Final = ("vllm", "sglang")
_LONGEST_NUMBER: Final = 18


@dataclass(frozen=True, eq=False)
class Weights:
    """Where the weights are and how they are loaded. `scheme` is s3, gs, az, "" for a path or a name, None when unknown; `written`
    the scheme as it stands there. `load_format` is the one in effect, None when unknown."""

    workload: Workload
    model: Option
    scheme: str | None
    written: str
    load_format: str | None

    @property
    def environment(self) -> Environment:
        """The variables of the engine's container."""
        return self.workload.container.environment

    @property
    def at(self) -> Value | Place:
        """What a finding points at that is about something missing: the load format, else the model."""
        given = self.workload.engine.option(FORMAT)
        return given.at if given is not None else self.model.at

    @functools.cached_property
    def extra(self) -> Extra | None:
        """`--model-loader-extra-config`, None where it is not given."""
        return json_options.extra_config(self.workload.engine)

    @functools.cached_property
    def extra_known(self) -> bool:
        """Whether a key that is not in `extra` is certainly not set."""
        if self.extra is not None:
            return not self.extra.error and self.extra.option.value is not None
        return self.workload.engine.lacks(EXTRA)

    def part(self, key: str) -> JsonPart | None:
        """What stands in the extra config under a key."""
        return None if self.extra is None or self.extra.error else self.extra.parts.get(key)

    @property
    def version(self) -> str:
        """The engine's version, "" where the image's tag does not say it."""
        return self.workload.engine.version

    @functools.cached_property
    def loader(self) -> Loader:
        """The engine's loader: what it does in exactly this version (a version between two of the table is not guessed)."""
        return Loader(self.workload.engine.name, self.version or UNKNOWN)

    @property
    def newer_than_known(self) -> bool:
        """Whether the version is not known, or newer than any that was read."""
        return _is_newer(self.workload.engine.name, self.version)

    @functools.cached_property
    def streamer(self) -> Streamer | None:
        """The streamer in the image, inferred; None where the engine's version is not known, or older than any that is listed."""
        return _streamer(self.workload.engine.name, self.version)

    @functools.cached_property
    def tensor_parallel(self) -> int | None:
        """Over how many GPUs the model is split."""
        return _count(self.workload, _TENSOR)

    @functools.cached_property
    def one_rank(self) -> bool:
        """Whether there is certainly a single process that loads."""
        counts = [_count(self.workload, name) for name in (_TENSOR, *_OTHER_RANKS)]
        return all(count == 1 for count in counts)

    @property
    def ranks(self) -> int | None:
        """How many processes of the pod load the model, None where more than tensor parallelism decides it."""
        others = [_count(self.workload, name) for name in _OTHER_RANKS]
        return self.tensor_parallel if all(count == 1 for count in others) else None


@dataclass(frozen=True, eq=False)
class Stream(Weights):
    """Weights that come through the Run:ai streamer."""

    @property
    def sharded(self) -> bool:
        """Whether each rank reads a file of its own, which needs neither concurrency nor `distributed`."""
        return self.load_format == SHARDED

    @property
    def remote(self) -> bool:
        """Whether they come from an object store."""
        return bool(self.scheme)

    @functools.cached_property
    def distributed(self) -> bool | None:
        """Whether the ranks share the reading, None when unknown."""
        part = self.part("distributed")
        if part is not None:
            return part.data is True and (not self.version or self.loader.shares)
        return False if self.extra_known else None

    @functools.cached_property
    def endpoint(self) -> Variable | None:
        """The address of the object store, None for AWS's own."""
        found = self.environment.get(ENDPOINT)
        return found if found is not None and found.value != "" else None

    @property
    def on_aws(self) -> bool | None:
        """Whether it is AWS's own S3, None when unknown."""
        if self.scheme != "s3":
            return False if self.scheme is not None else None
        if self.endpoint is not None:
            return None if self.endpoint.value is None else not request.is_custom(self.endpoint.value)
        return True if self.environment.whole else None

    @functools.cached_property
    def chunk_bytes(self) -> int | None:
        """Bytes of one read from the object store, None when unknown or wrong."""
        default = int(fact("streamer.chunk_bytes").value)
        asked = self._number(CHUNK, default)
        return None if asked is None or asked < 1 else max(asked, int(fact("streamer.chunk_bytes_min").value))

    @functools.cached_property
    def concurrency(self) -> Setting | None:
        """Clients of one rank, None when unknown or wrong. What the extra config says becomes RUNAI_STREAMER_CONCURRENCY."""
        own = self.environment.get(OBJECTS_CONCURRENCY)
        if own is not None and (self.streamer is None or self.streamer.rings):
            return _setting(own)
        part = self.part("concurrency")
        if part is not None:
            return Setting(part.data, part.at, "concurrency") if _is_count(part.data) else None
        if not self.extra_known:
            return None
        variable = self.environment.get(CONCURRENCY)
        if variable is not None:
            return _setting(variable)
        if self.environment.whole:
            return Setting(int(fact("streamer.concurrency").value), None, "concurrency")
        return None

    @functools.cached_property
    def memory_limit(self) -> float | None:
        """The streamer's memory limit where something sets it: bytes, -1 for none; `unknown_limit` says whether it is known."""
        part = self.part("memory_limit")
        if part is not None:
            return float(part.data) if isinstance(part.data, int) and not isinstance(part.data, bool) else None
        text = self.environment.value(MEMORY_LIMIT)
        return _float(text)

    @property
    def limit_known(self) -> bool:
        """Whether `memory_limit` is all there is to know of it."""
        if self.part("memory_limit") is not None:
            return self.memory_limit is not None
        if not self.extra_known:
            return False
        variable = self.environment.get(MEMORY_LIMIT)
        return self.environment.whole if variable is None else self.memory_limit is not None

    def is_too_small(self, limit: int) -> bool:
        """Whether a memory limit is certainly below the model's largest tensor, which ends the load."""
        if not 0 < limit < _LEAST_LIMIT:
            return False
        if self.distributed is False:
            return True
        first, after = (version_key(one) for one in _LIMIT_FORCED)
        return self.streamer is not None and not first <= version_key(self.streamer.version) < after

    @property
    def rank_bytes(self) -> float | None:
        """What one rank reads, None when the size of the model is not known."""
        size, ranks = self.workload.weights_bytes, self.ranks
        if size is None or ranks is None or self.distributed is None:
            return None
        return size / ranks if self.distributed else float(size)

    def _number(self, name: str, default: int) -> int | None:
        variable = self.environment.get(name)
        if variable is None:
            return default if self.environment.whole else None
        return whole_number(variable.value)


@dataclass(frozen=True)
class Setting:
    """A number, where it is set (None: a default) and as what."""

    number: int
    at: Value | Place | None
    name: str


@functools.lru_cache(maxsize=4)
def weights_of(workload: Workload) -> Weights | None:
    """Where the weights of an engine are; None where the command cannot be followed or names no model."""
    engine = workload.engine
    if engine.opaque or engine.model is None:
        return None
    model = engine.model
    written = _scheme(model.value)
    scheme = None if written is None else written.lower() if written.lower() in _SCHEMES else ""
    return Weights(workload, model, scheme, written or "", _load_format(workload, scheme))


@functools.lru_cache(maxsize=4)
def stream_of(workload: Workload) -> Stream | None:
    """The weights where they certainly come through the streamer."""
    found = weights_of(workload)
    if found is None or found.load_format not in (STREAMER, SHARDED) or found.scheme is None:
        return None
    if workload.engine.name not in _STREAMING_ENGINES or lacks_streamer(found):
        return None
    return Stream(workload, found.model, found.scheme, found.written, found.load_format)


@functools.lru_cache(maxsize=1024)
def _streamer(engine: str, version: str) -> Streamer | None:
    known = release_or_older(engine, version) if version else None
    return shipped_streamer(engine, version) if known is not None else None


@functools.lru_cache(maxsize=1024)
def _is_newer(engine: str, version: str) -> bool:
    return not version or not releases(engine) or version_key(version) > version_key(newest(engine).version)


def lacks_streamer(weights: Weights) -> bool:
    """Whether this engine in this version certainly has no Run:ai loader."""
    if not weights.version and weights.workload.engine.name in _STREAMING_ENGINES:
        return False
    return not weights.loader.streams


def binary(size: int) -> str:
    """A chunk as the streamer's documentation says it: `8 MiB`, `4 GiB`; other numbers in bytes."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB")):
        if size and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size:,} bytes"


def whole_number(text: str | None) -> int | None:
    """A number as the streamer reads it: digits alone, no unit, no blank behind; None for anything else."""
    if text is None:
        return None
    digits = str(text).lstrip()
    bare = digits.removeprefix("-") if digits.startswith("-") else digits.removeprefix("+")
    if not bare.isascii() or not bare.isdigit() or len(bare) > _LONGEST_NUMBER:
        return None
    return int(digits)


def _setting(variable: Variable) -> Setting | None:
    number = whole_number(variable.value)
    return Setting(number, variable.at, variable.name) if number is not None and number > 0 else None


def _is_count(data: object) -> bool:
    return isinstance(data, int) and not isinstance(data, bool) and data > 0


def _float(text: str | None) -> float | None:
    number = whole_number(text)
    return None if number is None else float(number)


def _scheme(model: str | None) -> str | None:
    """What stands before `://`, "" without one, None when the model is not known."""
    if model is None:
        return None
    head, mark, _ = model.partition("://")
    return head if mark else ""


def _load_format(workload: Workload, scheme: str | None) -> str | None:
    """The format in effect: vLLM and SGLang take the streamer for an object's address unless told otherwise."""
    engine = workload.engine
    given = engine.option(FORMAT)
    if given is None and not engine.lacks(FORMAT):
        return None
    named = "auto" if given is None else given.value
    if named is None or named.lower() != "auto":
        return None if named is None else named.lower()
    if scheme is None:
        return None
    return STREAMER if scheme and engine.name in _STREAMING_ENGINES else "auto"


def _count(workload: Workload, name: str) -> int | None:
    """A number of ranks: 1 where the option is certainly not given, None when unknown."""
    option = workload.engine.option(name)
    if option is None:
        return 1 if workload.engine.lacks(name) else None
    text = (option.value or "").strip()
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < _LONGEST_NUMBER and int(text) else None
