"""manifests/scalars.py: where each character of a scalar stands, for every way YAML has to write one."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from glowplug.core.errors import BadInputError
from glowplug.manifests.source import Source, Span
from glowplug.manifests.values import Value, load

LINE_ENDS = ("\n", "\r\n", "\r", "\x85", "\u2028", "\u2029")
PIECES = (
    "a",
    "b c",
    " ",
    "\t",
    "é",
    "😀",
    "#",
    " #",
    ": ",
    "-",
    "'",
    "''",
    '"',
    '\\"',
    "\\\\",
    "\\n",
    "\\u00e9",
    "\\U0001f600",
)
MORE = (
    "\\x41",
    "\\\n",
    "\\\r\n  ",
    "\\ ",
    "\\\t",
    "\\N",
    "\\L",
    "\\/",
    "\n",
    "\n  ",
    "\n\n",
    "\r\n",
    "\r",
    "\u2028",
    "\x85 ",
    "   ",
)
RAW = st.lists(st.sampled_from((*PIECES, *MORE)), max_size=12).map("".join)
HEADERS = st.builds(
    "".join,
    st.tuples(
        st.sampled_from("|>"),
        st.sampled_from(("", "-", "+", "2", "1", "3", "-2", "2+", "+1")),
        st.sampled_from(("", " ", " # why")),
        st.sampled_from(LINE_ENDS),
    ),
)
LINES = st.lists(
    st.tuples(
        st.sampled_from(("", " ", "  ", "   ", "    ", "  \t")),
        st.sampled_from(("", "a", "b c", "é😀", "# no comment", "- x", "\t", "d  ")),
        st.sampled_from(LINE_ENDS),
    ).map("".join),
    max_size=6,
).map("".join)
SCALARS = (
    RAW.map('"{}"'.format)
    | RAW.map("'{}'".format)
    | RAW
    | st.builds("{}{}{}".format, HEADERS, LINES, st.sampled_from(("", "  end", "  end\n", "  end\n\n \n")))
)
AROUND = st.sampled_from(
    ("{}", "k: {}", "k: {}\nl: 1\n", "- {}\n- b", "a:\n  - k: {}\n\n# c\nb: 2", "[{}, b]", "{{k: {}}}", "\ufeffk: {}")
)


def scalars(value: Value) -> list[Value]:
    if value.is_mapping:
        return [one for _, child in value.items() for one in scalars(child)]
    if value.is_sequence:
        return [one for child in value.elements() for one in scalars(child)]
    return [value]


def of(text: str) -> Value:
    (document,) = load(Source("t", text))
    return document.get("k") or document


@settings(max_examples=500, deadline=None)
@given(AROUND, SCALARS)
@pytest.mark.slow
def test_what_a_scalar_is_made_of_is_where_its_parts_say(around: str, raw: str) -> None:
    source = Source("t", around.format(raw))
    try:
        documents = load(source)
    except BadInputError:
        assume(False)
    for value in (one for document in documents for one in scalars(document)):
        check(source, value)


def check(source: Source, value: Value) -> None:
    text, span = value.text, value.span
    pieces = [value.part(at, at + 1) for at in range(len(text))]
    at = span.start
    for character, piece in zip(text, pieces, strict=True):
        # Nothing overlaps, and nothing is out of order: every character has its own place.
        assert at <= piece.start < piece.end
        at = piece.end
        assert means(source.cut(piece), character, value.node.style)
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            assert value.part(start, end) == Span(pieces[start].start, pieces[end - 1].end)
        assert value.part(start, start) == Span(pieces[start].start, pieces[start].start)
    last = value.part(len(text), len(text))
    assert last.start == last.end
    assert span.start <= last.start
    if pieces:
        assert last.start == pieces[-1].end


def means(cut: str, character: str, style: str) -> bool:
    """Whether these characters of the source are that one of the text."""
    if cut == character or (style == "'" and cut == "''" and character == "'"):
        return True
    if cut.startswith("\\"):
        return style == '"' and bool(yaml.safe_load(f'"{cut}"') == character)
    return not cut.strip() and character in " \n\u2028\u2029"


CUTS = (
    ("plain", "k: vllm serve", 5, 10, "serve"),
    ("plain over lines", "k: vllm\n   serve  # no\n", 5, 10, "serve"),
    ("the space where lines are joined", "k: vllm\n   serve", 4, 5, "\n   "),
    ("single quotes", "k: 'it''s so'", 2, 5, "''s "),
    ("double quotes", r'k: "a\tb\u00e9c"', 1, 4, r"\tb\u00e9"),
    ("a line that goes on", 'k: "ab\\\n    cd"', 1, 3, "b\\\n    c"),
    ("literal", "k: |\n  a b\n  cd\n", 4, 6, "cd"),
    ("literal over lines", "k: |\n  a b\n  cd\n", 2, 5, "b\n  c"),
    ("literal with an indicator", "a:\n  k: |2\n     x\n    yz\n", 3, 5, "yz"),
    ("literal with CRLF", "k: |\r\n  ab\r\n  cd\r\n", 3, 5, "cd"),
    ("folded", "k: >-\n  ab\n  cd\n", 3, 5, "cd"),
    ("folded with a paragraph", "k: >\n  ab\n\n  cd\n", 2, 4, "\n\n  c"),
    ("folded with indented lines", "k: >\n  ab\n    cd\n", 5, 7, "cd"),
    ("behind characters of four bytes", "k: 😀é \u4e2d'x'", 3, 5, "\u4e2d'"),
    ("behind a byte order mark", "\ufeffk: ab", 1, 2, "b"),
    ("with an anchor", "k: &x !!str ab", 1, 2, "b"),
    ("with tabs", "k:\tab\tcd", 2, 4, "\tc"),
)


@pytest.mark.parametrize(("text", "start", "end", "cut"), [row[1:] for row in CUTS], ids=[row[0] for row in CUTS])
def test_a_part_of_a_scalar(text: str, start: int, end: int, cut: str) -> None:
    value = of(text) if not text.startswith("a:") else of(text).get("a", "k")
    assert value
    assert value.source.cut(value.part(start, end)) == cut


@pytest.mark.parametrize(
    ("text", "before"),
    [
        ("k: ''", "k: '"),
        ('k: ""', 'k: "'),
        ("k: ~", "k: "),
        ("k:", "k:"),
        ("k: !!str", "k: !!str"),
        ("k: |\nl: 1", "k: |"),
    ],
)
def test_an_empty_text_has_its_place_too(text: str, before: str) -> None:
    value = of(text)
    assert value.part(0, 0) == Span(len(before), len(before))


def test_there_is_no_part_beyond_the_text() -> None:
    with pytest.raises(IndexError):
        of("k: abc").part(1, 4)


def test_a_long_script_is_laid_out_once() -> None:
    script = "".join(f"  echo {number} 'é'\n" for number in range(20_000))
    value = of(f"k: |\n{script}")
    ends = [at for at, character in enumerate(value.text) if character == "\n"]
    found = {value.source.cut(value.part(at - 3, at)) for at in ends}
    assert found == {"'é'"}
