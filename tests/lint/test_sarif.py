"""SARIF: valid by OASIS's own schema, and its fixes, made by a viewer, give what `--fix` gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.lint import fixing, sarif
from glowplug.lint.run import Options, Report, lint
from glowplug.manifests.source import Source
from tests.lint import samples
from tests.lint.samples import DEPLOYMENT, POOL

SCHEMA = json.loads((Path(__file__).parent / "sarif" / "sarif-schema-2.1.0.json").read_text())
VALIDATOR = jsonschema.Draft4Validator(SCHEMA, format_checker=jsonschema.FormatChecker())
RULES = tuple(samples.documented(one) for one in (*samples.RULES, samples.BROKEN))
HERE = Path("/repository")


def _report(*texts: str, names: tuple[str, ...] = ()) -> Report:
    called = names or tuple(f"{number}.yaml" for number in range(len(texts)))
    return lint([Source(name, text) for name, text in zip(called, texts, strict=True)], Options(RULES))


def _log(report: Report) -> dict[str, Any]:
    log = json.loads(json.dumps(sarif.log(report, RULES, HERE)))
    assert [error.message for error in VALIDATOR.iter_errors(log)] == []
    assert log["$schema"] == SCHEMA["id"]
    run: dict[str, Any] = log["runs"][0]
    return run


def test_a_log_is_valid_and_says_all_of_each_finding() -> None:
    report = _report(DEPLOYMENT, POOL)
    run = _log(report)
    rules = run["tool"]["driver"]["rules"]
    assert [one["id"] for one in rules] == [one.name for one in RULES]
    assert all(one["help"]["markdown"].startswith("What ") for one in rules)
    assert len(run["results"]) == len(report.findings) > 5
    for one, told in zip(report.findings, run["results"], strict=True):
        assert rules[told["ruleIndex"]]["id"] == told["ruleId"] == one.rule
        region = told["locations"][0]["physicalLocation"]["region"]
        assert (region["startLine"], region["startColumn"]) == (one.line, one.column)
        assert (region["endLine"], region["endColumn"]) == (one.end_line, one.end_column)
        assert one.message in told["message"]["text"]
        assert told["level"] == {"error": "error", "warning": "warning", "info": "note"}[one.severity.value]
    assert run["columnKind"] == "unicodeCodePoints"
    assert run["invocations"][0]["executionSuccessful"] is False, "the rule that fails is told"


def test_the_schema_would_tell_of_a_mistake() -> None:
    log = sarif.log(_report(DEPLOYMENT), RULES, HERE)
    log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] = 0
    assert list(VALIDATOR.iter_errors(log))


@pytest.mark.parametrize(
    ("name", "uri"),
    [
        ("a.yaml", "a.yaml"),
        ("./dir/a.yaml", "dir/a.yaml"),
        ("/repository/dir/a.yaml", "dir/a.yaml"),
        ("/elsewhere/a.yaml", "file:///elsewhere/a.yaml"),
        ("../a.yaml", "../a.yaml"),
        ("my dir/ä#?%.yaml", "my%20dir/%C3%A4%23%3F%25.yaml"),
        ("c:d.yaml", "c%3Ad.yaml"),
        ("<stdin>", "%3Cstdin%3E"),
    ],
)
def test_paths_are_references(name: str, uri: str) -> None:
    run = _log(_report(DEPLOYMENT, names=(name,)))
    assert {one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in run["results"]} == {uri}


CHANGES = {
    "as it is": DEPLOYMENT,
    "CRLF": DEPLOYMENT.replace("\n", "\r\n"),
    "byte order mark": "\ufeff" + DEPLOYMENT,
    "wide": DEPLOYMENT.replace("# the engine", "# 日本語 😀"),
    "no last line end": DEPLOYMENT.rstrip("\n"),
}


@pytest.mark.parametrize("text", CHANGES.values(), ids=CHANGES)
def test_a_viewer_that_makes_a_fix_makes_what_fix_makes(text: str) -> None:
    report = _report(text)
    with_fix = 0
    for one, told in zip(report.findings, _log(report)["results"], strict=True):
        wanted = fixing.patched(one)
        assert bool(wanted) == ("fixes" in told)
        if not wanted:
            continue
        with_fix += 1
        [change] = told["fixes"][0]["artifactChanges"]
        assert _replaced(text, change["replacements"]) == wanted[0][1]
        assert ("unsafe" in told["fixes"][0]["description"]["text"]) == (not (one.fix and one.fix.safe))
    assert with_fix >= 4


def _replaced(text: str, replacements: list[dict[str, Any]]) -> str:
    """As a viewer does it: lines and columns, from the last to the first."""
    lines = text.removeprefix("\ufeff").split("\n")

    def offset(line: int, column: int) -> int:
        return sum(len(one) + 1 for one in lines[: line - 1]) + column - 1

    mark = "\ufeff" if text.startswith("\ufeff") else ""
    new = text.removeprefix("\ufeff")
    for one in reversed(replacements):
        region = one["deletedRegion"]
        start = offset(region["startLine"], region["startColumn"])
        end = offset(region["endLine"], region["endColumn"])
        new = new[:start] + one["insertedContent"]["text"] + new[end:]
    return mark + new


@given(st.text(alphabet="ab\n\r é", max_size=40), st.text(alphabet="ab\n\r é", max_size=40))
def test_the_difference_of_two_texts_makes_the_second_of_the_first(before: str, after: str) -> None:
    new = before
    parts = list(sarif.replaced(before, after))
    assert parts == sorted(parts)
    for start, end, text in reversed(parts):
        new = new[:start] + text + new[end:]
    assert new == after
    assert (parts == []) == (before == after)


def test_fixes_of_very_much_text_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sarif, "_MOST_WORK", len(DEPLOYMENT))
    results = _log(_report(DEPLOYMENT))["results"]
    assert sum("fixes" in one for one in results) == 1
