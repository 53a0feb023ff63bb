"""A start, or several, as text for a terminal: one look tells where the seconds went.

Bars stand where their phase was, so the eye reads the start from left to right. Everything that colour says is also said in
words. Whether colour is printed is the writer's business (`cli/output.py` strips it where it does not belong).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.core.documents.start import Compile, PublishOutcome, RestoreOutcome
from glowplug.core.units import format_seconds, format_size
from glowplug.starts.comparison import is_starting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from glowplug.core.documents.start import Phase, Start
    from glowplug.starts.comparison import Comparison, Row


@dataclass(frozen=True)
class Glyphs:
    """What bars are drawn with: a full cell, an eighth to seven eighths of one, what joins words."""

    full: str
    parts: str
    dot: str


UNICODE: Final = Glyphs("█", "▏▎▍▌▋▊▉", "·")
ASCII: Final = Glyphs("#", "", "-")

_COLOURS: Final = {
    "node_launch": 34,
    "schedule": 35,
    "image_pull": 36,
    "init": 90,
    "restore": 36,
    "process": 90,
    "imports": 34,
    "weights": 35,
    "compile": 33,
    "graph_capture": 32,
    "warmup": 32,
    "ready": 32,
    "unattributed": 90,
}
_VERDICTS: Final = {
    Compile.HIT: (32, "compiled code came from the cache"),
    Compile.PARTIAL: (33, "part of it was compiled again"),
    Compile.MISS: (31, "compiled from scratch"),
    Compile.REJECTED: (31, "found, loaded and thrown away"),
    Compile.DISABLED: (33, "nothing is compiled or cached"),
    Compile.UNKNOWN: (33, "no proof of either"),
}
_SINCE: Final = {"log": " (since the first line of the log)"}
_BAR_WIDTH: Final = 48
_REASON: Final = 160
_WAITING: Final = 400
"""A scheduler's sentence has a clause for each reason, and each may be the one that matters."""
_VISIBLE: Final = 0.05
"""Seconds of difference from which one decimal shows something."""


def start_text(start: Start, *, name: str = "", glyphs: Glyphs = UNICODE) -> str:
    """One start: what it was, the verdict with its reason, the key figures, a bar for each phase."""
    lines = [_style(f" {glyphs.dot} ".join(_title(start, name)), 1)]
    lines.append(_verdict(start))
    figures = f"  {glyphs.dot}  ".join(_figures(start))
    lines += [figures] if figures else []
    lines += _around(start)
    lines += _bars(start, glyphs)
    return "\n".join(lines)


def comparison_text(
    starts: Sequence[Start], comparison: Comparison, names: Sequence[str], *, glyphs: Glyphs = UNICODE
) -> str:
    """A column for each start, a row for each phase, differences to the first in brackets, and what explains most of them."""
    shown = [
        _clean(name) or _clean(start.id) or str(place)
        for place, (name, start) in enumerate(zip(names, starts, strict=True), 1)
    ]
    rows = [["", *[_shorten(name, 26) for name in shown]]]
    running = [is_starting(start) for start in starts]
    verdicts = zip(comparison.verdicts, running, strict=True)
    rows += [["verdict", *("still starting" if yet and word == "unknown" else word for word, yet in verdicts)]]
    rows += [_cells(row) for row in comparison.rows]
    for label, row in (("engine init", comparison.engine_init), ("until ready", comparison.ready)):
        if any(value is not None for value in row.seconds):
            cells = zip(_cells(row)[1:], running, strict=True)
            rows.append([label, *("still starting" if yet and cell == "?" else cell for cell, yet in cells)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *[cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]]
        ).rstrip()
        for row in rows
    ]
    lines[0] = _style(lines[0], 1)
    if comparison.explains:
        what = comparison.explains
        direction = "slower" if what.seconds > 0 else "faster"
        other = next((name for name, start in zip(shown, starts, strict=True) if start.id == what.start), "another")
        lines.append("")
        lines.append(
            f"{other} is {direction}: {_words(what.phase)} explains {what.share:.0%} of it "
            f"({abs(what.seconds):.1f} s {glyphs.dot} baseline {shown[0]})"
        )
    return "\n".join(lines)


def _cells(row: Row) -> list[str]:
    cells = [_words(row.phase)]
    for place, (seconds, difference) in enumerate(zip(row.seconds, row.difference_seconds, strict=True)):
        if seconds is None:
            cells.append("?")
        elif place == 0 or difference is None or abs(difference) < _VISIBLE:
            cells.append(f"{seconds:.1f} s")
        else:
            cells.append(f"{seconds:.1f} s ({difference:+.1f})")
    return cells


def _title(start: Start, name: str) -> Iterable[str]:
    engine = _clean(str(start.workload.get("engine") or "engine"))
    version = _clean(str(start.workload.get("engine_version") or ""))
    yield f"{engine} {version}".strip()
    if start.workload.get("model"):
        yield _shorten(_clean(str(start.workload["model"])), 60)
    layout = start.workload.get("layout")
    if isinstance(layout, dict):
        sizes = [f"{key} {value}" for key, value in layout.items() if value not in (1, None)]
        yield from [_clean(", ".join(sizes))] if sizes else []
    if name:
        yield _shorten(_clean(name), 50)
    count = start.workload.get("starts_in_log")
    if isinstance(count, int) and count > 1:
        yield f"the last of {count} starts in this log"
    if start.exit_status:
        yield f"exit status {start.exit_status}"


def _verdict(start: Start) -> str:
    colour, meaning = _VERDICTS[start.verdict.compile]
    reason = _shorten(_clean(start.verdict.reason), _REASON)
    seconds = start.verdict.compile_seconds
    doing = "loaded in {}" if _loaded(start) else "{} of compilation"
    took = "" if seconds is None else f", {doing.format(format_seconds(seconds))}"
    return f"compile {_style(start.verdict.compile.value.upper(), 1, colour)}: {reason or meaning}{took}"


def _loaded(start: Start) -> bool:
    """Whether the seconds that the engine counts as compilation were nothing but the loading of what had been compiled."""
    return start.verdict.compile is Compile.HIT and not start.verdict.reason


def _figures(start: Start) -> Iterable[str]:
    if start.ready_seconds is not None:
        since = _SINCE.get(start.source, "") if start.kubernetes is None else _since_of_pod(start.kubernetes)
        yield f"ready after {_style(format_seconds(start.ready_seconds), 1)}{since}"
    else:
        yield "still starting" if is_starting(start) else "not seen ready"
    waiting = start.kubernetes.get("waiting") if start.kubernetes else None
    if waiting:
        yield f"waiting: {_cut(_clean(str(waiting)), _WAITING)}"
    if start.engine_init_seconds is not None:
        yield f"engine init {format_seconds(start.engine_init_seconds)}"
    loaded = weights_words(start)
    if loaded:
        yield loaded


def _since_of_pod(kubernetes: Mapping[str, object]) -> str:
    if kubernetes.get("run") == 1:
        return " (since the pod was created)"
    return " (since the container was restarted)" if "run" in kubernetes else ""


def weights_words(start: Start) -> str:
    """`weights 64.0 GB in 12.0 s (5.33 GB/s)`, as much of it as is known, "" where nothing is."""
    size, seconds = start.weights.bytes, start.weights.seconds
    if size is not None and seconds is not None and seconds > 0:
        return f"weights {format_size(size)} in {format_seconds(seconds)} ({size / seconds / 1e9:.2f} GB/s)"
    if seconds is not None:
        return f"weights in {format_seconds(seconds)}"
    return f"weights {format_size(size)}" if size is not None else ""


def _around(start: Start) -> Iterable[str]:
    """What glowplug did before and after, where it did or tried something."""
    restore, publish = start.restore, start.publish
    if restore.outcome is RestoreOutcome.RESTORED:
        source = f" from {_clean(restore.source)}" if restore.source else ""
        yield f"restore: {format_size(restore.bytes)} in {format_seconds(restore.seconds)}{source}"
    elif restore.reason:
        yield f"restore: {restore.outcome.value} ({_clean(restore.reason)})"
    if publish is not None:
        why = f" ({_clean(publish.reason)})" if publish.reason else ""
        size = f", {format_size(publish.bytes)}" if publish.outcome is PublishOutcome.PUBLISHED else ""
        yield f"publish: {publish.outcome.value}{size}{why}"


def _bars(start: Start, glyphs: Glyphs) -> Iterable[str]:
    end = max((phase.start_seconds + phase.seconds for phase in start.phases), default=0.0)
    if end <= 0:
        return
    yield ""
    for phase in start.phases:
        bar = _bar(phase, end, glyphs)
        share = max(0.0, phase.seconds) / end
        words = "load compiled" if phase.name == "compile" and _loaded(start) else _words(phase.name)
        label = f"  {words:<14}{phase.seconds:>8.1f} s {share:>5.0%}  "
        yield f"{label}{_style(bar, _COLOURS.get(phase.name, 37))}{_speed(phase)}"


def _speed(phase: Phase) -> str:
    if phase.bytes is None or phase.seconds <= 0:
        return ""
    return f" {format_size(phase.bytes)}"


def _bar(phase: Phase, end: float, glyphs: Glyphs) -> str:
    """A bar that begins where the phase began; something is always seen, however short it was."""
    first = min(max(phase.start_seconds / end, 0.0), 1.0) * _BAR_WIDTH
    cells = min(max(phase.seconds / end, 0.0), 1.0) * _BAR_WIDTH
    indent = min(int(first), _BAR_WIDTH - 1)
    steps = len(glyphs.parts) + 1
    whole, rest = divmod(round(cells * steps), steps)
    drawn = glyphs.full * whole + (glyphs.parts[rest - 1] if rest else "")
    return " " * indent + (drawn or glyphs.parts[:1] or glyphs.full)


def _words(phase: str) -> str:
    return _clean(phase).replace("_", " ")


def _clean(text: str) -> str:
    """One line without control characters: documents and logs come from anywhere, terminals obey escapes."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def _shorten(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length // 2 - 1]}…{text[-(length - length // 2) :]}"


def _cut(text: str, length: int) -> str:
    """What comes first matters most."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _style(text: str, *codes: int) -> str:
    return f"\x1b[{';'.join(str(code) for code in codes)}m{text}\x1b[0m"
