"""`--fix`: rounds of mending and reading again, until nothing changes.

In a round, each file gets all fixes that do not touch each other; the rest waits for the next round, where it is found anew
against the text as it then is. So a fix never works with a place that another has moved, and a fix that makes another finding
is followed up. Rounds are bounded, against a fix that makes its own finding again, and two that undo each other.
"""

from __future__ import annotations

import bisect
import json
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from glowplug.lint.run import Options, Report, lint
from glowplug.manifests import edit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from glowplug.lint.findings import Finding
    from glowplug.lint.rule import Fix
    from glowplug.manifests.source import Source
    from glowplug.manifests.values import Value

ROUNDS: Final = 10


@dataclass(frozen=True)
class Refused:
    """A fix that cannot be written into this text."""

    finding: Finding
    why: str


@dataclass(frozen=True)
class Made:
    """A fix that was made: the rule, its title, and the files that it changed."""

    rule: str
    title: str
    files: frozenset[str]


@dataclass(frozen=True)
class Fixed:
    """What fixing came to: the texts, the findings that are left (those refused have no fix any more), and what was done: for each
    rule and title of a fix, how often."""

    sources: tuple[Source, ...]
    report: Report
    applied: Mapping[tuple[str, str], int]
    refused: tuple[Refused, ...] = ()
    made: tuple[Made, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is left."""
        return self.report.findings


def fix(sources: Sequence[Source], options: Options | None = None, *, unsafe: bool = False) -> Fixed:
    """Mend what has a fix (`unsafe`: also where what runs may change) in these texts; nothing is written to any file.

    Rules whose fixes are still wanted after the last round mend nothing at all: half of what never ends is no result, and would
    be another one at the next call. Raises BadInputError for a source that is no YAML.
    """
    endless: frozenset[str] = frozenset()
    first = lint(sources, options)
    while True:
        done, restless = _rounds(sources, first, options, unsafe=unsafe, without=endless)
        if not restless:
            return done
        endless |= restless


def without(done: Fixed, unwritten: Sequence[Source], options: Options | None = None) -> Fixed:
    """What fixing came to where these files stay as they were: fewer fixes, more findings."""
    before = {source.name: source for source in unwritten}
    made = tuple(one for one in done.made if one.files.isdisjoint(before))
    now = tuple(before.get(source.name, source) for source in done.sources)
    return replace(done, sources=now, report=lint(now, options), applied=_counted(made), made=made)


def _counted(made: Sequence[Made]) -> dict[tuple[str, str], int]:
    return dict(Counter((one.rule, one.title) for one in made))


def _rounds(
    sources: Sequence[Source], report: Report, options: Options | None, *, unsafe: bool, without: frozenset[str]
) -> tuple[Fixed, frozenset[str]]:
    """All rounds, and the rules that wanted more of them."""
    now = tuple(sources)
    made: list[Made] = []
    refused: dict[tuple[str, ...], Refused] = {}
    for number in range(ROUNDS + 1):
        wanted: list[Finding] = []
        for one in report.findings:
            if one.fixable(unsafe=unsafe) and one.rule in without:
                refused.setdefault(_identity(one), Refused(one, "after its fix it is found again, without end"))
            elif one.fixable(unsafe=unsafe) and _identity(one) not in refused:
                wanted.append(one)
        changed, done, impossible = _round(wanted)
        refused |= {_identity(each.finding): each for each in impossible}
        if not changed:
            break
        if number == ROUNDS:
            return Fixed(now, report, _counted(made)), frozenset(one.rule for one in done)
        made += done
        now = tuple(changed.get(source.name, source) for source in now)
        report = lint(now, options)
    left = tuple(replace(one, fix=None) if _identity(one) in refused else one for one in report.findings)
    still = tuple(refused[_identity(one)] for one in left if _identity(one) in refused)
    return Fixed(now, replace(report, findings=left), _counted(made), still, tuple(made)), frozenset()


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


Changed = dict[str, "Source"]


def _round(findings: Sequence[Finding]) -> tuple[Changed, list[Made], list[Refused]]:
    """Apply what does not touch each other. A fix over several files has them for itself."""
    taken: dict[str, list[Finding]] = {}
    touched: dict[str, _Taken] = {}
    alone: list[Finding] = []
    for finding in findings:
        assert finding.fix is not None  # noqa: S101 - `fixable` said so
        files = _files(finding.fix)
        if len(files) > 1:
            alone.append(finding)
            continue
        file, touch = next(iter(files), ""), _touch(finding.fix)
        if touched.setdefault(file, _Taken()).takes(touch):
            taken.setdefault(file, []).append(finding)
    changed: Changed = {}
    done: list[Made] = []
    impossible: list[Refused] = []
    for group in (*taken.values(), *([one] for one in alone)):
        if any(source.name in changed for one in group if one.fix for source, _ in _by_source([one.fix])):
            continue  # found anew in the next round
        texts, works, refused = _together(group)
        impossible += refused
        if texts:
            changed |= texts
            done += [Made(one.rule, one.fix.title, _files(one.fix)) for one in works if one.fix]
    return changed, done, impossible


def _together(group: Sequence[Finding]) -> tuple[Changed, Sequence[Finding], list[Refused]]:
    """All of a group where that works; else of each document those that work alone; else the first of them."""
    try:
        return _applied(group), group, []
    except edit.CannotEditError as error:
        if len(group) == 1:
            return {}, (), [Refused(group[0], str(error))]
    possible: list[Finding] = []
    refused: list[Refused] = []
    for some in _by_documents(group):
        works, not_possible = _of_one_document(some)
        possible += works
        refused += not_possible
    for few in (possible, possible[:1]):
        try:
            return _applied(few), few, refused
        except edit.CannotEditError:
            continue
    return {}, (), refused


def _by_documents(group: Sequence[Finding]) -> Iterator[list[Finding]]:
    """What one document cannot take hinders no other."""
    grouped: dict[tuple[int, ...], list[Finding]] = {}
    for one in group:
        operations = one.fix.operations if one.fix else ()
        grouped.setdefault(tuple(sorted({_touched(each).document for each in operations})), []).append(one)
    yield from grouped.values()


def _of_one_document(group: Sequence[Finding]) -> tuple[Sequence[Finding], list[Refused]]:
    """Those that work together, and those that do not even alone."""
    possible: list[Finding] = []
    refused: list[Refused] = []
    if _works(group):
        return group, refused
    for one in group:
        try:
            _applied([one])
        except edit.CannotEditError as error:
            refused.append(Refused(one, str(error)))
        else:
            possible.append(one)
    return (possible if _works(possible) else possible[:1]), refused


def _works(group: Sequence[Finding]) -> bool:
    try:
        _applied(group)
    except edit.CannotEditError:
        return False
    return True


def _applied(group: Sequence[Finding]) -> Changed:
    """The sources that differ afterwards. Raises CannotEditError."""
    fixes = [one.fix for one in group if one.fix]
    done = [(source, edit.applied(source, operations)) for source, operations in _by_source(fixes)]
    return {source.name: after for source, after in done if after.text != source.text}


def _by_source(fixes: Sequence[Fix]) -> Iterator[tuple[Source, list[edit.Operation]]]:
    grouped: dict[int, tuple[Source, list[edit.Operation]]] = {}
    for each in fixes:
        for operation in each.operations:
            source = _touched(operation).source
            grouped.setdefault(id(source), (source, []))[1].append(operation)
    yield from grouped.values()


def _files(fix: Fix) -> frozenset[str]:
    return frozenset(source.name for source, _ in _by_source([fix]))


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
class _Span:
    """A part of a text: of a source, or of one scalar in it."""

    of: int
    start: int
    end: int


@dataclass(frozen=True)
class _Touch:
    """What a fix touches. `marks`: what it adds to collections, or names in them, since two rules may want the same variable;
    `gone`: what it writes anew or takes away; `within`: what has to stay for it."""

    marks: frozenset[tuple[int, str]]
    gone: frozenset[_Span]
    within: frozenset[_Span]


class _Taken:
    """What the fixes of a round touch so far. Asked as often as there are fixes, so it looks at neighbours alone."""

    def __init__(self) -> None:
        self._marks: set[tuple[int, str]] = set()
        self._gone: dict[int, _Spans] = defaultdict(_Spans)
        self._within: dict[int, _Spans] = defaultdict(_Spans)

    def takes(self, touch: _Touch) -> bool:
        """Whether a fix can be made with the others at once; from then on it is one of them."""
        hindered = (
            not self._marks.isdisjoint(touch.marks)
            # What stands between two neighbours belongs to both.
            or any(self._gone[one.of].any_meets(one) for one in touch.gone)
            or any(self._gone[one.of].any_holds(one) for one in touch.within)
            or any(self._within[one.of].any_within(one) for one in touch.gone)
        )
        if not hindered:
            self._marks |= touch.marks
            for spans, more in ((self._gone, touch.gone), (self._within, touch.within)):
                for one in more:
                    spans[one.of].add(one)
        return not hindered


class _Spans:
    """Parts of one text, by where they begin."""

    def __init__(self) -> None:
        self._sorted: list[tuple[int, int]] = []
        self._longest = 0

    def add(self, span: _Span) -> None:
        bisect.insort(self._sorted, (span.start, span.end))
        self._longest = max(self._longest, span.end - span.start)

    def any_meets(self, span: _Span) -> bool:
        """Whether one has something in common with it, or touches it."""
        return any(end >= span.start for _, end in self._beginning(span.start - self._longest, span.end))

    def any_holds(self, span: _Span) -> bool:
        """Whether it lies in one."""
        return any(end >= span.end for _, end in self._beginning(span.end - self._longest, span.start))

    def any_within(self, span: _Span) -> bool:
        """Whether one lies in it."""
        return any(end <= span.end for _, end in self._beginning(span.start, span.end))

    def _beginning(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        at = bisect.bisect_left(self._sorted, (first,))
        while at < len(self._sorted) and self._sorted[at][0] <= last:
            yield self._sorted[at]
            at += 1


def _touch(fix: Fix) -> _Touch:
    marks: set[tuple[int, str]] = set()
    gone: set[_Span] = set()
    within: set[_Span] = set()
    for operation in fix.operations:
        value = _touched(operation)
        match operation:
            case edit.Replace():
                gone.add(_span(value))
                marks |= _renamed(value, operation.to)
            case edit.Splice():
                gone.add(_Span(id(value.node), operation.start, operation.end))
                within.add(_span(value))
            case edit.Insert():
                marks.add((id(value.node), _name(operation.value)))
                within.add(_span(value))
            case edit.Put() | edit.Remove() | edit.Rename():
                marks.add((id(value.node), f"key={operation.key}"))
                within.add(_span(value))
                child = value.get(operation.key)
                gone |= {_span(child)} if child is not None else set()
                if isinstance(operation, edit.Rename):
                    marks.add((id(value.node), f"key={operation.to}"))
                elif isinstance(operation, edit.Put) and child is not None:
                    marks |= _renamed(child, operation.value)
    return _Touch(frozenset(marks), frozenset(gone), frozenset(within))


def _renamed(value: Value, to: object) -> set[tuple[int, str]]:
    """What an element is called afterwards: a variable under another's name is that other."""
    entry = value.parent
    if value.step != "name" or entry is None or entry.parent is None:
        return set()
    return {(id(entry.parent.node), f"name={to}")}


def _span(value: Value) -> _Span:
    span = value.span
    return _Span(id(value.source), span.start, span.end)


def _name(element: object) -> str:
    """What makes an element of a list the same as another: its name; of a command line, the option."""
    if isinstance(element, dict) and isinstance(element.get("name"), str):
        return f"name={element['name']}"
    if isinstance(element, str) and element.startswith("--"):
        return f"option={element.partition('=')[0]}"
    return json.dumps(element, sort_keys=True, default=str)
