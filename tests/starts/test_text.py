"""The text for a terminal, as a whole, so that a change of it is seen."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.cli import output
from glowplug.core.documents.start import (
    PHASES,
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
from glowplug.starts.comparison import compare
from glowplug.starts.text import ASCII, comparison_text, start_text

COLD = Start(
    id="a",
    source="run",
    started_at="2025-11-30T09:15:02.000Z",
    workload={"engine": "vllm", "engine_version": "0.32.0", "model": "s3://b/m", "layout": {"tp": 2, "pp": 1}},
    verdict=Verdict(Compile.MISS, 30.0, "no entry was in the cache"),
    phases=(
        Phase("imports", 0.0, 10.0),
        Phase("weights", 10.0, 4.0, bytes=64_000_000_000),
        Phase("compile", 14.0, 30.0),
        Phase("unattributed", 44.0, 4.0),
    ),
    weights=Weights(64_000_000_000, 4.0),
    engine_init_seconds=31.0,
    ready_seconds=48.0,
    publish=PublishResult(PublishOutcome.PUBLISHED, bytes=15_300_000),
)
WARM = Start(
    id="b",
    source="run",
    started_at="2025-11-30T09:16:02.000Z",
    workload={"engine": "vllm"},
    restore=RestoreResult(RestoreOutcome.RESTORED, source="s3://cache", bytes=15_300_000, seconds=0.31),
    verdict=Verdict(Compile.HIT, 2.0),
    phases=(Phase("imports", 0.0, 10.0), Phase("compile", 10.0, 2.0)),
    ready_seconds=12.0,
)


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_a_start():
    assert plain(start_text(COLD, name="vllm.log")) == (
        "vllm 0.32.0 · s3://b/m · tp 2 · vllm.log\n"
        "compile MISS: no entry was in the cache, 30.0 s of compilation\n"
        "ready after 48.0 s  ·  engine init 31.0 s  ·  weights 64 GB in 4.0 s (16.00 GB/s)\n"
        "publish: published, 15.3 MB\n"
        "\n"
        "  imports           10.0 s   21%  ██████████\n"
        "  weights            4.0 s    8%            ████ 64 GB\n"
        "  compile           30.0 s   62%                ██████████████████████████████\n"
        "  unattributed       4.0 s    8%                                              ████"
    )


def test_a_start_in_plain_characters():
    text = plain(start_text(WARM, glyphs=ASCII))
    assert text.isascii()
    assert text == (
        "vllm\n"
        "compile HIT: compiled code came from the cache, loaded in 2.0 s\n"
        "ready after 12.0 s\n"
        "restore: 15.3 MB in 310 ms from s3://cache\n"
        "\n"
        "  imports           10.0 s   83%  ########################################\n"
        "  load compiled      2.0 s   17%                                          ########"
    )


def test_a_hit_that_is_doubted_keeps_the_engines_word():
    text = plain(start_text(replace(WARM, verdict=Verdict(Compile.HIT, 12.0, "loaded, yet 12 s of compilation"))))
    assert "compile HIT: loaded, yet 12 s of compilation, 12.0 s of compilation" in text
    assert "\n  compile " in text


def test_why_a_pod_waits_is_shown_from_its_beginning():
    message = "Unschedulable: 0/2 nodes are available: " + ", ".join(f"{n} node(s) had reason {n}" for n in range(9))
    text = plain(start_text(Start(id="p", source="pod", started_at="", kubernetes={"waiting": message})))
    assert f"waiting: {message}" in text
    endless = Start(id="p", source="pod", started_at="", kubernetes={"waiting": message + "x" * 9000})
    assert f"waiting: {message}" in plain(start_text(endless))
    assert len(plain(start_text(endless))) < 1000


def test_a_start_of_which_nothing_is_known():
    assert plain(start_text(Start(id="a", source="log", started_at=""))) == (
        "engine\ncompile UNKNOWN: no proof of either\nnot seen ready"
    )


def test_a_comparison():
    assert plain(comparison_text([COLD, WARM], compare([COLD, WARM]), ["cold.log", "warm.log"])) == (
        "              cold.log        warm.log\n"
        "verdict           miss             hit\n"
        "imports         10.0 s          10.0 s\n"
        "weights          4.0 s    0.0 s (-4.0)\n"
        "compile         30.0 s   2.0 s (-28.0)\n"
        "unattributed     4.0 s    0.0 s (-4.0)\n"
        "engine init     31.0 s               ?\n"
        "until ready     48.0 s  12.0 s (-36.0)\n"
        "\n"
        "warm.log is faster: compile explains 78% of it (28.0 s · baseline cold.log)"
    )


@given(st.text(max_size=40), st.floats(-1e12, 1e12), st.floats(-1e12, 1e12))
def test_hostile_documents_do_not_steer_the_terminal(word, at, seconds):
    start = Start(
        id=word,
        source=word,
        started_at=word,
        workload={"engine": word, "model": word, "layout": {word: word, "tp": [word]}},
        restore=RestoreResult(RestoreOutcome.FAILED, word, word),
        verdict=Verdict(Compile.MISS, seconds, word + "\x1b]0;owned\x07\n", (word,)),
        phases=(Phase(word, at, seconds), Phase("compile", at, seconds)),
        weights=Weights(5, seconds),
        ready_seconds=seconds,
    )
    text = start_text(start, name=word) + comparison_text([start, start], compare([start, start]), [word, word])
    assert all(letter.isprintable() or letter == "\n" for letter in plain(text))


@pytest.mark.parametrize("name", PHASES)
def test_the_colour_of_each_phase_reaches_a_terminal(name):
    start = Start(id="s", source="pod", started_at="", phases=(Phase(name, 0.0, 1.0),))
    shown = start_text(start)
    assert output._styled(shown) == shown
