"""Which rules a call asks for."""

from __future__ import annotations

import pytest

from glowplug.core.errors import UsageError
from glowplug.lint import registry
from glowplug.lint.rule import AREAS, Rule, Severity

NAMES = {"compile": ("one", "two"), "streaming": ("three",), "kubernetes": ("four",)}
RULES = {
    name: Rule(name, area, Severity.INFO, "", workload=lambda _: iter(())) for area in AREAS for name in NAMES[area]
}


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "RULES", RULES)


@pytest.mark.parametrize(
    ("select", "ignore", "left"),
    [
        ((), (), "one two three four"),
        (("all",), (), "one two three four"),
        (("one",), (), "one"),
        (("compile", "four"), (), "one two four"),
        ((), ("one",), "two three four"),
        ((), ("compile", "three"), "four"),
        ((), ("all",), ""),
        # The more exact word counts, and at the same exactness "ignore" does.
        (("compile",), ("one",), "two"),
        (("one",), ("compile",), "one"),
        (("one",), ("all",), "one"),
        (("one",), ("one",), ""),
        (("compile",), ("compile",), ""),
        (("all",), ("compile",), "three four"),
        (("compile",), ("all",), "one two"),
    ],
)
def test_select_and_ignore(select: tuple[str, ...], ignore: tuple[str, ...], left: str) -> None:
    assert " ".join(one.name for one in registry.chosen(select, ignore)) == left


@pytest.mark.parametrize("name", ["on", "tow", "ONE", "compil", "al"])
def test_an_unknown_name_is_told_with_the_nearest(name: str) -> None:
    nearest = {"on": "one", "tow": "two", "ONE": "one", "compil": "compile", "al": "all"}[name]
    for call in (lambda: registry.rule(name), lambda: registry.chosen((name,)), lambda: registry.chosen((), (name,))):
        with pytest.raises(UsageError) as raised:
            call()
        assert raised.value.code == "rule-unknown"
        assert f"did you mean {nearest}?" in raised.value.hint


def test_a_name_like_no_other_gets_no_guess() -> None:
    with pytest.raises(UsageError) as raised:
        registry.rule("x" * 5000)
    assert "did you mean" not in raised.value.hint
    assert len(raised.value.message) < 200
