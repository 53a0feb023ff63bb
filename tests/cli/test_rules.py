"""`glowplug rules`: the list, and a rule explained."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from glowplug.cli import markdown
from glowplug.lint import documentation, registry
from tests.cli.conftest import Call

ROOT = Path(__file__).resolve().parents[2]


def test_the_table_has_each_rule_with_its_severity(call: Call) -> None:
    answer = call("rules")
    assert answer.status == 0
    for name, rule in registry.RULES.items():
        [line] = [line for line in answer.out.splitlines() if line.split()[:1] == [name]]
        assert line.split()[1] == rule.severity.value
        assert documentation.read(rule).summary in line


@pytest.mark.parametrize("columns", [40, 70, 80, 100, 250])
def test_in_a_terminal_the_table_keeps_to_its_width(call: Call, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr("glowplug.cli.rules.width", lambda: columns)
    answer = call("rules")
    assert max(map(len, answer.out.splitlines())) <= max(columns, 45)
    words = answer.out.split()
    for name, rule in registry.RULES.items():
        at = words.index(name)
        summary = documentation.read(rule).summary.split()
        assert words[at : at + 2 + len(summary)] == [name, rule.severity.value, *summary]


@pytest.mark.parametrize("arguments", [(), (next(iter(registry.RULES), "none"),)])
@pytest.mark.parametrize("form", ["json", "yaml"])
def test_the_document_obeys_its_schema(call: Call, arguments: tuple[str, ...], form: str) -> None:
    answer = call("rules", *arguments, "-o", form)
    assert answer.status == 0
    value = json.loads(answer.out) if form == "json" else yaml.safe_load(answer.out)
    schema = json.loads((ROOT / "docs/schema/rules-1.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(value)
    names = [one["name"] for one in value["rules"]]
    assert names == (list(arguments) or list(registry.RULES))


@pytest.mark.parametrize("name", list(registry.RULES))
def test_a_rule_is_explained_with_all_its_sections(call: Call, name: str) -> None:
    answer = call("rules", name)
    assert answer.status == 0
    lines = answer.out.splitlines()
    assert lines[0] == name
    assert [line for line in lines if line in documentation.SECTIONS] == list(documentation.SECTIONS)
    example = documentation.read(registry.rule(name)).example.text
    assert "\n".join(f"    {line}".rstrip() for line in example.splitlines()) in answer.out


@pytest.mark.parametrize("name", ["eager-mod", "", "nothing at all", "a" * 10_000, "\x1b[2J"])
def test_an_unknown_rule_is_a_usage_error(call: Call, name: str) -> None:
    answer = call("rules", name)
    assert answer.status == 2
    assert answer.err.startswith("error[rule-unknown]: ")
    assert "\x1b" not in answer.err


def test_markdown_on_a_terminal() -> None:
    text = "# T\n\nOne\ntwo `three`.\n\n- item one\n  goes on\n- item two\n\n```yaml\na:  1\n\n- b\n```\nAfter.\n| a | b |\n"
    shown = re.sub(r"\x1b\[\d+m", "", markdown.terminal(text))
    assert shown.splitlines() == [
        "T", "", "One two `three`.", "", "- item one goes on", "- item two", "",
        "    a:  1", "", "    - b", "After.", "| a | b |",
    ]  # fmt: skip
    assert max(len(line) for line in markdown.terminal("word " * 100).splitlines()) <= 100
