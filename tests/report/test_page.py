"""The page holds everything the documents say, nothing that they could do, and nothing from outside."""

from __future__ import annotations

import html.parser
import json
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glowplug import report
from glowplug.core.documents import codec
from glowplug.core.documents.start import (
    Compile,
    Phase,
    PublishOutcome,
    PublishResult,
    RestoreOutcome,
    RestoreResult,
    Start,
    Verdict,
    Weights,
)
from glowplug.core.errors import BadInputError

HOSTILE = "</title></style><script>alert(1)</script><img src=x onerror=alert(1)>\"'&{{7*7}}\x00\x1b[31m\ud800"
VOID = {"meta", "link", "br", "img", "input", "hr"}
SCENARIOS = ("cold", "same_node", "steady", "new_node", "new_node_prewarmed")


class Elements(html.parser.HTMLParser):
    """The elements of a page; refuses tags that do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"unexpected </{tag}>"

    def handle_data(self, data):
        self.words.append(data)


def parsed(page):
    elements = Elements()
    elements.feed(page)
    elements.close()
    assert elements.open == []
    return elements


def a_start(name="start", compile_seconds=30.0, verdict=Compile.MISS, model="s3://models/tiny"):
    phases = (
        Phase("imports", 0.0, 10.0, source="engine log"),
        Phase("weights", 10.0, 2.0, bytes=4_000_000_000),
        Phase("compile", 12.0, compile_seconds),
        Phase("unattributed", 12.0 + compile_seconds, 1.0),
    )
    return Start(
        id=name,
        source="run",
        started_at="2025-11-30T09:15:02.000Z",
        workload={"engine": "vllm", "engine_version": "0.32.0", "model": model},
        key_digest="a" * 64,
        restore=RestoreResult(RestoreOutcome.RESTORED, source="s3://cache", bytes=15_000_000, seconds=0.5),
        verdict=Verdict(verdict, compile_seconds, "no entry was in the cache", ("Cache the graph",)),
        phases=phases,
        weights=Weights(4_000_000_000, 2.0),
        engine_init_seconds=compile_seconds + 1,
        ready_seconds=13.0 + compile_seconds,
        publish=PublishResult(PublishOutcome.PUBLISHED, bytes=4_000_000),
    )


def a_demo():
    rows = []
    for number, scenario in enumerate(SCENARIOS):
        start = a_start(f"s{number}", 30.0 if scenario in {"cold", "new_node"} else 2.0)
        rows.append(
            {
                "scenario": scenario,
                "ready_seconds": start.ready_seconds,
                "engine_init_seconds": start.engine_init_seconds,
                "weights_bytes": 4_000_000_000,
                "weights_seconds": 2.0,
                "verdict": start.verdict.compile.value,
                "start": codec.to_json(start),
            }
        )
    ratios = {"cold_to_prewarmed": 10.33, "prewarmed_to_same_node": 1.01, "prewarmed_to_steady": 1.04}
    return {"schema": "glowplug.demo/1", "rows": rows, "ratios": ratios}


DOCUMENTS = {
    "start": codec.to_json(a_start()),
    "startup": {
        "schema": "glowplug.startup/1",
        "starts": [codec.to_json(a_start("one")), codec.to_json(a_start("two", 2.0, Compile.HIT))],
        "comparison": {},
    },
    "demo": a_demo(),
    "other": {"schema": "glowplug.check/1", "checks": [{"name": "root", "status": "pass", "evidence": {}}]},
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_pages_are_well_formed(name):
    parsed(report.page([DOCUMENTS[name]]))


def test_drawings_are_xml():
    drawings = re.findall(r"<svg.*?</svg>", report.page([DOCUMENTS["demo"]]), re.DOTALL)
    assert len(drawings) > 20
    for drawing in drawings:
        assert ET.fromstring(drawing) is not None  # noqa: S314 - made by us


def test_no_documents_is_a_page():
    assert "No documents." in report.page([])


def test_same_documents_same_bytes():
    assert report.page(list(DOCUMENTS.values())) == report.page(json.loads(json.dumps(list(DOCUMENTS.values()))))


def test_a_page_stands_alone():
    elements = parsed(report.page(list(DOCUMENTS.values())))
    tags = {tag for tag, _ in elements.found}
    assert tags.isdisjoint({"script", "link", "img", "iframe", "object", "embed", "base", "form", "a"})
    page = report.page(list(DOCUMENTS.values()))
    assert not re.search(r"url\(|@import|src=|href=|https?://", page)


def test_the_demonstration_shows_every_row_and_ratio():
    words = " ".join(parsed(report.page([DOCUMENTS["demo"]])).words)
    for told in (
        "Cold",
        "Second start",
        "Steady",
        "New node, glowplug",
        "10.3 ×",
        "1.01 ×",
        "1.04 ×",
        "31.0 s",
        "3.0 s",
    ):
        assert told in words
    assert words.count("until ready") == len(SCENARIOS)


def test_a_comparison_says_what_explains_the_difference():
    words = " ".join(parsed(report.page([DOCUMENTS["startup"]])).words)
    assert "compile explains 100% of it" in words
    assert "-28.0" in words


def test_several_loose_starts_are_compared():
    documents = [codec.to_json(a_start("one")), codec.to_json(a_start("two", 2.0))]
    assert "compile explains" in report.page(documents)


def test_speed_of_the_weights_is_shown():
    assert "2.00 GB/s" in report.page([DOCUMENTS["start"]])


def test_a_demonstration_without_weights_or_starts():
    rows = [
        {"scenario": "cold", "engine_init_seconds": 3.0, "weights_bytes": None, "start": None},
        {"scenario": "mine"},
    ]
    words = " ".join(parsed(report.page([{"schema": "glowplug.demo/1", "rows": rows, "ratios": {}}])).words)
    assert "mine" in words


def poison(value):
    """The document with every text replaced by something hostile, but for the words that are enumerations."""
    kept = {value.value for kind in (Compile, RestoreOutcome, PublishOutcome) for value in kind}
    if isinstance(value, dict):
        return {
            key if key in KEYS else HOSTILE: item if key == "schema" else poison(item) for key, item in value.items()
        }
    if isinstance(value, list):
        return [poison(item) for item in value]
    return HOSTILE if isinstance(value, str) and value not in kept else value


def keys_of(value):
    if isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from keys_of(item)
    if isinstance(value, list):
        for item in value:
            yield from keys_of(item)


KEYS = set(keys_of(list(DOCUMENTS.values())))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_hostile_text_stays_text(name):
    page = report.page([poison(DOCUMENTS[name])], title=HOSTILE)
    elements = parsed(page)
    assert {tag for tag, _ in elements.found}.isdisjoint({"script", "img"})
    assert all(not key.startswith("on") for _, attributes in elements.found for key in attributes)
    assert "alert(1)" in page
    assert "{{7*7}}" in page
    page.encode("utf-8")
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", page)


@settings(max_examples=50, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=12,
    )
)
def test_any_other_document_is_a_table(value):
    parsed(report.page([{"schema": "glowplug.other/1", "value": value}]))


def test_depth_is_no_danger():
    value: object = "deep"
    for _ in range(20_000):
        value = [value]
    assert "<td>deep</td>" in report.page([{"schema": "glowplug.other/1", "value": value}])


def test_long_documents_are_cut():
    page = report.page([{"schema": "glowplug.other/1", "value": list(range(5000))}])
    assert "more</td>" in page


@pytest.mark.parametrize(
    "document",
    [
        {"schema": "glowplug.start/1"},
        {"schema": "glowplug.startup/1", "starts": 3},
        {"schema": "glowplug.demo/1", "rows": [{"scenario": 1}]},
    ],
)
def test_damaged_documents_are_named(document):
    with pytest.raises(BadInputError, match="document 1"):
        report.page([document])


@pytest.mark.parametrize("seconds", [0.0, -5.0, 5e-324, 1e-300, 1e-9, 1e15])
def test_strange_seconds_are_drawn(seconds):
    start = Start(
        id="s",
        source="run",
        started_at="",
        phases=(Phase("compile", 0.0, seconds), Phase("no such phase", -3.0, seconds)),
        ready_seconds=seconds,
        engine_init_seconds=seconds,
        weights=Weights(0, seconds),
    )
    parsed(report.page([codec.to_json(start), codec.to_json(start)]))


@pytest.mark.parametrize("number", [1e308, -1e308, 1e16, float("inf"), float("nan"), 10**400])
@pytest.mark.parametrize(
    "place",
    [
        ("ready_seconds",),
        ("engine_init_seconds",),
        ("phases", 2, "seconds"),
        ("phases", 0, "start_seconds"),
        ("verdict", "compile_seconds"),
        ("weights", "seconds"),
        ("restore", "seconds"),
        ("restore", "bytes"),
        ("publish", "bytes"),
    ],
    ids=lambda place: ".".join(map(str, place)),
)
def test_numbers_that_nobody_measured_are_refused(place, number):
    start = json.loads(json.dumps(codec.to_json(a_start())))
    item = start
    for step in place[:-1]:
        item = item[step]
    assert place[-1] in item
    item[place[-1]] = number
    for documents in (
        [start],
        [DOCUMENTS["start"], start],
        [{"schema": "glowplug.startup/1", "starts": [start], "comparison": {}}],
        [{"schema": "glowplug.demo/1", "rows": [{"scenario": "cold", "start": start}], "ratios": {}}],
    ):
        with pytest.raises(BadInputError):
            report.page(documents)
    assert "ready_seconds" in report.page([{**start, "schema": "glowplug.other/1"}])


def test_control_characters_are_not_in_a_page():
    page = report.page([{"schema": "glowplug.other/1", "a": "x\x1b\x7f\x85\x9b31m"}])
    assert not set(page) & {"\x1b", "\x7f", "\x85", "\x9b"}
