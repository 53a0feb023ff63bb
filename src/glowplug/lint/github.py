"""Findings as workflow commands of GitHub Actions, which become annotations in the files of a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.lint.rule import Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from glowplug.lint.findings import Finding

_COMMANDS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
_IN_MESSAGES: Final = {ord("%"): "%25", ord("\r"): "%0D", ord("\n"): "%0A"}
_IN_PROPERTIES: Final = {**_IN_MESSAGES, ord(":"): "%3A", ord(","): "%2C"}


def commands(findings: Sequence[Finding]) -> str:
    """A line a finding. Columns are only given where begin and end are on one line: GitHub refuses others."""
    return "\n".join(_annotation(one) for one in findings)


def _annotation(one: Finding) -> str:
    properties = {"file": one.file, "line": one.line, "endLine": one.end_line}
    if one.line == one.end_line:
        properties |= {"col": one.column, "endColumn": one.end_column}
    properties["title"] = f"{one.rule}" + (f" ({one.object})" if one.object else "")
    listed = ",".join(f"{name}={str(value).translate(_IN_PROPERTIES)}" for name, value in properties.items())
    message = one.message + (f"\nhint: {one.hint}" if one.hint else "")
    return f"::{_COMMANDS[one.severity]} {listed}::{message.translate(_IN_MESSAGES)}"
