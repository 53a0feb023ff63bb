"""Several starts: differences, what explains them, limits."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from glowplug.core.documents import codec
from glowplug.core.documents.start import Compile, Phase, Start, Verdict
from glowplug.starts.comparison import compare, exceeds, is_starting, regression


def start(name, ready=None, init=None, **phases):
    placed, at = [], 0.0
    for phase, seconds in phases.items():
        placed.append(Phase(phase, at, seconds))
        at += seconds
    return Start(
        id=name,
        source="log",
        started_at="",
        verdict=Verdict(Compile.MISS),
        phases=tuple(placed),
        ready_seconds=ready,
        engine_init_seconds=init,
    )


def test_rows_are_the_phases_in_their_usual_order():
    compared = compare([start("a", compile=30.0, imports=10.0), start("b", imports=11.0, weights=2.0)])
    assert [row.phase for row in compared.rows] == ["imports", "weights", "compile"]
    assert [row.seconds for row in compared.rows] == [(10.0, 11.0), (0.0, 2.0), (30.0, 0.0)]
    assert [row.difference_seconds for row in compared.rows] == [(0.0, 1.0), (0.0, 2.0), (0.0, -30.0)]


def test_the_phase_that_explains_most():
    explains = compare(
        [start("a", compile=30.0, imports=10.0), start("b", imports=8.0, compile=2.0, weights=1.0)]
    ).explains
    assert (explains.phase, explains.start, explains.seconds) == ("compile", "b", -28.0)
    assert explains.share == pytest.approx(28 / 30, abs=1e-4)


def test_the_start_furthest_from_the_baseline_is_explained():
    explains = compare(
        [start("a", compile=10.0), start("b", compile=11.0), start("c", weights=9.0, compile=10.0)]
    ).explains
    assert (explains.phase, explains.start, explains.share) == ("weights", "c", 1.0)


def test_equal_starts_need_no_explanation():
    assert compare([start("a", compile=10.0), start("b", compile=10.0)]).explains is None


def test_one_start_is_compared_to_itself():
    compared = compare([start("a", compile=10.0)])
    assert compared.baseline == "a"
    assert compared.explains is None
    assert compared.rows[0].difference_seconds == (0.0,)


def test_a_start_without_time_line_has_no_seconds():
    compared = compare([start("a", compile=10.0), start("b")])
    assert compared.rows[0].seconds == (10.0, None)
    assert compared.rows[0].difference_seconds == (0.0, None)
    assert compared.explains is None


def test_nobody_is_faster_than_a_pod_that_is_not_ready():
    done = replace(start("a", 40.0, imports=10.0, compile=30.0), kubernetes={"run": 1})
    young = replace(start("b", imports=2.0), kubernetes={"run": 1})
    for starts in ([done, young], [young, done], [young, replace(young, id="c")]):
        compared = compare(starts)
        assert compared.explains is None
        assert {difference for row in compared.rows for difference in row.difference_seconds} <= {0.0, None}
    (_, compile_row) = compare([done, young]).rows
    assert compile_row.seconds == (30.0, None)
    assert (is_starting(young), is_starting(done)) == (True, False)
    assert not is_starting(replace(young, kubernetes={"run": 1, "ended": "Error"}))
    assert not is_starting(replace(young, kubernetes={"waiting": "Unschedulable"}))


def test_a_start_that_was_seen_ready_is_not_measured_by_one_that_was_not():
    assert compare([start("a", 40.0, compile=30.0), start("b", compile=2.0)]).explains is None


def test_stretches_of_one_phase_add_up():
    one = Start(
        id="a",
        source="log",
        started_at="",
        phases=(Phase("warmup", 0, 1.0), Phase("compile", 1, 2), Phase("warmup", 3, 4)),
    )
    assert compare([one]).rows[1].seconds == (5.0,)


def test_json_has_the_promised_fields():
    value = json.loads(json.dumps(codec.to_json(compare([start("a", compile=3.0), start("b", compile=1.0)]))))
    assert value["baseline"] == "a"
    assert value["rows"] == [{"phase": "compile", "seconds": [3.0, 1.0], "difference_seconds": [0.0, -2.0]}]
    assert (value["explains"]["phase"], value["explains"]["share"]) == ("compile", 1.0)
    assert value["verdicts"] == ["miss", "miss"]


def test_nothing_cannot_be_compared():
    with pytest.raises(ValueError, match="nothing"):
        compare([])


@pytest.mark.parametrize(
    ("ready", "init", "broken"),
    [
        (20.0, 99.0, ""),
        (20.1, 1.0, "ready took 20.1 s"),
        (None, 20.0, ""),
        (None, 21.0, "engine init"),
        (None, None, "known"),
    ],
)
def test_limits(ready, init, broken):
    why = exceeds(start("a", ready, init), 20.0)
    assert broken in why
    assert bool(why) is bool(broken)


@pytest.mark.parametrize(
    ("before", "after", "slower"),
    [
        ((100.0, None), (110.0, None), False),
        ((100.0, None), (110.1, None), True),
        ((5.0, None), (5.9, None), False),
        ((5.0, None), (6.1, None), True),
        ((100.0, None), (20.0, None), False),
        ((100.0, 30.0), (None, 40.0), True),
        ((None, 30.0), (90.0, 30.0), False),
        ((100.0, None), (None, 30.0), True),
    ],
)
def test_a_regression_is_more_than_ten_percent_and_more_than_a_second(before, after, slower):
    assert bool(regression(start("a", *before), start("b", *after))) is slower
