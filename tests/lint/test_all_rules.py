"""All rules together, over manifests that nobody wrote: no rule fails, fixing twice is fixing once, what is fixed is still YAML.

The material are the rules' own examples, which between them have all that rules look at, whole and in pieces.
"""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from glowplug.core.errors import BadInputError
from glowplug.lint import documentation, registry, sarif
from glowplug.lint.fixing import Fixed, fix
from glowplug.lint.run import Options, Report, lint
from glowplug.manifests import values
from glowplug.manifests.source import Source
from tests.lint.test_sarif import VALIDATOR

READ = {name: documentation.read(rule) for name, rule in registry.RULES.items()}
TEXTS = {
    f"{name}: {which}": one.text
    for name, read in READ.items()
    for which, one in (("example", read.example), ("instead", read.instead))
}
COMPUTES = ("", "karpenter", "auto-mode", "nodegroup")


def _sound(report: Report) -> None:
    for failure in report.failures:
        raise AssertionError(f"rule {failure.rule} failed") from failure.error
    for one in report.findings:
        assert one.message
        assert one.place.source.cut(one.place.span) == one.place.text
        assert one.line >= 1
        assert one.column >= 1


def _fixed_for_good(sources: list[Source], options: Options, *, unsafe: bool) -> Fixed:
    done = fix(sources, options, unsafe=unsafe)
    _sound(done.report)
    for source in done.sources:
        values.load(source)
    again = fix(done.sources, options, unsafe=unsafe)
    assert [one.text for one in again.sources] == [one.text for one in done.sources]
    return done


@pytest.mark.slow
@pytest.mark.parametrize("compute", COMPUTES)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_every_example_under_every_rule(text: str, compute: str) -> None:
    sources = [Source("a.yaml", text)]
    options = Options(None, compute, 67_000_000_000)
    report = lint(sources, options)
    _sound(report)
    for unsafe in (False, True):
        done = _fixed_for_good(sources, options, unsafe=unsafe)
        left = [one for one in done.findings if one.fixable(unsafe=unsafe)]
        assert left == []


def test_all_examples_at_once_are_one_valid_log() -> None:
    sources = [Source(f"{number}.yaml", text) for number, text in enumerate(TEXTS.values())]
    report = lint(sources, Options(None, "karpenter"))
    _sound(report)
    rules = tuple(registry.RULES.values())
    log = sarif.log(report, rules, Path.cwd())
    assert [error.message for error in VALIDATOR.iter_errors(log)] == []
    assert {one.rule for one in report.findings}
    assert isinstance(VALIDATOR, jsonschema.Draft4Validator)


LINES = sorted({line for text in TEXTS.values() for line in text.splitlines()})
ODD = ["null", "~", "[]", "{}", "''", "1e999", "-1", "0", "true", "0x10", "2001-01-01", "99999999999999999999", "NaN", "&a x", "*a",
       "'$(X)'",
       '"\\0"', "!!int x", "[[]]", "{a: [null]}", "' '", "1Ti", "1.5", "s3://", "S3://b", "é", "'{'", '"{\\"a\\": 1}"']  # fmt: skip


@st.composite
def _broken(draw: st.DrawFn) -> str:
    """An example with some of its values, lines or words gone wrong."""
    text = draw(st.sampled_from(list(TEXTS.values())))
    lines = text.splitlines()
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(lines) - 1))
        line = lines[place]
        match draw(st.sampled_from(["value", "drop", "take", "word", "double"])):
            case "value" if ":" in line:
                lines[place] = f"{line.partition(':')[0]}: {draw(st.sampled_from(ODD))}"
            case "drop" if len(lines) > 1:
                del lines[place]
            case "take":
                other = draw(st.sampled_from(LINES))
                lines[place] = line[: len(line) - len(line.lstrip())] + other.lstrip()
            case "word" if line.split():
                words = line.split(" ")
                words[draw(st.integers(0, len(words) - 1))] = draw(st.sampled_from(ODD))
                lines[place] = " ".join(words)
            case _:
                lines.insert(place, line)
    return "\n".join(lines) + "\n"


@pytest.mark.slow
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(st.lists(_broken(), min_size=1, max_size=2), st.sampled_from(COMPUTES), st.booleans())
def test_no_rule_fails_over_manifests_gone_wrong(texts: list[str], compute: str, unsafe: bool) -> None:
    sources = [Source(f"{number}.yaml", text) for number, text in enumerate(texts)]
    options = Options(None, compute)
    try:
        _sound(lint(sources, options))
    except BadInputError:
        return
    _fixed_for_good(sources, options, unsafe=unsafe)


@pytest.mark.slow
def test_findings_do_not_depend_on_the_order_of_files() -> None:
    """But for which of two equal names counts, of which the examples have many: so each has names of its own here."""
    sources = [
        Source(f"{number:03}.yaml", text.replace("name: vllm", f"name: vllm{number}"))
        for number, text in enumerate(TEXTS.values())
        if text.count("kind: ") == 1 and "kind: Deployment" in text
    ]
    shown = [(one.file, one.line, one.rule) for one in lint(sources, Options(None)).findings]
    assert shown
    assert shown == [(one.file, one.line, one.rule) for one in lint(sources[::-1], Options(None)).findings]
