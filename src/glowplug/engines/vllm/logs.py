"""What vLLM says about a start, from its log lines.

One row below is one kind of line in all versions' wordings (0.10 to 0.33; `tests/engines/vllm/logs/` has them with
their source). A line may carry colours, a process prefix `(Worker_TP0 pid=…)`, a tag `[backbone] ` after the source
position, and debug level. Ranks report side by side: seconds of different ranks overlap, so the slowest rank counts;
bytes of different ranks add up.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from glowplug.engines.adapter import Trace
from glowplug.engines.lines import plain

_N: Final = r"(\d{1,9}(?:\.\d{1,9})?)"
_SHORT: Final = 300
_MOST: Final = 40
_BEFORE: Final = 0.001
_UNITS: Final = {"byte": 1, "bytes": 1, **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgt", start=1)}}
# Behind whatever a collector (kubectl, journald) put before it.
_RANK: Final = re.compile(r"[^(]{0,120}\(([A-Za-z][^()]{0,60}? pid=\d{1,10})\)\s")
_HEAD: Final = re.compile(
    r".{0,120}?\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\s+\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})?\s+\[[^\]]{1,200}:\d+\]\s"
)

# The command line as vLLM repeats it: it may hold anything, an API key too.
_ECHO: Final = "non-default args"

# Literal words of the lines below: a line without any of them says nothing and costs one search.
_TELLING: Final = re.compile(
    r"irectly load|Cache the graph|Compiling a graph|Store the|AOT compiled function|aot compilation from|load failure from"
    r"|compile cache is disabled|torch\.compile|init engine|weights took|loading took|RunAI Streamer\] Overall|Graph capturing"
    r"|warmup run took|version |LLM engine \(v|startup complete|Starting to load model|Loading safetensors"
)


@dataclass
class _Rank:
    """What one process said."""

    totals: list[float] = field(default_factory=list)
    weights: float = 0.0
    load: float = 0.0
    graphs: float = 0.0
    warmup: float = 0.0
    memory: int = 0
    streamed: int = 0
    stream_seconds: float = 0.0
    bar: tuple[float, float] | None = None


@dataclass
class _Said:
    """What was learnt from the log up to now."""

    loaded: list[str] = field(default_factory=list)
    compiled: list[str] = field(default_factory=list)
    saved: list[str] = field(default_factory=list)
    rejections: list[str] = field(default_factory=list)
    disabled: str = ""
    compile_seconds: float | None = None
    init_seconds: float | None = None
    version: str = ""
    started: bool = False
    first: float | None = None
    imported: float | None = None
    loading: bool = False
    initialised: float | None = None
    ranks: dict[str, _Rank] = field(default_factory=lambda: defaultdict(_Rank))
    marks: dict[str, tuple[float, float]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def mark(self, phase: str, end: float, seconds: float) -> None:
        """The longest of the ranks stands for a phase."""
        if phase not in self.marks or seconds > self.marks[phase][1]:
            self.marks[phase] = (max(0.0, end - seconds), seconds)


_Handler = Callable[["_Said", _Rank, "re.Match[str]", float], None]


def _add(target: str) -> _Handler:
    def handle(said: _Said, _: _Rank, match: re.Match[str], __: float) -> None:
        values: list[str] = getattr(said, target)
        value = match.group(1).strip()[:1024]
        if value and value not in values:
            values.append(value)

    return handle


def _rejected(said: _Said, _: _Rank, match: re.Match[str], __: float) -> None:
    reason = f"{match.group(2).strip() or 'no reason given'} ({match.group(1)})"[:1024]
    if reason not in said.rejections:
        said.rejections.append(reason)


def _disabled(said: _Said, _: _Rank, match: re.Match[str], __: float) -> None:
    said.disabled = said.disabled or match.group().strip()


def _total(said: _Said, rank: _Rank, match: re.Match[str], at: float) -> None:
    seconds = float(match.group(1))
    rank.totals.append(seconds)
    said.mark("compile", at, seconds)


def _init(said: _Said, _: _Rank, match: re.Match[str], at: float) -> None:
    """The engine's initialisation as a whole; compilation and graph capture lie inside and are dated by their own lines."""
    said.init_seconds = max(said.init_seconds or 0.0, float(match.group(1)))
    said.initialised = at
    said.mark("warmup", at, float(match.group(1)))
    if match.group(2):
        said.compile_seconds = max(said.compile_seconds or 0.0, float(match.group(2)))


def _weights(said: _Said, rank: _Rank, match: re.Match[str], at: float) -> None:
    rank.weights += float(match.group(1))
    said.mark("weights", at, float(match.group(1)))


def _model(said: _Said, rank: _Rank, match: re.Match[str], at: float) -> None:
    rank.memory += round(float(match.group(1)) * 2**30)
    rank.load += float(match.group(2))
    if "weights" not in said.marks:
        said.mark("weights", at, float(match.group(2)))


def _streamed(said: _Said, rank: _Rank, match: re.Match[str], at: float) -> None:
    unit = _UNITS.get(match.group(2).lower())
    if unit is None:
        return
    rank.streamed += round(float(match.group(1)) * unit)
    rank.stream_seconds += float(match.group(3))
    said.mark("weights", at, float(match.group(3)))


def _graphs(said: _Said, rank: _Rank, match: re.Match[str], at: float) -> None:
    rank.graphs += float(match.group(1))
    said.mark("graph_capture", at, float(match.group(1)))


def _warmup(said: _Said, rank: _Rank, match: re.Match[str], at: float) -> None:
    rank.warmup += float(match.group(1))
    said.mark("warmup", at, float(match.group(1)))


def _version(said: _Said, _: _Rank, match: re.Match[str], __: float) -> None:
    said.version = said.version or match.group(1)


def _engine(said: _Said, _: _Rank, match: re.Match[str], at: float) -> None:
    said.version = said.version or match.group(1)
    if said.imported is None:
        said.imported = at


def _loading(said: _Said, _: _Rank, __: re.Match[str], at: float) -> None:
    """Workers import and initialise between the engine's first line and this one."""
    if not said.loading:
        said.loading, said.imported = True, at


def _started(said: _Said, _: _Rank, __: re.Match[str], at: float) -> None:
    if not said.started and said.initialised is not None:
        said.mark("ready", at, at - said.initialised)
    said.started = True


def _bar(_: _Said, rank: _Rank, match: re.Match[str], at: float) -> None:
    """A loader's progress bar; its own clock is whole seconds, the arrival of its lines may be finer."""
    shown = int(match.group(2)) * 60 + int(match.group(3))
    begun = rank.bar[0] if rank.bar else at - shown
    rank.bar = (min(begun, at - shown), at)


@dataclass(frozen=True)
class _Row:
    """A line of the log, by what it looks like, and what it tells."""

    pattern: re.Pattern[str]
    handle: _Handler
    evidence: bool = False


_ROWS: Final = (
    # AOT, 0.14 and later
    _Row(re.compile(r"[Dd]irectly load AOT compilation from path (\S+)"), _add("loaded"), evidence=True),
    # 0.10: "for dynamic shape from the cache", "for shape 4"; 0.14 and later: "for compile range (1, 4096)"
    _Row(
        re.compile(rf"[Dd]irectly load the compiled graph\(s\) for (.{{1,200}}?) from the cache, took {_N}"),
        _add("loaded"),
        evidence=True,
    ),
    # debug level: one line a graph
    _Row(re.compile(r"[Dd]irectly load the \d+-th graph for (.{1,200}?)\s*from \S+ via handle"), _add("loaded")),
    _Row(re.compile(r"Cache the graph (?:for|of) (.{1,200}?) for later use"), _add("compiled"), evidence=True),
    _Row(re.compile(rf"Compiling a graph for (.{{1,200}}?) takes {_N} s"), _add("compiled"), evidence=True),
    _Row(re.compile(r"Store the \d+-th graph for (.{1,200}?)\s*from \S+ via handle"), _add("compiled")),
    _Row(re.compile(r"(?<!unable to )save[d]? AOT compiled function to (\S+)"), _add("saved"), evidence=True),
    _Row(re.compile(r"unable to save AOT compiled function to (\S+)"), lambda *_: None, evidence=True),
    # 0.14 and 0.16, then 0.21 and later
    _Row(re.compile(r"Cannot load aot compilation from path (\S+?),? error:(.*)"), _rejected, evidence=True),
    _Row(
        re.compile(r"Compiling model again due to a load failure from (\S+?),? reason:(.*)"), _rejected, evidence=True
    ),
    _Row(re.compile(r"vLLM's torch\.compile cache is disabled\.?"), _disabled, evidence=True),
    _Row(re.compile(r"Enforce eager set, disabling torch\.compile"), _disabled, evidence=True),
    _Row(re.compile(r"TORCH_COMPILE_DISABLE is set, disabling torch\.compile"), _disabled, evidence=True),
    # 0.10 "takes", later "took"; also on hits
    _Row(re.compile(rf"torch\.compile (?:takes|took) {_N} s in total"), _total, evidence=True),
    _Row(
        re.compile(rf"torch\.compile and initial profiling/warmup run together took {_N} s in total"),
        _total,
        evidence=True,
    ),
    _Row(re.compile(rf"init engine \([^)]*\) took {_N} s(?:econds)?(?: \(compilation: {_N} s)?"), _init, evidence=True),
    _Row(re.compile(rf"Loading weights took {_N} seconds"), _weights, evidence=True),
    _Row(re.compile(rf"Model loading took {_N}(?: Gi?B)?(?: memory)? and {_N} s"), _model, evidence=True),
    _Row(
        re.compile(rf"\[RunAI Streamer\] Overall time to stream {_N} (\w{{1,8}})(?: of all files)?(?: to \S+)?: {_N}s"),
        _streamed,
        evidence=True,
    ),
    _Row(re.compile(rf"(?<!Encoder )Graph capturing finished in {_N} sec"), _graphs, evidence=True),
    _Row(re.compile(rf"Initial profiling/warmup run took {_N} s"), _warmup, evidence=True),
    _Row(re.compile(r"Initializing a V\d LLM engine \(v(\d[\w.+!-]{0,60})\)"), _engine),
    _Row(re.compile(r"vLLM API server version v?(\d[\w.+!-]{0,60})"), _version),
    _Row(re.compile(r"█\s+version v?(\d[\w.+!-]{0,60})"), _version),
    _Row(re.compile(r"Starting to load model"), _loading),
    _Row(re.compile(r"Application startup complete"), _started),
    _Row(re.compile(r"Loading safetensors[^%\[]{0,80}?\b(\d{1,3})%[^\[]{0,60}\[(\d{1,4}):(\d\d)<"), _bar),
)


class VllmLog:
    """Reads one start's log. Feed it every line; most cost one regular expression."""

    def __init__(self) -> None:
        self._said = _Said()

    def feed(self, line: str, at: float) -> None:
        """One line that arrived `at` seconds after the process was started."""
        if self._said.first is None:
            self._said.first = at
        if not _TELLING.search(line):
            return
        for text in plain(line):
            self._read(text, at)

    def _read(self, text: str, at: float) -> None:
        rank = _RANK.match(text)
        head = _HEAD.match(text)
        message = text[head.end() :] if head else text
        if message.lstrip().startswith(_ECHO):
            return
        speaker = self._said.ranks[rank.group(1) if rank else ""]
        for row in _ROWS:
            match = row.pattern.search(message)
            if match is None:
                continue
            row.handle(self._said, speaker, match, at)
            if row.evidence and len(self._said.lines) < _MOST:
                shown = message.strip()[:_SHORT]
                if shown not in self._said.lines:
                    self._said.lines.append(shown)
            return

    def trace(self) -> Trace:
        """What was learnt up to now."""
        said = self._said
        ranks = said.ranks.values()
        streamed = sum(rank.streamed for rank in ranks)
        memory = sum(rank.memory for rank in ranks)
        compile_seconds = said.compile_seconds
        if compile_seconds is None:
            compile_seconds = _slowest(sum(rank.totals) for rank in ranks if rank.totals)
        bars = [rank.bar[1] - rank.bar[0] for rank in ranks if rank.bar]
        seconds = _slowest(rank.stream_seconds for rank in ranks if rank.streamed)
        if seconds is None:
            seconds = _slowest(rank.weights for rank in ranks if rank.weights)
        return Trace(
            loaded=tuple(said.loaded),
            compiled=tuple(said.compiled),
            saved=tuple(said.saved),
            rejections=tuple(said.rejections),
            disabled=said.disabled,
            compile_seconds=compile_seconds,
            weights_bytes=streamed or memory or None,
            weights_seconds=seconds if seconds is not None else _slowest(bars),
            graph_capture_seconds=_slowest(rank.graphs for rank in ranks if rank.graphs),
            warmup_seconds=_slowest(rank.warmup for rank in ranks if rank.warmup),
            engine_init_seconds=said.init_seconds,
            model_load_seconds=_slowest(rank.load for rank in ranks if rank.load),
            engine_version=said.version,
            started=said.started,
            marks=_marks(said),
            lines=tuple(said.lines),
        )


def _slowest(seconds: object) -> float | None:
    return max(seconds, default=None)  # type: ignore[call-overload, no-any-return]


def _marks(said: _Said) -> tuple[tuple[str, float, float], ...]:
    """(phase, start, duration), seconds since the process was started, in the order of their start."""
    marks = dict(said.marks)
    inside = [marks[phase][0] for phase in ("compile", "graph_capture") if phase in marks]
    if "warmup" in marks and inside:
        # Stamps of whole seconds can make the whole seem to begin after its parts.
        start, seconds = marks["warmup"]
        begin = max(0.0, min(start, *inside) - _BEFORE)
        marks["warmup"] = (begin, start + seconds - begin)
    found = [(phase, start, seconds) for phase, (start, seconds) in marks.items()]
    bars = [rank.bar for rank in said.ranks.values() if rank.bar]
    if "weights" not in marks and bars:
        start, end = min(bar[0] for bar in bars), max(bar[1] for bar in bars)
        found.append(("weights", max(0.0, start), end - start))
    if said.imported:
        found.append(("imports", 0.0, said.imported))
    return tuple(sorted(found, key=lambda mark: (mark[1], mark[0])))
