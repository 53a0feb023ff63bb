"""The verdict as a table: which facts make which answer, and that any facts make one."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.core.documents.start import Compile, Verdict
from glowplug.engines.adapter import Entry, Trace
from glowplug.observe.verdict import REMADE_SHARE, SLOW_SHARE, Facts, decide, index_digests
from glowplug.tree.model import File, Index

ENTRY = Entry("e1", ("vllm/e1/model",), ("vllm/e1/model", "vllm/e1/more"))
OTHER = Entry("e2", ("vllm/e2/model",), ("vllm/e2/model",))
HALF = dataclasses.replace(ENTRY, incomplete="rank_1 is missing")
SAME = {"vllm/e1/model": "aa"}
CHANGED = {"vllm/e1/model": "bb"}
OPENED = frozenset(["vllm/e1/model"])
LOADED = Trace(loaded=("vllm/e1/model",))


def facts(**given_facts: Any) -> Facts:
    """A start that found ENTRY, left it as it was, and gave no proof of anything."""
    usual: dict[str, Any] = {
        "before": (ENTRY,),
        "after": (ENTRY,),
        "digests_before": SAME,
        "digests_after": SAME,
        "opened": frozenset(),
        "support_before": 5,
    }
    return Facts(**(usual | given_facts))


COLD = {"before": (), "digests_before": {}, "support_before": 0, "support_added": 5}

TABLE: list[tuple[str, Compile, str, dict[str, Any]]] = [
    # what nobody can know
    ("nothing opened, nothing said", Compile.UNKNOWN, "no proof", {}),
    ("nobody could watch", Compile.UNKNOWN, "nobody could see", {"opened": None}),
    ("no entry at all", Compile.UNKNOWN, "no entry", COLD | {"after": (), "digests_after": {}}),
    ("a line about a load, and nothing was there", Compile.UNKNOWN, "", COLD | {"trace": LOADED, "after": ()}),
    # a miss
    ("an entry where none was", Compile.MISS, "no entry was in the cache", COLD),
    ("another entry than the one that was there", Compile.MISS, "another entry", {"after": (ENTRY, OTHER)}),
    ("the engine says that it compiled", Compile.MISS, "another entry", {"trace": Trace(compiled=("range",))}),
    # a hit
    ("opened", Compile.HIT, "", {"opened": OPENED}),
    ("the engine says that it loaded", Compile.HIT, "", {"trace": LOADED}),
    ("said, where nobody could watch", Compile.HIT, "", {"trace": LOADED, "opened": None}),
    ("support completed by a hit", Compile.HIT, "", {"opened": OPENED, "support_before": 100, "support_added": 27}),
    ("most of the support made again", Compile.PARTIAL, "support", {"opened": OPENED, "support_added": 27}),
    # partial
    ("opened, and one more compiled", Compile.PARTIAL, "e2", {"opened": OPENED, "after": (ENTRY, OTHER)}),
    ("loaded, and its index changed", Compile.PARTIAL, "model", {"trace": LOADED, "digests_after": CHANGED}),
    ("loaded and compiled", Compile.PARTIAL, "range", {"trace": Trace(loaded=("x",), compiled=("range",))}),
    (
        "without its support",
        Compile.PARTIAL,
        "without its support",
        {"opened": OPENED, "support_before": 0, "support_added": 3},
    ),
    ("incomplete from the start", Compile.PARTIAL, "rank_1", {"before": (HALF,), "opened": OPENED}),
    ("compile output elsewhere", Compile.PARTIAL, "/tmp/x", {"opened": OPENED, "escaped": ("/tmp/x",)}),
    (
        "loaded, and as slow as a cold start",
        Compile.PARTIAL,
        "although the entry was loaded",
        {"trace": dataclasses.replace(LOADED, compile_seconds=30.0), "cold_seconds": 31.0},
    ),
    # rejected
    ("the engine threw it away", Compile.REJECTED, "bad", {"trace": Trace(rejections=("bad",), loaded=("x",))}),
    ("replaced by other bytes without a look", Compile.REJECTED, "replaced", {"digests_after": CHANGED}),
    # disabled
    ("turned off", Compile.DISABLED, "eager", {"disabled": "eager"}),
    ("the engine says that it is off", Compile.DISABLED, "off", {"trace": Trace(disabled="off"), "opened": OPENED}),
    (
        "off, whatever else",
        Compile.DISABLED,
        "eager",
        COLD | {"disabled": "eager", "trace": Trace(rejections=("bad",))},
    ),
]


@pytest.mark.parametrize(
    ("compiled", "words", "given_facts"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_the_table(compiled: Compile, words: str, given_facts: dict[str, Any]) -> None:
    verdict = decide(facts(**given_facts))
    assert verdict.compile is compiled
    assert words in verdict.reason
    assert bool(verdict.reason) is (compiled is not Compile.HIT)


@pytest.mark.parametrize(
    ("share", "compiled"),
    [(0.0, Compile.HIT), (SLOW_SHARE - 0.01, Compile.HIT), (SLOW_SHARE, Compile.PARTIAL), (1.5, Compile.PARTIAL)],
)
def test_seconds_are_measured_by_the_cold_start(share: float, compiled: Compile) -> None:
    trace = dataclasses.replace(LOADED, compile_seconds=100 * share)
    assert decide(facts(trace=trace, cold_seconds=100.0)).compile is compiled
    assert decide(facts(trace=trace)).compile is Compile.HIT, "no yardstick: no accusation"


@pytest.mark.parametrize(("added", "compiled"), [(-1, Compile.HIT), (0, Compile.PARTIAL), (1, Compile.PARTIAL)])
def test_support_that_is_made_again_is_measured_by_all_of_it(added: int, compiled: Compile) -> None:
    limit = round(1000 * REMADE_SHARE)
    verdict = decide(facts(opened=OPENED, support_before=1000 - limit - added, support_added=limit + added))
    assert verdict.compile is compiled


def test_one_whole_entry_beside_an_incomplete_one_may_hit() -> None:
    before = (ENTRY, dataclasses.replace(OTHER, incomplete="half"))
    assert decide(facts(before=before, after=before, opened=OPENED)).compile is Compile.HIT


def test_the_evidence_is_named() -> None:
    verdict = decide(facts(opened=OPENED, after=(ENTRY, OTHER), digests_after=CHANGED, escaped=("/tmp/x",)))
    assert set(verdict.evidence) == {
        "opened vllm/e1/model",
        "new entry e2",
        "changed vllm/e1/model",
        "outside the cache root: /tmp/x",
    }


def test_digests_are_those_of_index_files_that_are_there() -> None:
    index = Index({"vllm/e1/model": File("vllm/e1/model", 1, "aa", 0o644, 0), "x": File("x", 1, "bb", 0o644, 0)})
    assert index_digests((ENTRY, OTHER), index) == SAME


NAMES = st.sampled_from(["e1", "e2", "e3"])
TEXTS = st.lists(st.text(max_size=8), max_size=3).map(tuple)
SECONDS = st.none() | st.floats(0, 1e6)
ENTRIES = st.lists(
    st.builds(
        lambda name, indexed, why: Entry(name, (f"{name}/model",) if indexed else (), (f"{name}/model",), why),
        NAMES,
        st.booleans(),
        st.sampled_from(["", "half"]),
    ),
    max_size=3,
).map(tuple)
DIGESTS = st.dictionaries(NAMES.map(lambda name: f"{name}/model"), st.sampled_from(["aa", "bb"]), max_size=3)
TRACES = st.builds(
    Trace,
    loaded=TEXTS,
    compiled=TEXTS,
    saved=TEXTS,
    rejections=TEXTS,
    disabled=st.sampled_from(["", "off"]),
    compile_seconds=SECONDS,
    lines=TEXTS,
)
ANY = st.builds(
    Facts,
    before=ENTRIES,
    after=ENTRIES,
    digests_before=DIGESTS,
    digests_after=DIGESTS,
    opened=st.none() | st.frozensets(NAMES.map(lambda name: f"{name}/model")),
    trace=TRACES,
    disabled=st.sampled_from(["", "eager"]),
    support_before=st.integers(0, 3),
    support_added=st.integers(0, 3),
    cold_seconds=SECONDS,
    escaped=TEXTS,
)


@given(ANY)
def test_any_facts_make_a_verdict_and_no_hit_without_proof(given_facts: Facts) -> None:
    verdict = decide(given_facts)
    assert isinstance(verdict, Verdict)
    assert decide(given_facts) == verdict
    if verdict.compile in (Compile.HIT, Compile.PARTIAL):
        assert given_facts.before
        assert given_facts.opened or given_facts.trace.loaded
    if verdict.compile is Compile.HIT:
        assert not given_facts.trace.compiled
        assert not given_facts.escaped
        assert not verdict.reason
