"""The contract between glowplug and an engine.

An adapter is pure: it reads command lines, environments, file names and log lines, and returns data. It starts
nothing and touches no file. Everything an engine does differently is behind it, so the rest of glowplug never asks
"is it vLLM?".

How to add one: a folder beside `vllm/`, a class with these members, a row in `registry.py`, a folder of fixtures in
`tests/engines/<name>/`. CONTRIBUTING.md walks through it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Optional, Protocol

if TYPE_CHECKING:
    from glowplug.core.documents.fingerprint import Layout
    from glowplug.tree.model import Index

ReadText = Callable[[str], str]
"""The text of the file at a path as the engine would open it. Raises OSError or ValueError."""


@dataclass(frozen=True)
class Invocation:
    """The program a command line ends in, seen through `sh -c`, `exec`, `env A=b`, `tini --` and the like.

    `argv[0]` is the interpreter or console script; `environ` has the assignments of the command line added. `opaque`
    says why the command could not be seen through (a shell script with logic, say); then argv is the outer one.
    """

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    opaque: str = ""


@dataclass(frozen=True)
class Launch:
    """What an adapter reads from an invocation, before anything is started.

    `args`/`env`: the allow-listed names of the key with normalised values. `other_args`/`other_env`: recorded beside
    the key. `local_ranks`: how many ranks write artifacts on this machine, None where that cannot be known (several
    nodes). `disabled`: why nothing will be compiled or cached ("" when compilation is on). `ready_url`: where
    readiness shows, if anywhere. `advice`: things that cost the hit or are wrong, one sentence each.
    """

    engine: str
    model: str
    layout: Layout
    args: Mapping[str, str]
    env: Mapping[str, str]
    other_args: Mapping[str, str] = field(default_factory=dict)
    other_env: Mapping[str, str] = field(default_factory=dict)
    local_ranks: Optional[int] = 1
    disabled: str = ""
    ready_url: Optional[str] = None
    advice: tuple[str, ...] = ()


@dataclass(frozen=True)
class Placement:
    """Where the engine is told to keep its caches.

    `variables` are to be set (never one that the user has set); `kept` are the user's own, and `costs` says for each
    of those that lead out of the cache root what that costs. `escapes` are directories outside the cache root where
    this engine nevertheless leaves compile output (watched, and reported when something appears there).
    """

    variables: Mapping[str, str]
    kept: Mapping[str, str] = field(default_factory=dict)
    costs: tuple[str, ...] = ()
    escapes: tuple[str, ...] = ()


class Reach(enum.Enum):
    """How far a file of the cache root may travel."""

    PORTABLE = "portable"
    NODE_LOCAL = "node-local"
    NEVER = "never"


@dataclass(frozen=True)
class Entry:
    """One compiled unit in the engine's own cache.

    `index_files`: the files whose presence and digest are the entry (an AOT `model`, a `vllm_compile_cache.py`).
    `files`: all files of the entry, index files included. `incomplete`: why it must not be published ("" when it
    may).
    """

    name: str
    index_files: tuple[str, ...]
    files: tuple[str, ...]
    incomplete: str = ""


@dataclass(frozen=True)
class Trace:
    """What the engine itself said about a start, collected from its log lines by a `LogReader`.

    Seconds are the engine's own. `loaded`/`compiled`/`saved`: cache paths or range names named in hit, miss and save
    lines; `rejections`: the engine's reasons for throwing a found entry away. `marks`: (phase, seconds since the
    first line, duration) for what can be dated from log lines. `lines`: the telling lines themselves, shortened, as
    evidence.
    """

    loaded: tuple[str, ...] = ()
    compiled: tuple[str, ...] = ()
    saved: tuple[str, ...] = ()
    rejections: tuple[str, ...] = ()
    disabled: str = ""
    compile_seconds: Optional[float] = None
    weights_bytes: Optional[int] = None
    weights_seconds: Optional[float] = None
    graph_capture_seconds: Optional[float] = None
    warmup_seconds: Optional[float] = None
    engine_init_seconds: Optional[float] = None
    model_load_seconds: Optional[float] = None
    engine_version: str = ""
    started: bool = False
    marks: tuple[tuple[str, float, float], ...] = ()
    lines: tuple[str, ...] = ()


class LogReader(Protocol):
    """Fed every line of the engine's output, as bytes decoded with replacement; cheap on lines that say nothing."""

    def feed(self, line: str, at: float) -> None:
        """One line, without its newline, that arrived `at` seconds after the process was started."""
        ...

    def trace(self) -> Trace:
        """What was learnt up to now."""
        ...


class Adapter(Protocol):
    """What an engine is to glowplug."""

    name: str
    distributions: Sequence[str]
    """Names of the Python distributions whose version is the engine's version, the first found wins."""

    def read(self, invocation: Invocation, read_text: ReadText) -> Optional[Launch]:
        """What this invocation starts, None when it is not this engine.

        `read_text` reads a configuration file that the command line names. Raises UsageError for what the engine
        would refuse.
        """
        ...

    def place(
        self, cache_root: str, launch: Launch, environ: Mapping[str, str], *, engine_version: str, gpu: bool
    ) -> Placement:
        """Variables that keep every artifact below `cache_root` (subtrees `vllm/ inductor/ triton/ flashinfer/
        deep_gemm/ nv/`).
        """
        ...

    def reach(self, path: str) -> Reach:
        """How far the file at this path (relative to the cache root) may travel. Unlisted is NEVER."""
        ...

    def is_temporary(self, path: str) -> bool:
        """Whether this is a temporary file or lock that an interrupted writer left."""
        ...

    def entries(self, index: Index, launch: Launch) -> tuple[Entry, ...]:
        """The entries in a tree, complete or not, the one that decides a start's hit first."""
        ...

    def redact(self, path: str, data: bytes) -> bytes:
        """The bytes of an engine metadata file with credential-like values replaced; the same bytes for any other
        file.
        """
        ...

    def log_reader(self) -> LogReader:
        """A reader for the log of one start."""
        ...
