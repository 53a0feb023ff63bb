"""Rules over what was read. A rule that fails is a fault of glowplug's, and loses neither the other rules nor their findings."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from glowplug.core import redact
from glowplug.lint import ignoring, objects, registry
from glowplug.lint.findings import Finding
from glowplug.manifests.source import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from glowplug.lint.rule import Fix, Problem, Rule
    from glowplug.lint.view import Manifests, Object
    from glowplug.manifests.source import Source
    from glowplug.manifests.values import Value


@dataclass(frozen=True)
class Options:
    """What a person says beside the manifests: which rules (None: all), what makes the nodes, how large the weights are."""

    rules: tuple[Rule, ...] | None = None
    compute: str = ""
    weights_bytes: int | None = None


@dataclass(frozen=True)
class Failure:
    """A rule that raised what it never should."""

    rule: str
    object: str
    error: Exception = field(compare=False)


@dataclass(frozen=True)
class Report:
    """What came out: findings by file, line and column; what was not looked at, and why (`skipped`); annotations that ignore
    nothing (`notes`); how many findings annotations hide; rules that failed; and what was read."""

    findings: tuple[Finding, ...]
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    ignored: int = 0
    failures: tuple[Failure, ...] = ()
    manifests: Manifests | None = field(default=None, compare=False, repr=False)


def lint(sources: Sequence[Source], options: Options | None = None) -> Report:
    """Every rule over these sources. Raises BadInputError for a source that is no YAML."""
    options = options or Options()
    manifests = objects.read(sources, compute=options.compute, weights_bytes=options.weights_bytes)
    return judge(manifests, tuple(registry.RULES.values()) if options.rules is None else options.rules)


def judge(manifests: Manifests, rules: Sequence[Rule]) -> Report:
    """These rules over what was read."""
    ignored = ignoring.Ignored()
    found: dict[tuple[object, ...], Finding] = {}
    hidden = 0
    failures: dict[str, Failure] = {}
    owners = _Owners(manifests)
    for rule, check, concerned, values in _checks(rules, manifests):
        try:
            for problem in check():
                at = problem.at if isinstance(problem.at, Place) else problem.at.place
                owner = concerned or owners.at(at)
                annotated = values or ((owner.value,) if owner else ())
                if ignored.reason(rule.name, annotated) or (
                    rule.workload is None and ignored.reason(rule.name, owners.templates_at(at))
                ):
                    hidden += 1
                    continue
                finding = _finding(rule, problem, at, owner)
                key = (finding.rule, finding.file, at.span, finding.object, finding.message)
                found.setdefault(key, finding)
        except Exception as error:  # noqa: BLE001 - one rule's fault must not hide what the others found
            title = concerned.title if concerned else ""
            failures.setdefault(rule.name, Failure(rule.name, title, error))
    names = {**registry.RULES} | {rule.name: rule for rule in rules}
    return Report(
        findings=tuple(sorted(found.values(), key=_order)),
        skipped=_said(manifests.skipped),
        notes=_said(
            [*manifests.notes, *ignoring.mistakes(manifests, names, lambda name: registry.nearest(name, names))]
        ),
        ignored=hidden,
        failures=tuple(failures.values()),
        manifests=manifests,
    )


Check = tuple["Rule", "Callable[[], Iterator[Problem]]", "Object | None", "tuple[Value, ...]"]


def _checks(rules: Sequence[Rule], manifests: Manifests) -> Iterator[Check]:
    """What to ask, about which object, and whose annotations count. All rules about one workload come after each other, since
    many ask the same of it, and remember it for that long."""
    for workload in manifests.workloads:
        values = (workload.object.value, workload.template)
        for rule in rules:
            if rule.workload is not None:
                yield rule, _bound(rule.workload, workload), workload.object, values
    for node in manifests.nodes:
        both = (node.pool.value,) if node.node_class is None else (node.pool.value, node.node_class.value)
        for rule in rules:
            if rule.node is not None:
                yield rule, _bound(rule.node, node), node.pool, both
    for rule in rules:
        if rule.everything is not None:
            yield rule, _bound(rule.everything, manifests), None, ()


def _bound(check: Callable[..., Iterator[Problem]], about: object) -> Callable[[], Iterator[Problem]]:
    return lambda: check(about)


def _finding(rule: Rule, problem: Problem, at: Place, owner: Object | None) -> Finding:
    return Finding(
        rule=rule.name,
        severity=rule.severity,
        place=at,
        object=owner.title if owner else "",
        message=redact.known_forms(problem.message),
        hint=redact.known_forms(problem.hint),
        fix=_untold(problem.fix) if problem.fix else None,
    )


def _said(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(redact.known_forms(line) for line in lines)


def _untold(fix: Fix) -> Fix:
    title = redact.known_forms(fix.title)
    return fix if title == fix.title else replace(fix, title=title)


def _order(finding: Finding) -> tuple[str, int, int, str, str]:
    return (finding.file, finding.place.span.start, finding.place.span.end, finding.rule, finding.message)


class _Owners:
    """Which object a place lies in. Objects of a text follow each other, so it is the last one that begins before the place."""

    def __init__(self, manifests: Manifests) -> None:
        self._objects = manifests.objects
        self._by_source: dict[int, tuple[list[int], list[Object]]] | None = None

    def at(self, place: Place) -> Object | None:
        if self._by_source is None:
            self._by_source = self._sorted()
        starts, objects_ = self._by_source.get(id(place.source), ([], []))
        before = bisect.bisect_right(starts, place.span.start)
        found = objects_[before - 1] if before else None
        return found if found and place.span.end <= found.value.span.end else None

    def templates_at(self, place: Place) -> list[Value]:
        """The pod templates that the place lies in."""
        found = self.at(place)
        if found is None:
            return []
        return [
            one
            for one in objects.templates(found)
            if one.span.start <= place.span.start and place.span.end <= one.span.end
        ]

    def _sorted(self) -> dict[int, tuple[list[int], list[Object]]]:
        grouped: dict[int, list[Object]] = {}
        for each in self._objects:
            grouped.setdefault(id(each.value.source), []).append(each)
        for of_source in grouped.values():
            of_source.sort(key=lambda each: each.value.span.start)
        return {key: ([each.value.span.start for each in group], group) for key, group in grouped.items()}
