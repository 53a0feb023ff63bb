"""The form that a rule's documentation has: what departs from it is told with the rule's name."""

from __future__ import annotations

import dataclasses

import pytest

from glowplug.lint import documentation
from glowplug.lint.rule import Rule
from tests.lint import samples

GOOD = """`x` is bad.

    ## What it does
    It looks.

    ## Why is this bad
    It costs 3 s.

    ## Example
    ```yaml
    a:
      - `x`
      - 1
    ```
    Finds `` `x` `` in line 2.
    Linted with `--compute auto-mode --size 67GB`.

    ## Use instead
    ```yaml
    a: []
    ```

    ## Fix safety
    No fix: nobody knows.

    ## Source
    vllm#1
    """


def _rule(text: str) -> Rule:
    return dataclasses.replace(samples.EAGER, documentation=text)


def test_the_sections_are_read() -> None:
    read = documentation.read(_rule(GOOD))
    assert read.summary == "`x` is bad."
    assert read.sections["Why is this bad"] == "It costs 3 s."
    assert read.example == documentation.Example("a:\n  - `x`\n  - 1\n", "`x`", 2, "auto-mode", "67GB")
    assert read.instead == documentation.Example("a: []\n", compute="auto-mode", size="67GB")
    assert read.fix_safety == "No fix: nobody knows."
    assert documentation.markdown(read).count("\n## ") == 6


def test_without_words_about_it_karpenter_makes_the_nodes() -> None:
    read = documentation.read(_rule(GOOD.replace("    Linted with `--compute auto-mode --size 67GB`.\n", "")))
    assert (read.example.compute, read.example.size) == ("karpenter", "")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("## Source\n    vllm#1", "", "sections are"),
        ("## Source", "## Sources", "sections are"),
        ("## What it does", "## Why is this bad", "sections are"),
        ("`x` is bad.", "`x` is bad", "no sentence"),
        ("`x` is bad.", "`x` is\n    bad.", "no sentence"),
        ("    It costs 3 s.\n", "", "nothing stands under Why is this bad"),
        ("Finds `` `x` `` in line 2.", "It finds x.", "what the example finds"),
        ("    ```yaml\n    a: []\n    ```", "    a: []", "0 blocks"),
        ("    a: []\n    ```", "    a: []\n    ```\n    ```yaml\n    b: 1\n    ```", "2 blocks"),
        ("--compute auto-mode --size 67GB", "care", "names neither"),
    ],
)
def test_what_departs_is_told(old: str, new: str, told: str) -> None:
    assert old in GOOD
    with pytest.raises(ValueError, match=told) as raised:
        documentation.read(_rule(GOOD.replace(old, new)))
    assert str(raised.value).startswith("eager: ")
