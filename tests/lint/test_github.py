"""Workflow commands: what GitHub's runner would cut them at is escaped, and read back it is what was said."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.lint import github
from glowplug.lint.findings import Finding
from glowplug.lint.rule import Severity
from glowplug.manifests.source import Place, Source, Span

COMMAND = re.compile(r"::(\w+) ([^:]*)::(.*)")


def _finding(name: str = "a.yaml", message: str = "m", hint: str = "", end: int = 3, object_: str = "") -> Finding:
    place = Place(Source(name, "a: b\nc: d\n"), Span(0, end))
    return Finding("rule", Severity.ERROR, place, object_, message, hint)


def _read(line: str) -> tuple[str, dict[str, str], str]:
    """As actions/toolkit and the runner read it: properties by `,` and `=`, then unescape."""
    match = COMMAND.fullmatch(line)
    assert match, line

    def plain(text: str, *more: tuple[str, str]) -> str:
        for code, character in (("%0D", "\r"), ("%0A", "\n"), *more, ("%25", "%")):
            text = text.replace(code, character)
        return text

    properties = {
        name: plain(value, ("%3A", ":"), ("%2C", ","))
        for name, _, value in (pair.partition("=") for pair in match[2].split(","))
    }
    return match[1], properties, plain(match[3])


@pytest.mark.parametrize(
    ("severity", "command"), [(Severity.ERROR, "error"), (Severity.WARNING, "warning"), (Severity.INFO, "notice")]
)
def test_severities(severity: Severity, command: str) -> None:
    one = _finding()
    line = github.commands([Finding(one.rule, severity, one.place, "", "m")])
    assert line == f"::{command} file=a.yaml,line=1,endLine=1,col=1,endColumn=4,title=rule::m"


@given(st.text(), st.text(), st.text(), st.text(min_size=1))
def test_whatever_is_said_arrives(message: str, hint: str, object_: str, name: str) -> None:
    line = github.commands([_finding(name, message, hint, object_=object_)])
    assert not set(line) & {"\r", "\n"}
    command, properties, told = _read(line)
    assert command == "error"
    assert properties["file"] == name
    assert told == (f"{message}\nhint: {hint}" if hint else message)
    assert properties["title"] == (f"rule ({object_})" if object_ else "rule")


def test_columns_are_not_given_where_lines_differ() -> None:
    """GitHub refuses an annotation with columns over several lines."""
    _, properties, _ = _read(github.commands([_finding(end=7)]))
    assert (properties["line"], properties["endLine"]) == ("1", "2")
    assert "col" not in properties
    assert "endColumn" not in properties


def test_a_line_a_finding_and_none_for_none() -> None:
    assert github.commands([]) == ""
    assert len(github.commands([_finding(), _finding()]).split("\n")) == 2
