"""Phases never overlap, are never negative, and add up to the whole."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.core.documents import codec
from glowplug.core.documents.start import PHASES, Phase
from glowplug.engines.adapter import Trace
from glowplug.observe.timeline import lined_up, timeline

NUMBERS = st.floats(allow_nan=True, allow_infinity=True)
DURATIONS = st.floats(min_value=0, max_value=2000)
MARKS = st.lists(
    st.tuples(st.sampled_from([*PHASES, "nonsense"]), st.one_of(NUMBERS, DURATIONS), st.one_of(NUMBERS, DURATIONS)),
    max_size=12,
)


def spans(phases):
    return [(phase.name, phase.start_seconds, phase.seconds) for phase in phases]


def simple(*marks, restore=None, process=None, ready=None, **trace):
    return timeline(
        Trace(marks=marks, **trace), restore_seconds=restore, process_seconds=process, ready_seconds=ready, source="run"
    )


@given(marks=MARKS, restore=st.none() | DURATIONS, process=st.none() | DURATIONS, ready=st.none() | DURATIONS)
def test_whatever_is_said_phases_add_up_to_ready(marks, restore, process, ready):
    phases = simple(*marks, restore=restore, process=process, ready=ready)
    assert all(phase.seconds > 0 and phase.name in PHASES for phase in phases)
    for first, second in itertools.pairwise(phases):
        assert math.isclose(first.start_seconds + first.seconds, second.start_seconds, abs_tol=1e-6)
    if ready is not None:
        assert math.isclose(sum(phase.seconds for phase in phases), ready, abs_tol=2e-6)


@given(marks=MARKS, ready=DURATIONS)
def test_the_sum_survives_the_rounding_of_documents(marks, ready):
    written = [codec.to_json(phase) for phase in simple(*marks, ready=ready)]
    assert math.isclose(sum(phase["seconds"] for phase in written), round(ready, 6), abs_tol=2e-6)


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, 1e300])
def test_numbers_that_are_no_durations_are_ignored(bad):
    assert spans(simple(("compile", 1.0, bad), ready=4.0)) == [("unattributed", 0.0, 4.0)]
    assert spans(simple(("compile", 1.0, 2.0), restore=bad, ready=4.0))[1] == ("compile", 1.0, 2.0)


def test_nothing_known_is_no_phase():
    assert simple() == ()


def test_what_nobody_explains_is_unattributed_and_stays_where_it_was():
    assert spans(simple(("weights", 5.0, 2.0), ("compile", 8.0, 10.0), ready=20.0)) == [
        ("unattributed", 0.0, 5.0),
        ("weights", 5.0, 2.0),
        ("unattributed", 7.0, 1.0),
        ("compile", 8.0, 10.0),
        ("unattributed", 18.0, 2.0),
    ]


def test_the_restore_ends_where_the_process_starts():
    assert spans(simple(("imports", 0.0, 3.0), restore=2.0, process=2.5, ready=5.5)) == [
        ("process", 0.0, 0.5),
        ("restore", 0.5, 2.0),
        ("imports", 2.5, 3.0),
    ]


def test_without_a_process_moment_it_starts_after_the_restore():
    assert spans(simple(("imports", 0.0, 3.0), restore=2.0, ready=5.0)) == [
        ("restore", 0.0, 2.0),
        ("imports", 2.0, 3.0),
    ]


def test_the_nested_stretch_is_taken_out_of_the_one_around_it():
    assert spans(simple(("warmup", 0.0, 10.0), ("compile", 2.0, 5.0), ready=10.0)) == [
        ("warmup", 0.0, 2.0),
        ("compile", 2.0, 5.0),
        ("warmup", 7.0, 3.0),
    ]


def test_neighbours_that_overlap_by_a_clock_of_whole_seconds_keep_their_length():
    assert spans(simple(("weights", 0.0, 3.4), ("compile", 3.0, 2.0), ready=6.0)) == [
        ("weights", 0.0, 3.4),
        ("compile", 3.4, 2.0),
        ("unattributed", 5.4, 0.6),
    ]


def test_the_engines_seconds_are_cut_at_ready():
    assert spans(simple(("compile", 1.0, 10.0), ready=4.0)) == [("unattributed", 0.0, 1.0), ("compile", 1.0, 3.0)]


def test_bytes_belong_to_the_weights():
    phases = simple(("weights", 0.0, 2.0), ("compile", 2.0, 1.0), ready=3.0, weights_bytes=10**9)
    assert [phase.bytes for phase in phases] == [10**9, None]


def test_an_engine_that_never_got_ready_has_phases_up_to_its_last_word():
    assert spans(simple(("weights", 1.0, 2.0))) == [("unattributed", 0.0, 1.0), ("weights", 1.0, 2.0)]


def test_many_marks_are_cheap():
    marks = [("compile", index * 0.5, 600.0) for index in range(20_000)]
    assert len(simple(*marks, ready=20_000.0)) == 2


def test_what_ended_in_the_same_second_came_one_after_the_other():
    assert spans(simple(("compile", 2.0, 6.0), ("warmup", 7.7, 0.3), ready=9.0)) == [
        ("unattributed", 0.0, 2.0),
        ("compile", 2.0, 6.0),
        ("warmup", 8.0, 0.3),
        ("unattributed", 8.3, 0.7),
    ]


class TestClaimsOfSeveralParties:
    @given(
        claims=st.lists(
            st.builds(
                Phase,
                name=st.sampled_from([*PHASES, "unknown"]),
                start_seconds=st.floats(-10, 1e7) | st.just(math.nan),
                seconds=st.floats(-10, 1e7) | st.just(math.inf),
                bytes=st.none() | st.integers(0, 9),
                source=st.sampled_from(["pod", "engine log"]),
            ),
            max_size=8,
        ),
        end=st.none() | DURATIONS,
    )
    def test_whatever_is_claimed_phases_follow_each_other_until_the_end(self, claims, end):
        phases = lined_up(claims, end)
        at = 0.0
        for phase in phases:
            assert phase.start_seconds == pytest.approx(at, abs=1e-5)
            at = phase.start_seconds + phase.seconds
        if end is not None and end <= 86_400:
            assert at == pytest.approx(end, abs=1e-5)

    def test_the_later_beginning_has_the_moment_and_of_two_the_shorter(self):
        claims = [
            Phase("schedule", 0.0, 10.0, source="pod"),
            Phase("node_launch", 0.0, 7.0, source="pod"),
            Phase("image_pull", 12.0, 8.0, source="pod"),
            Phase("init", 15.0, 1.0, source="pod"),
        ]
        assert [(one.name, one.seconds) for one in lined_up(claims, 21.0)] == [
            ("node_launch", 7.0), ("schedule", 3.0), ("unattributed", 2.0), ("image_pull", 3.0), ("init", 1.0),
            ("image_pull", 4.0), ("unattributed", 1.0),
        ]  # fmt: skip
