"""Lines of a literal block scalar go and come; its style, its indicator and its blank lines stay where the text allows."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glowplug.manifests.edit import Splice, apply
from glowplug.manifests.source import Source
from glowplug.manifests.values import load

KEEPS = {
    "the first line": ("|", "  a b\n  c\n", "a b\n", "", "|", "  c\n"),
    "the last line": ("|", "  a\n  b c\n", "b c\n", "", "|", "  a\n"),
    "a line between blank ones": ("|", "  a\n\n  b\n\n  c\n", "b\n\n", "", "|", "  a\n\n  c\n"),
    "a line before blank ones that are kept": ("|+", "  a\n  b\n\n\n", "b\n", "", "|+", "  a\n\n\n"),
    "the first before blank ones that are kept": ("|+", "  a\n  b\n\n\n", "a\n", "", "|+", "  b\n\n\n"),
    "the last before blank ones that are nobody's": ("|", "  a\n  b\n\n\n", "b\n", "", "|", "  a\n\n\n"),
    "with a digit": ("|2", "     a\n    b\n  c\n", "   a\n", "", "|2", "    b\n  c\n"),
    "with a digit, line ends kept": ("|2+", "     a\n  b\n  c\n\n", "b\n", "", "|2+", "     a\n  c\n\n"),
    "with a digit, no line end": ("|2-", "     a\n  b\n  c\n\n", "b\n", "", "|2-", "     a\n  c\n\n"),
    "with a digit behind the sign": ("|-2", "     a\n  b\n  c\n", "b\n", "", "|-2", "     a\n  c\n"),
    "a sign and two lines more": ("|+", "  a\n  b\n\n", "b", "c\n\nd", "|+", "  a\n  c\n\n  d\n\n"),
    "blank lines with blanks in them": ("|", "  a\n  \n  b\n   \n  c\n", "c", "d", "|", "  a\n  \n  b\n   \n  d\n"),
    "no line end, the last line goes": ("|-", "  a\n  b\n", "\nb", "", "|-", "  a\n"),
}
DEMANDS = {
    "the next line is indented": ("|", "  a\n    b\n  c\n", "a\n", "", "|2", "    b\n  c\n"),
    "the line end goes": ("|", "  a\n  b\n", "\nb\n", "", "|-", "  a\n"),
    "a line end comes": ("|-", "  a\n  b\n", "b", "b\n", "|", "  a\n  b\n"),
    "blank lines become the last": ("|", "  a\n\n  b\n", "b\n", "", "|+", "  a\n\n"),
    "of more blank lines, those that count": ("|-", "  a\n\n  b\n\n\n\n", "b", "", "|+", "  a\n\n"),
}


@pytest.mark.parametrize("comment", ["", "  # why"])
@pytest.mark.parametrize("behind", ["", "k: 1\n", "# c\nk: 1\n"], ids=["the end", "a key", "a comment"])
@pytest.mark.parametrize("eol", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize(
    ("sign", "lines", "part", "to", "sign_after", "after"),
    [*KEEPS.values(), *DEMANDS.values()],
    ids=[*KEEPS, *DEMANDS],
)
def test_the_scalar_stays_a_literal(
    sign: str, lines: str, part: str, to: str, sign_after: str, after: str, eol: str, behind: str, comment: str
) -> None:
    text = f"a: {sign}{comment}\n{lines}{behind}".replace("\n", eol)
    wanted = f"a: {sign_after}{comment}\n{after}{behind}".replace("\n", eol)
    (document,) = load(Source("t", text))
    script = document.get("a")
    assert script is not None
    at = script.text.index(part)
    assert apply(Source("t", text), [Splice(script, at, at + len(part), to)]) == wanted


def test_in_a_list_its_lines_count_from_the_dash() -> None:
    text = "args:\n- |\n  a\n    b\n  c\n- x\n"
    (document,) = load(Source("t", text))
    script = document.get("args", 0)
    assert script is not None
    assert apply(Source("t", text), [Splice(script, 0, 2, "")]) == "args:\n- |2\n    b\n  c\n- x\n"


@pytest.mark.slow
@settings(max_examples=1500, deadline=None)
@given(
    sign=st.sampled_from(["|", "|-", "|+", "|2", "|2-", "|2+", "|-2", "|+2"]),
    lines=st.lists(st.sampled_from(["  a", "  b c", "    d", "", "  ", "   "]), min_size=1, max_size=6),
    cut=st.tuples(st.integers(0, 40), st.integers(0, 12)),
    to=st.sampled_from(["", "x", "\n", "x\n", "\nx\n y", "  x"]),
    behind=st.sampled_from(["", "k: 1\n"]),
)
def test_any_part_of_any_literal(sign: str, lines: list[str], cut: tuple[int, int], to: str, behind: str) -> None:
    """It says what was meant, others stay, and it is no quoted text unless it has no line to be written in."""
    text = f"a: {sign}\n" + "".join(line + "\n" for line in ["  z", *lines]) + behind
    (document,) = load(Source("t", text))
    script = document.get("a")
    assert script is not None
    start = min(cut[0], len(script.text))
    end = min(start + cut[1], len(script.text))
    meant = script.text[:start] + to + script.text[end:]
    after = apply(Source("t", text), [Splice(script, start, end, to)])
    (found,) = load(Source("t", after))
    assert found.data == {"a": meant, **({"k": 1} if behind else {})}
    if meant.strip(" \n"):
        assert re.match(r"a: \|", after), (text, meant, after)
