"""`--fix`: rounds of mending and reading again, until nothing changes.

In a round, each file gets all fixes that do not touch each other; the rest waits for the next round, where it is found anew
against the text as it then is. So a fix never works with a place that another has moved, and a fix that makes another finding
is followed up. Rounds are bounded, against two rules that undo each other's work.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from glowplug.lint.run import Options, Report, lint
from glowplug.manifests import edit
from glowplug.manifests.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from glowplug.lint.findings import Finding
    from glowplug.lint.rule import Fix
    from glowplug.manifests.values import Value

ROUNDS: Final = 10


@dataclass(frozen=True)
class Refused:
    """A fix that cannot be written into this text."""

    finding: Finding
    why: str


@dataclass(frozen=True)
class Fixed:
    """What fixing came to: the texts, the findings that are left (those refused have no fix any more), and what was done: for each
    rule and title of a fix, how often."""

    sources: tuple[Source, ...]
    report: Report
    applied: Mapping[tuple[str, str], int]
    refused: tuple[Refused, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is left."""
        return self.report.findings


def fix(sources: Sequence[Source], options: Options | None = None, *, unsafe: bool = False) -> Fixed:
    """Mend what has a fix (`unsafe`: also where what runs may change) in these texts; nothing is written to any file.

    Raises BadInputError for a source that is no YAML.
    """
    now = tuple(sources)
    applied: Counter[tuple[str, str]] = Counter()
    refused: dict[tuple[str, ...], Refused] = {}
    report = lint(now, options)
    for _ in range(ROUNDS):
        wanted = [one for one in report.findings if one.fixable(unsafe=unsafe) and _identity(one) not in refused]
        changed, done, impossible = _round(wanted)
        refused |= {_identity(each.finding): each for each in impossible}
        if not changed:
            break
        applied.update(done)
        now = tuple(changed.get(source.name, source) for source in now)
        report = lint(now, options)
    left = tuple(replace(one, fix=None) if _identity(one) in refused else one for one in report.findings)
    still = tuple(refused[_identity(one)] for one in left if _identity(one) in refused)
    return Fixed(now, replace(report, findings=left), dict(applied), still)


def patched(finding: Finding) -> tuple[tuple[Source, str], ...]:
    """Each file with its whole text after the finding's own fix, alone; () where it has none or it cannot be written."""
    if finding.fix is None:
        return ()
    try:
        return tuple((source, edit.apply(source, operations)) for source, operations in _by_source([finding.fix]))
    except edit.CannotEditError:
        return ()


def _identity(finding: Finding) -> tuple[str, ...]:
    """A finding across rounds, in which its line may move."""
    return finding.rule, finding.file, finding.object, finding.message, finding.place.text


Changed = dict[str, Source]


def _round(findings: Sequence[Finding]) -> tuple[Changed, list[tuple[str, str]], list[Refused]]:
    """Apply what does not touch each other. A fix over several files has them for itself."""
    taken: dict[str, list[Finding]] = {}
    touched: dict[str, list[_Touch]] = {}
    alone: list[Finding] = []
    for finding in findings:
        assert finding.fix is not None  # noqa: S101 - `fixable` said so
        files = {source.name for source, _ in _by_source([finding.fix])}
        if len(files) > 1:
            alone.append(finding)
            continue
        file, touch = next(iter(files), ""), _touch(finding.fix)
        if not any(touch.hinders(other) for other in touched.setdefault(file, [])):
            touched[file].append(touch)
            taken.setdefault(file, []).append(finding)
    changed: Changed = {}
    done: list[tuple[str, str]] = []
    impossible: list[Refused] = []
    for group in (*taken.values(), *([one] for one in alone)):
        if any(source.name in changed for one in group if one.fix for source, _ in _by_source([one.fix])):
            continue  # found anew in the next round
        texts, works, refused = _together(group)
        impossible += refused
        if texts:
            changed |= texts
            done += [(one.rule, one.fix.title) for one in works if one.fix]
    return changed, done, impossible


def _together(group: Sequence[Finding]) -> tuple[Changed, Sequence[Finding], list[Refused]]:
    """All of a group where that works; else those that work alone; else the first of them."""
    try:
        return _applied(group), group, []
    except edit.CannotEditError as error:
        if len(group) == 1:
            return {}, (), [Refused(group[0], str(error))]
    possible: list[Finding] = []
    refused: list[Refused] = []
    for one in group:
        try:
            _applied([one])
        except edit.CannotEditError as error:
            refused.append(Refused(one, str(error)))
        else:
            possible.append(one)
    for few in (possible, possible[:1]):
        try:
            return _applied(few), few, refused
        except edit.CannotEditError:
            continue
    return {}, (), refused


def _applied(group: Sequence[Finding]) -> Changed:
    """The sources that differ afterwards. Raises CannotEditError."""
    fixes = [one.fix for one in group if one.fix]
    texts = [(source, edit.apply(source, operations)) for source, operations in _by_source(fixes)]
    return {source.name: Source(source.name, text) for source, text in texts if text != source.text}


def _by_source(fixes: Sequence[Fix]) -> Iterator[tuple[Source, list[edit.Operation]]]:
    grouped: dict[int, tuple[Source, list[edit.Operation]]] = {}
    for each in fixes:
        for operation in each.operations:
            source = _touched(operation).source
            grouped.setdefault(id(source), (source, []))[1].append(operation)
    yield from grouped.values()


def _touched(operation: edit.Operation) -> Value:
    match operation:
        case edit.Put() | edit.Rename():
            return operation.mapping
        case edit.Insert():
            return operation.sequence
        case edit.Replace() | edit.Splice():
            return operation.value
        case edit.Remove():
            return operation.collection


@dataclass(frozen=True)
class _Touch:
    """What a fix touches. `marks`: keys and elements of collections that it adds or names; `whole`: sequences in which it counts
    elements, whose numbers move with every other change; `gone`: spans that are written anew; `within`: spans that must stay."""

    marks: frozenset[tuple[int, str]]
    whole: frozenset[int]
    gone: frozenset[_Place]
    within: frozenset[_Place]

    def hinders(self, other: _Touch) -> bool:
        """Whether the two cannot be made at once."""
        return bool(
            self.marks & other.marks
            or self.whole & (other.whole | {node for node, _ in other.marks})
            or other.whole & {node for node, _ in self.marks}
            or any(one.meets(another) for one in self.gone for another in other.gone)
            or any(one.holds(inner) for one in self.gone for inner in other.within)
            or any(one.holds(inner) for one in other.gone for inner in self.within)
        )


@dataclass(frozen=True)
class _Place:
    source: int
    start: int
    end: int

    def meets(self, other: _Place) -> bool:
        return self.source == other.source and self.start < other.end and other.start < self.end

    def holds(self, other: _Place) -> bool:
        return self.source == other.source and self.start <= other.start and other.end <= self.end


def _touch(fix: Fix) -> _Touch:
    marks: set[tuple[int, str]] = set()
    whole: set[int] = set()
    gone: set[_Place] = set()
    within: set[_Place] = set()
    for operation in fix.operations:
        value = _touched(operation)
        node = id(value.node)
        match operation:
            case edit.Replace() | edit.Splice():
                gone.add(_place(value))
                continue
            case edit.Insert(index=None):
                marks.add((node, _name(operation.value)))
            case edit.Insert() | edit.Remove(key=int()):
                whole.add(node)
            case edit.Put() | edit.Remove() | edit.Rename():
                names = (
                    (str(operation.key), operation.to) if isinstance(operation, edit.Rename) else (str(operation.key),)
                )
                marks.update((node, name) for name in names)
        within.add(_place(value))
        if not isinstance(operation, edit.Insert):
            child = value.get(operation.key)
            if child is not None:
                gone.add(_place(child))
    return _Touch(frozenset(marks), frozenset(whole), frozenset(gone), frozenset(within))


def _place(value: Value) -> _Place:
    span = value.span
    return _Place(id(value.source), span.start, span.end)


def _name(element: object) -> str:
    """What makes an element the same as another: its name, else all of it. Two rules may want the same variable."""
    if isinstance(element, dict) and isinstance(element.get("name"), str):
        return f"name={element['name']}"
    return json.dumps(element, sort_keys=True, default=str)
