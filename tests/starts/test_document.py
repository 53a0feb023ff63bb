"""Documents from strangers: read, or refused with a sentence that names the file and the place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.core.documents import codec
from glowplug.core.documents.start import Phase, Start
from glowplug.core.errors import BadInputError
from glowplug.starts.document import looks_like_document, names_of, parse, start_of, starts_of

START = codec.to_json(Start(id="a", source="run", started_at="", phases=(Phase("compile", 0.0, 1.5),)))
DEMO = {"schema": "glowplug.demo/1", "rows": [{"scenario": "cold", "start": START}, {"scenario": "x", "start": None}]}
STARTUP = {"schema": "glowplug.startup/1", "starts": [START, START]}


def read(value):
    return starts_of(parse(value if isinstance(value, bytes) else json.dumps(value).encode(), "f.json"), "f.json")


def test_documents_that_hold_starts():
    assert [item.id for item in read(START)] == ["a"]
    assert len(read(STARTUP)) == 2
    assert len(read(DEMO)) == 1
    assert start_of(DEMO, "f").phases[0].seconds == 1.5


def test_names_tell_several_apart():
    assert names_of(START, "f") == ("f",)
    assert names_of(STARTUP, "f") == ("f#1", "f#2")
    assert names_of(DEMO, "f") == ("f#cold",)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"schema": \n "x', "line 2"),
        (b"[" * 100_000, "not JSON"),
        (b"[1]", "object expected, not list"),
        (b'{"seconds": NaN}', "not JSON: NaN"),
        (b'{"seconds": 1e999}', "not JSON: 1e999"),
        (b'{"bytes": ' + b"9" * 30 + b"}", "30 digits"),
        (b'{"schema": "\\ud800"}', "not Unicode"),
        ({}, 'no glowplug document: "schema" is null'),
        ({"schema": 7}, "no glowplug document"),
        ({"schema": "glowplug.plan/1"}, "holds no start"),
        ({"schema": "glowplug.start/2"}, "newer than this glowplug"),
        ({"schema": "glowplug.start/1"}, "field 'id' is missing"),
        ({**START, "phases": [{"name": "x"}]}, r"f.json.phases\[0\]"),
        ({**START, "verdict": {"compile": "maybe"}}, "verdict.compile: unknown value"),
        ({"schema": "glowplug.startup/1", "starts": {}}, "starts: a list expected"),
        ({"schema": "glowplug.startup/1", "starts": [{}]}, r"starts\[0\]"),
        ({"schema": "glowplug.demo/1", "rows": [{"start": {}}]}, r"rows\[0\].start"),
    ],
)
def test_what_is_wrong_is_named(value, told):
    with pytest.raises(BadInputError, match=told) as caught:
        read(value)
    assert caught.value.message.startswith("f.json")


def test_one_start_is_wanted():
    with pytest.raises(BadInputError, match="one start expected, it holds 2"):
        start_of(STARTUP, "f.json")


@pytest.mark.parametrize(
    ("head", "document"),
    [
        (json.dumps(START).encode(), True),
        (json.dumps(START, indent=2).encode()[:20], True),
        (b"  \n{\n", True),
        (b'{"level": "info", "message": "hello"}\n', False),
        (b"INFO 11-30 09:00:00 [a.py:1] x", False),
        (b"", False),
    ],
)
def test_documents_are_told_from_logs(head, document):
    assert looks_like_document(head) is document


@given(
    st.binary(max_size=60)
    | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_any_bytes_are_refused_or_read(data):
    try:
        read(data)
    except BadInputError as error:
        assert error.code == "bad-document"
