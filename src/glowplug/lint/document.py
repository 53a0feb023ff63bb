"""Findings as the document `glowplug.lint/1`, and the dataclasses from which docs/schema/lint-1.json is generated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from glowplug.core.documents import codec
from glowplug.lint.rule import Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from glowplug.lint.findings import Finding
    from glowplug.lint.run import Report


@dataclass(frozen=True)
class Remedy:
    """What a fix would do. `safe`: the pod means the same, or what was plainly meant; else only `--unsafe-fixes` makes it."""

    title: str
    safe: bool


@dataclass(frozen=True)
class Told:
    """A finding. Lines and columns begin at 1 and count characters; the end is behind the last one. `fixable`: `--fix` as it was
    called mends it. `docs` is a path in glowplug's repository; `glowplug rules NAME` prints the same page."""

    rule: str
    severity: Literal["error", "warning", "info"]
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    object: str
    message: str
    hint: str
    fixable: bool
    fix: Remedy | None
    docs: str


@dataclass(frozen=True)
class Summary:
    """Counts: files read, pods with an engine in them, findings by severity, those that `--fix` as called mends and those that only
    `--unsafe-fixes` would mend, fixes made, findings that annotations hide."""

    files: int
    workloads: int
    errors: int
    warnings: int
    infos: int
    fixable: int
    unsafe_fixable: int
    fixed: int
    ignored: int


@dataclass(frozen=True)
class Document:
    """What `glowplug lint` found; with `--fix`, what is left."""

    findings: tuple[Told, ...]
    summary: Summary
    schema: str = "glowplug.lint/1"


def summarize(report: Report, files: int, *, unsafe: bool = False, fixed: int = 0) -> Summary:
    """The counts of a report."""
    findings = report.findings
    return Summary(
        files=files,
        workloads=len(report.manifests.workloads) if report.manifests else 0,
        errors=_count(findings, Severity.ERROR),
        warnings=_count(findings, Severity.WARNING),
        infos=_count(findings, Severity.INFO),
        fixable=sum(one.fixable(unsafe=unsafe) for one in findings),
        unsafe_fixable=sum(one.fix is not None and not one.fixable(unsafe=unsafe) for one in findings),
        fixed=fixed,
        ignored=report.ignored,
    )


def to_document(findings: Sequence[Finding], summary: Summary, *, unsafe: bool = False) -> dict[str, Any]:
    """The JSON value, `schema` first."""
    document: dict[str, Any] = codec.to_json(Document(tuple(_told(one, unsafe=unsafe) for one in findings), summary))
    return {"schema": document.pop("schema"), **document}


def _told(one: Finding, *, unsafe: bool) -> Told:
    return Told(
        rule=one.rule,
        severity=one.severity.value,
        file=one.file,
        line=one.line,
        column=one.column,
        end_line=one.end_line,
        end_column=one.end_column,
        object=one.object,
        message=one.message,
        hint=one.hint,
        fixable=one.fixable(unsafe=unsafe),
        fix=Remedy(one.fix.title, one.fix.safe) if one.fix else None,
        docs=one.docs,
    )


def _count(findings: Sequence[Finding], severity: Severity) -> int:
    return sum(one.severity is severity for one in findings)
