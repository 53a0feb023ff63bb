"""The log of an engine, read afterwards, as a start.

A log knows less than somebody who watched: nothing of the files in the cache, nothing of a restore. So its verdict rests on
the engine's own lines alone and is `unknown` where there are none ("Using cache directory" is printed on hits and misses
alike). A container's log may hold several starts; the last one is reported, since that is the one people ask about.

Whatever the bytes are, the answer is a start: logs come torn, interleaved, with binary rubbish in them, and may be very large.
They are read once, in pieces, and only what the adapters' readers keep stays in memory.
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from glowplug.core import clock, redact
from glowplug.core.documents.fingerprint import Fact
from glowplug.core.documents.start import Compile, Start, Verdict, Weights
from glowplug.observe.timeline import timeline
from glowplug.starts.moments import MomentReader
from glowplug.starts.recognition import SIGNATURES, Signature

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from glowplug.engines.adapter import LogReader, Trace

UNRECOGNISED: Final = "no line of an engine that glowplug knows"
_PIECE: Final = 1 << 20
_LONGEST_LINE: Final = 1 << 16
_SLOW_LOAD: Final = 10.0
"""Compile seconds from which a log's "hit" is worth a second look; true hits measured on vLLM 0.32 took 0.4 to 7 s."""
_EVIDENCE: Final = 12
_LAYOUT: Final = ("tp", "pp", "dp")


class Bytes(Protocol):
    """What is read: a file opened in binary mode, a pipe."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes, none at the end."""
        ...


def lines(stream: Bytes) -> Iterator[str]:
    """Lines of a stream of any bytes, cut at 64 KiB; the carriage returns of progress bars end a line too."""
    rest = b""
    while piece := stream.read(_PIECE):
        *whole, rest = (rest + piece).replace(b"\r", b"\n").split(b"\n")
        for line in whole:
            if line:
                yield line[:_LONGEST_LINE].decode("utf-8", "replace")
        rest = rest[:_LONGEST_LINE]
    if rest:
        yield rest.decode("utf-8", "replace")


def from_log(
    log: Iterable[str],
    *,
    name: str,
    now: float,
    readers: Mapping[str, Callable[[], LogReader]],
    engine: str | None = None,
) -> Start:
    """The last start in a log, as `glowplug.start/1` with source `log`.

    `readers` makes a log reader for each engine by name (`log_readers()` of the command line); `engine` names the engine
    where its lines do not show it. `now` is in seconds since the epoch: the year of stamps that have none. Where no engine is
    recognised the verdict is `unknown` with the reason `UNRECOGNISED`. Never raises for what is in the log.
    """
    signatures = [item for item in SIGNATURES if item.engine in readers and engine in {None, item.engine}]
    known = {item.engine for item in signatures}
    plain = [item for item in readers if item not in known and engine == item]
    watches = [_Watch(readers[item.engine], item) for item in signatures]
    watches += [_Watch(readers[item], _silent(item)) for item in plain]
    stamps = MomentReader(now)
    for line in log:
        dated = stamps.read(line)
        for watch in watches:
            watch.feed(dated.text, dated.moment)
    best = max(watches, key=lambda watch: (watch.recognised, bool(watch.reader.trace().lines)), default=None)
    return _start(best, name, given=engine)


def _silent(engine: str) -> Signature:
    """For an engine whose log has no marks of its own: the whole log is one start."""
    never = re.compile(r"(?!)")
    return Signature(engine, never, never, never, never, never, never, never, ())


@dataclass
class _Watch:
    """One engine's view of a log: the start that is being read, and how many there were."""

    make: Callable[[], LogReader]
    signature: Signature
    reader: LogReader = field(init=False)
    recognised: int = 0
    starts: int = 0
    origin: float | None = None
    last: float | None = None
    ready: float | None = None
    serving: bool = False
    over: bool = False
    dated: int = 0
    facts: dict[str, str] = field(default_factory=dict)
    digest: Any = field(default_factory=hashlib.sha256)
    preamble: deque[tuple[str, float]] = field(default_factory=lambda: deque(maxlen=64))

    def __post_init__(self) -> None:
        self.reader = self.make()

    def feed(self, text: str, moment: float | None) -> None:
        own = bool(self.signature.line.match(text))
        telling = bool(self.signature.telling.search(text))
        self.recognised += own
        if telling and self._begins(text):
            self._begin()
        self._date(text, moment, own=own)
        if telling:
            self._note(text)
        if not self.serving:
            self.digest.update(text.encode("utf-8", "replace") + b"\n")
        self.reader.feed(text, self._at())

    def _note(self, text: str) -> None:
        for fact in self.signature.facts:
            found = fact.match(text)
            if found:
                self.facts |= {name: word for name, word in found.groupdict().items() if name not in self.facts}
        self.over = self.over or bool(self.signature.done.match(text))
        if not self.serving and self.signature.ready.match(text):
            self.serving = self.over = True
            self.recognised += 1
            self.ready = self._at() if self.dated else None

    def _begins(self, text: str) -> bool:
        if self.signature.banner.match(text):
            return True
        return bool(self.signature.again.match(text)) and (self.over or not self.starts)

    def _begin(self) -> None:
        """Forget what came before; what was dated directly before the banner already belongs to the new start."""
        first = not self.starts
        self.starts += 1
        early = list(self.preamble)
        self.preamble.clear()
        self.ready, self.serving, self.over = None, False, False
        if first:
            return
        self.reader, self.digest, self.facts = self.make(), hashlib.sha256(), {}
        self.origin, self.last, self.dated = None, None, 0
        for line, moment in early:
            self._date(line, moment, own=False)
            self.reader.feed(line, self._at())

    def _date(self, text: str, moment: float | None, *, own: bool) -> None:
        if moment is None:
            return
        self.origin = moment if self.origin is None else self.origin
        self.last = moment
        self.dated += 1
        if self.signature.preamble.match(text):
            self.preamble.append((text, moment))
        elif own:
            self.preamble.clear()

    def _at(self) -> float:
        """Seconds since the first dated line; a line without a stamp was written when the one before it was."""
        if self.origin is None or self.last is None:
            return 0.0
        return max(0.0, self.last - self.origin)


def _start(watch: _Watch | None, name: str, *, given: str | None) -> Start:
    if watch is None or not (watch.recognised or given or watch.reader.trace().lines):
        return Start(
            id=f"log-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:12]}",
            source="log",
            started_at="",
            workload={"log": name},
            verdict=Verdict(Compile.UNKNOWN, None, UNRECOGNISED),
        )
    trace = watch.reader.trace()
    facts = {"engine": watch.signature.engine, **{key: text for key, text in watch.facts.items() if text}}
    if trace.engine_version:
        facts["engine_version"] = trace.engine_version
    if "model" in facts:
        facts["model"] = redact.value("model", facts["model"])
    phases = timeline(
        trace,
        restore_seconds=None,
        process_seconds=0.0 if watch.dated else None,
        ready_seconds=watch.ready,
        source="log",
    )
    return Start(
        id=f"log-{watch.digest.hexdigest()[:12]}",
        source="log",
        started_at=_iso(watch.origin),
        workload={**_workload(facts), "log": name, "starts_in_log": max(1, watch.starts)},
        fingerprint={key: Fact(int(text) if key in _LAYOUT else text, "observed:log") for key, text in facts.items()},
        verdict=verdict(trace),
        phases=phases if watch.dated else (),
        # 0 s is what a progress bar says that ended within the second in which it began: not known, rather than no time.
        weights=Weights(trace.weights_bytes, trace.weights_seconds or None),
        engine_init_seconds=trace.engine_init_seconds,
        ready_seconds=watch.ready,
    )


def _workload(facts: Mapping[str, str]) -> dict[str, object]:
    layout = {name: int(facts[name]) for name in _LAYOUT if name in facts}
    shown: dict[str, object] = {key: text for key, text in facts.items() if key not in layout}
    return {**shown, "layout": layout} if layout else shown


def _iso(moment: float | None) -> str:
    """RFC 3339, empty where no line has a stamp: a made-up moment would be taken for a real one."""
    try:
        return "" if moment is None else clock.iso(moment)
    except (ValueError, OverflowError, OSError):
        return ""


def verdict(trace: Trace) -> Verdict:
    """What the engine's own lines prove about compilation, without any knowledge of the files."""
    seconds, evidence = trace.compile_seconds, trace.lines[:_EVIDENCE]
    if trace.disabled:
        return Verdict(Compile.DISABLED, seconds, trace.disabled, evidence)
    if trace.rejections:
        return Verdict(Compile.REJECTED, seconds, trace.rejections[0], evidence)
    fresh = trace.compiled or trace.saved
    if trace.loaded and trace.compiled:
        reason = f"loaded {len(trace.loaded)}, compiled {len(trace.compiled)} anew: {trace.compiled[0]}"
        return Verdict(Compile.PARTIAL, seconds, reason, evidence)
    if fresh and not trace.loaded:
        return Verdict(Compile.MISS, seconds, f"compiled: {fresh[0]}", evidence)
    if trace.loaded:
        slow = seconds is not None and seconds >= _SLOW_LOAD
        reason = f"loaded, yet {seconds:.0f} s of compilation: its support files may be missing" if slow else ""
        return Verdict(Compile.HIT, seconds, reason, evidence)
    return Verdict(Compile.UNKNOWN, seconds, "the log has neither a line of a hit nor one of a miss", evidence)
