"""Documents as what the page shows of them: every number already a word, every choice already made.

Templates then hold no logic, and what a page says can be tested without HTML.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - the codec evaluates annotations
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Optional

from glowplug.core.documents import codec
from glowplug.core.documents.start import PHASES, RestoreOutcome, Start
from glowplug.core.errors import BadInputError
from glowplug.core.units import format_seconds, format_size
from glowplug.report import chart
from glowplug.starts import comparison
from glowplug.starts.text import weights_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from glowplug.report.chart import Bar, Tick

SCENARIOS: Final = {
    "cold": ("Cold", "empty disk, everything is compiled"),
    "same_node": ("Second start", "same node, cache kept"),
    "steady": ("Steady", "third start on that node"),
    "new_node": ("New node", "empty disk, without glowplug"),
    "new_node_prewarmed": ("New node, glowplug", "empty disk, restored from the store"),
}
RATIOS: Final = {
    "cold_to_prewarmed": ("faster than cold", "cold ÷ new node with glowplug"),
    "prewarmed_to_same_node": ("of the second start", "new node with glowplug ÷ second start on the same node"),
    "prewarmed_to_steady": ("of a steady start", "new node with glowplug ÷ steady start"),
}
_DRAWN: Final = frozenset(("glowplug.start/1", "glowplug.startup/1", "glowplug.demo/1"))
_ROWS: Final = 1000
_LONGEST: Final = 2000


@dataclass(frozen=True)
class Figure:
    """A number that is meant to be seen first, and what it is."""

    value: str
    label: str
    note: str = ""


@dataclass(frozen=True)
class PhaseRow:
    """A line of a time line."""

    kind: str
    name: str
    seconds: str
    share: str
    note: str
    bar: Bar


@dataclass(frozen=True)
class StartView:
    """A start: headline, verdict, figures, one strip of all phases and a line for each."""

    title: str
    subtitle: str
    verdict: str
    reason: str
    figures: tuple[Figure, ...]
    facts: tuple[tuple[str, str], ...]
    strip: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    rows: tuple[PhaseRow, ...]
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class StripRow:
    """One of several starts on a common scale."""

    name: str
    verdict: str
    total: str
    strip: tuple[Bar, ...]


@dataclass(frozen=True)
class ComparisonView:
    """Several starts: strips on one scale, a table with differences, the sentence that explains."""

    strips: tuple[StripRow, ...]
    ticks: tuple[Tick, ...]
    legend: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...]
    explains: str


@dataclass(frozen=True)
class DemoRow:
    """A scenario of the demonstration."""

    name: str
    meaning: str
    verdict: str
    init: str
    ready: str
    weights: str
    kind: str
    bar: Bar | None


@dataclass(frozen=True)
class DemoView:
    """The demonstration: ratios, a bar of engine init seconds for each scenario."""

    ratios: tuple[Figure, ...]
    rows: tuple[DemoRow, ...]
    ticks: tuple[Tick, ...]


@dataclass(frozen=True)
class Section:
    """A part of the page. `kind` names the template that draws `view`; `starts` follow below it."""

    kind: str
    title: str
    view: Any
    starts: tuple[StartView, ...] = ()


@dataclass(frozen=True)
class _DemoScenario:
    """A row of `glowplug.demo/1`, read by the codec, which knows `Optional` only."""

    scenario: str
    ready_seconds: Optional[float] = None  # noqa: UP045
    engine_init_seconds: Optional[float] = None  # noqa: UP045
    weights_bytes: Optional[int] = None  # noqa: UP045
    weights_seconds: Optional[float] = None  # noqa: UP045
    verdict: Optional[str] = None  # noqa: UP045
    start: Optional[Start] = None  # noqa: UP045


@dataclass(frozen=True)
class _Demo:
    rows: tuple[_DemoScenario, ...]
    ratios: Mapping[str, Optional[float]] = field(default_factory=dict)  # noqa: UP045


@dataclass(frozen=True)
class _Starts:
    starts: tuple[Start, ...]


_LARGEST: Final = 1e15
"""What is larger was measured by nobody, and sums of it are no numbers."""


def _measured(value: object, where: str) -> None:
    """Raise BadInputError for a number in a drawn document that cannot be drawn."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack += item.values()
        elif isinstance(item, list):
            stack += item
        elif isinstance(item, float) and not abs(item) <= _LARGEST:
            raise BadInputError(f"{where}: {item:g} is no measure of a start", code="bad-document")
        elif isinstance(item, int) and abs(item) >= 2**63:
            raise BadInputError(f"{where}: a number of more than 63 bits", code="bad-document")


def sections(documents: Sequence[Mapping[str, Any]]) -> tuple[Section, ...]:
    """The parts of a page. Raises BadInputError for a damaged document of a kind that is drawn."""
    found: list[Section] = []
    loose: list[Start] = []
    for place, document in enumerate(documents):
        schema = str(document.get("schema", ""))
        where = f"document {place + 1}"
        if schema in _DRAWN:
            _measured(document, where)
        if schema == "glowplug.start/1":
            loose.append(codec.from_json(Start, document, where))
        elif schema == "glowplug.startup/1":
            found.append(_of_starts(codec.from_json(_Starts, document, where).starts))
        elif schema == "glowplug.demo/1":
            found.append(_of_demo(codec.from_json(_Demo, document, where)))
        else:
            found.append(Section("table", schema or "document", tuple(_flat(document))))
    if loose:
        found.insert(0, _of_starts(tuple(loose)))
    return tuple(found)


def _of_starts(starts: tuple[Start, ...]) -> Section:
    views = tuple(start_view(start) for start in starts)
    if len(starts) < 2:
        return Section("starts", "Start", None, views)
    names = [f"{number}. {_name(start)}" for number, start in enumerate(starts, 1)]
    return Section("comparison", "Comparison", comparison_view(starts, names), views)


def _of_demo(demo: _Demo) -> Section:
    views = tuple(
        start_view(row.start, title=SCENARIOS.get(row.scenario, (row.scenario, ""))[0])
        for row in demo.rows
        if row.start is not None
    )
    return Section("demo", "From cold to warm on a new node", demo_view(demo), views)


def _name(start: Start) -> str:
    """What a start is called beside others."""
    for key in ("log", "name", "model"):
        if start.workload.get(key):
            return str(start.workload[key])
    return start.id


def start_view(start: Start, *, title: str = "") -> StartView:
    """What the page shows of one start."""
    whole = chart.end_of(start.phases)
    engine = " ".join(str(start.workload[key]) for key in ("engine", "engine_version") if start.workload.get(key))
    model = str(start.workload.get("model") or "")
    return StartView(
        title=title or model or engine or start.id,
        subtitle=" · ".join(
            word for word in (engine, model if title else "", start.started_at.replace("T", " ")) if word
        ),
        verdict=start.verdict.compile.value,
        reason=start.verdict.reason,
        figures=tuple(_figures(start)),
        facts=tuple(_facts(start)),
        strip=_strip(start, whole),
        ticks=chart.ticks(whole),
        rows=tuple(_phase_rows(start, whole)),
        evidence=start.verdict.evidence,
    )


def _figures(start: Start) -> Iterable[Figure]:
    if start.ready_seconds is not None:
        yield Figure(format_seconds(start.ready_seconds), "until ready")
    if start.engine_init_seconds is not None:
        yield Figure(format_seconds(start.engine_init_seconds), "engine init")
    if start.verdict.compile_seconds is not None:
        yield Figure(format_seconds(start.verdict.compile_seconds), "compilation")
    size, seconds = start.weights.bytes, start.weights.seconds
    if size and seconds:
        yield Figure(f"{size / seconds / 1e9:.2f} GB/s", "weights", f"{format_size(size)} in {format_seconds(seconds)}")
    elif seconds is not None:
        yield Figure(format_seconds(seconds), "weights")
    if start.restore.outcome is RestoreOutcome.RESTORED:
        yield Figure(format_seconds(start.restore.seconds), "restore", format_size(start.restore.bytes))


def _facts(start: Start) -> Iterable[tuple[str, str]]:
    restore, publish = start.restore, start.publish
    yield "Start", f"{start.id} (seen by: {start.source})"
    if start.key_digest:
        yield "Key", start.key_digest
    if restore.outcome is not RestoreOutcome.NONE or restore.reason:
        words = [restore.outcome.value, restore.reason, f"from {restore.source}" if restore.source else ""]
        yield "Restore", ", ".join(word for word in words if word)
    if publish is not None:
        size = format_size(publish.bytes) if publish.bytes else ""
        yield "Publish", ", ".join(word for word in (publish.outcome.value, publish.reason, size) if word)
    if start.exit_status is not None:
        yield "Exit status", str(start.exit_status)


def _strip(start: Start, whole: float) -> tuple[Bar, ...]:
    return tuple(
        chart.bar(
            chart.kind_of(phase.name),
            phase.start_seconds,
            phase.seconds,
            whole,
            f"{_words(phase.name)}: {format_seconds(max(0.0, phase.seconds))}",
        )
        for phase in start.phases
    )


def _phase_rows(start: Start, whole: float) -> Iterable[PhaseRow]:
    for phase in start.phases:
        kind = chart.kind_of(phase.name)
        note = weights_words(start).partition(" ")[2] if phase.bytes is not None else ""
        yield PhaseRow(
            kind=kind,
            name=_words(phase.name),
            seconds=format_seconds(max(0.0, phase.seconds)),
            share=f"{phase.seconds / whole:.0%}" if whole > 0 else "",
            note=note,
            bar=chart.bar(kind, phase.start_seconds, phase.seconds, whole),
        )


def comparison_view(starts: Sequence[Start], names: Sequence[str]) -> ComparisonView:
    """Several starts on one scale. The first is the baseline."""
    compared = comparison.compare(starts)
    whole = max((chart.end_of(start.phases) for start in starts), default=0.0)
    rows = [(_words(row.phase), row) for row in compared.rows]
    rows += [
        (label, row)
        for label, row in (("engine init", compared.engine_init), ("until ready", compared.ready))
        if any(value is not None for value in row.seconds)
    ]
    return ComparisonView(
        strips=tuple(
            StripRow(name, start.verdict.compile.value, _total(start), _strip(start, whole))
            for name, start in zip(names, starts, strict=True)
        ),
        ticks=chart.ticks(whole),
        legend=tuple(
            (phase, _words(phase))
            for phase in PHASES
            if any(item.name == phase for start in starts for item in start.phases)
        ),
        columns=tuple(names),
        rows=tuple((label, tuple(_cells(row))) for label, row in rows),
        explains=_sentence(compared, starts, names),
    )


def _total(start: Start) -> str:
    found = comparison.measure(start)
    return format_seconds(found[1]) if found else "?"


def _cells(row: comparison.Row) -> Iterable[tuple[str, str, str]]:
    """(seconds, difference, class of the difference) of each start."""
    for place, (seconds, difference) in enumerate(zip(row.seconds, row.difference_seconds, strict=True)):
        shown = "?" if seconds is None else f"{seconds:.1f} s"
        if place == 0 or difference is None or abs(difference) < 0.05:
            yield shown, "", ""
        else:
            yield shown, f"{difference:+.1f}", "slower" if difference > 0 else "faster"


def _sentence(compared: comparison.Comparison, starts: Sequence[Start], names: Sequence[str]) -> str:
    what = compared.explains
    if what is None:
        return ""
    name = next(name for name, start in zip(names, starts, strict=True) if start.id == what.start)
    direction = "slower" if what.seconds > 0 else "faster"
    return (
        f"{name} is {direction} than {names[0]}: {_words(what.phase)} explains {what.share:.0%} of it "
        f"({format_seconds(abs(what.seconds))})."
    )


def demo_view(demo: _Demo) -> DemoView:
    """The scenarios as bars of their engine init seconds, with the ratios that matter."""
    whole = max((row.engine_init_seconds or 0.0 for row in demo.rows), default=0.0)
    return DemoView(
        ratios=tuple(
            Figure(f"{value:.1f} ×" if name == "cold_to_prewarmed" else f"{value:.2f} ×", *RATIOS[name])
            for name in RATIOS
            if (value := demo.ratios.get(name)) is not None
        ),
        rows=tuple(_demo_row(row, whole) for row in demo.rows),
        ticks=chart.ticks(whole),
    )


def _demo_row(row: _DemoScenario, whole: float) -> DemoRow:
    name, meaning = SCENARIOS.get(row.scenario, (row.scenario, ""))
    init = row.engine_init_seconds
    size, seconds = row.weights_bytes, row.weights_seconds
    kind = "ours" if row.scenario == "new_node_prewarmed" else "plain"
    return DemoRow(
        name=name,
        meaning=meaning,
        verdict=row.verdict or "unknown",
        init="?" if init is None else format_seconds(init),
        ready="?" if row.ready_seconds is None else format_seconds(row.ready_seconds),
        weights=f"{size / seconds / 1e9:.2f} GB/s" if size and seconds else "–",
        kind=kind,
        bar=None if init is None else chart.bar(kind, 0.0, init, whole),
    )


def _flat(value: object) -> Iterable[tuple[str, str]]:
    """The leaves of any document as (path, value), not more than a page can hold. Iterative: depth is the document's choice."""
    stack: list[tuple[str, object]] = [("", value)]
    shown = 0
    while stack:
        path, item = stack.pop()
        if isinstance(item, dict) and item:
            stack += [(_below(path, f".{key}" if path else str(key)), inner) for key, inner in reversed(item.items())]
        elif isinstance(item, list) and item:
            stack += [(_below(path, f"[{place}]"), item[place]) for place in range(len(item) - 1, -1, -1)]
        else:
            shown += 1
            if shown > _ROWS:
                yield "…", f"{len(stack) + 1} more"
                return
            yield path[:_LONGEST], _leaf(item)[:_LONGEST]


def _below(path: str, step: str) -> str:
    """A longer path, until it is too long to be read anyway."""
    return path if len(path) > _LONGEST else path + step[:_LONGEST]


def _leaf(item: object) -> str:
    if item is None:
        return "–"
    if isinstance(item, bool):
        return "yes" if item else "no"
    if isinstance(item, (dict, list)):
        return "none"
    return str(item)


def _words(phase: str) -> str:
    return phase.replace("_", " ")
