"""manifests/writing.py: what is printed is what was meant, for every reader, and looks as if a person had written it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from glowplug.core.errors import BadInputError
from glowplug.manifests.writing import noted, plain, stream

LINE_ENDS = "\x85\u2028\u2029"
REFUSED = (*map(chr, (*range(9), *range(0xB, 0x20))), "\ud800", "\udcff", "\ufeff", "\ufffe", "\uffff")
WRITABLE = st.characters(
    exclude_categories=["Cs"], exclude_characters=[one for one in REFUSED if not "\ud800" <= one <= "\udfff"]
)

TEXT = (
    st.text(WRITABLE, max_size=40)
    | st.text(alphabet=f" \na:#-{LINE_ENDS}", max_size=12)
    | st.text(alphabet=" \n\t:#-?'\"{}[]&*!|>%@`,\\=~0xe.", max_size=12)
    | st.text(alphabet="aé :\n", min_size=110, max_size=130)
)
VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
NOTED: Any = st.recursive(
    VALUES,
    lambda inner: (
        st.builds(noted, inner, TEXT) | st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
    ),
    max_leaves=10,
)
DOCUMENTS: Any = st.lists(st.dictionaries(TEXT, NOTED, min_size=1, max_size=4), min_size=1, max_size=3)


@settings(max_examples=100, deadline=None)
@given(DOCUMENTS, TEXT)
def test_a_parser_reads_what_was_meant(documents: list[dict[str, Any]], header: str) -> None:
    text = stream(documents, header)
    assert list(yaml.load_all(text, yaml.SafeLoader)) == [plain(document) for document in documents]
    assert stream(documents, header) == text


@settings(max_examples=150, deadline=None)
@given(st.text())
def test_a_reason_stays_a_comment(why: str) -> None:
    text = stream([{"a": noted({"b": noted([noted(1, why)], why)}, why), "c": [noted({"d": 1}, why)]}], why)
    assert yaml.safe_load(text) == {"a": {"b": [1]}, "c": [{"d": 1}]}


@pytest.mark.parametrize("end", LINE_ENDS)
def test_what_only_some_readers_take_for_a_lines_end_is_escaped(end: str) -> None:
    for text in (f"a\nb{end}c\n", f"a{end}\nb", f"{end}\na", f"a\nb{end}", end):
        line = stream([{"a": text}])
        assert line.isascii()
        assert line.count("\n") == 1
        assert yaml.safe_load(line) == {"a": text}


@pytest.mark.parametrize("character", REFUSED, ids=ascii)
def test_what_no_manifest_can_hold_is_refused(character: str) -> None:
    for value in (character, f"a{character}b", f"a\nb{character}\n"):
        for document in ({"a": value}, {value: 1}, {"a": [noted({"b": value}, "why")]}):
            with pytest.raises(BadInputError, match=rf"U\+{ord(character):04X}"):
                stream([document])


@pytest.mark.parametrize(
    "text",
    [
        *("3000", "1e3", "1E3", "1.5", ".5", "0x1F", "0o17", "017", "0b1", "1_000", "-1", "+1", "12:30:45", "1.", "."),
        *(
            "yes",
            "No",
            "ON",
            "off",
            "y",
            "N",
            "true",
            "False",
            "null",
            "~",
            "Null",
            "2024-01-01",
            ".inf",
            "-.INF",
            ".nan",
        ),
        *(
            "",
            " a",
            "a ",
            "a: b",
            "a #b",
            "{a}",
            "[a]",
            "*a",
            "&a",
            "!a",
            "|",
            ">",
            "%a",
            "@a",
            "`a",
            "- a",
            "? a",
            "<<",
            "=",
        ),
        *("---", "...", "a\tb", "\x7f", "\x9b2J", "\u2028", "#a", "a:", "'a'", '"a"'),
    ],
)
def test_what_some_reader_takes_for_something_else_is_quoted(text: str) -> None:
    line = stream([{"a": text}])
    assert line[3:4] in ("'", '"')
    assert yaml.safe_load(line) == {"a": text}


@pytest.mark.parametrize(
    "text",
    [
        *(
            "80Gi",
            "500m",
            "vllm/vllm-openai:v0.21.0",
            "s3://bucket/model",
            "--port=8000",
            "10.0.0.1",
            "/compile-cache",
            "25%",
        ),
        *(
            '--model-loader-extra-config={"concurrency":17,"distributed":true}',
            "$(POD_UID)",
            "a#b",
            "a b",
            "v1",
            "1.2.3",
        ),
    ],
)
def test_what_every_reader_takes_for_a_string_stays_plain(text: str) -> None:
    assert stream([{"a": text}]) == f"a: {text}\n"


def test_it_reads_as_if_written_by_hand() -> None:
    documents = [
        {
            "kind": "Deployment",
            "spec": noted(
                {
                    "args": ["--a=1", noted("--b", "because of the wire")],
                    "env": [
                        {"name": noted("A", "quoted: a number"), "value": "3000"},
                        {"name": "B", "value": 'say "hi"'},
                    ],
                    "script": "one\n\ntwo\n",
                    "nothing": {},
                    "none": [],
                    "nested": [[1, 2], [{"x": None}]],
                },
                "A reason so long that it is wrapped, since nobody reads a line of more than about a hundred columns in a diff.",
            ),
        },
        {"kind": "Service", "ratio": 1.5, "on": True},
    ]
    assert stream(documents, "First line.\n\nThird.") == (
        """\
# First line.
#
# Third.
kind: Deployment
# A reason so long that it is wrapped, since nobody reads a line of more than about a hundred
# columns in a diff.
spec:
  args:
    - --a=1
    # because of the wire
    - --b
  env:
    # quoted: a number
    - name: A
      value: "3000"
    - name: B
      value: say "hi"
  script: |
    one

    two
  nothing: {}
  none: []
  nested:
    - - 1
      - 2
    - - x: null
---
kind: Service
ratio: 1.5
"on": true
"""
    )


def test_no_yaml_for_what_is_no_json() -> None:
    with pytest.raises(TypeError, match="object"):
        stream([{"a": object()}])
