"""Stamps of log lines, as engines and collectors write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.core.clock import from_iso, iso
from glowplug.starts.moments import MomentReader

NOW = from_iso("2025-12-01T12:00:00Z")


def read(*lines, now=NOW):
    reader = MomentReader(now)
    return [None if (moment := reader.read(line).moment) is None else iso(moment) for line in lines]


@pytest.mark.parametrize(
    ("line", "moment"),
    [
        ("INFO 11-30 09:15:02 [file.py:1] text", "2025-11-30T09:15:02.000Z"),
        ("(EngineCore_DP0 pid=441) INFO 11-30 09:15:02 [core.py:1] text", "2025-11-30T09:15:02.000Z"),
        ("\x1b[1;36m(APIServer pid=1)\x1b[0;0m INFO 11-30 09:15:02 [a.py:1] text", "2025-11-30T09:15:02.000Z"),
        ("W1130 09:12:35.202000 12381 torch/utils/flop_counter.py:29] text", "2025-11-30T09:12:35.202Z"),
        ("[W1130 09:04:43.207183681 utils.cpp:68] Warning", "2025-11-30T09:04:43.207Z"),
        ("2025-11-30T09:15:02.123456789Z INFO 11-30 07:15:02 [a.py:1] x", "2025-11-30T09:15:02.123Z"),
        ("2025-11-30T10:15:02.5+01:00 stdout F INFO 11-30 07:15:02 [a.py:1] x", "2025-11-30T09:15:02.500Z"),
        ("[pod/vllm-0/vllm] 2025-11-30T09:15:02Z text", "2025-11-30T09:15:02.000Z"),
        ("[pod/vllm-0/vllm] INFO 11-30 09:15:02 [a.py:1] text", "2025-11-30T09:15:02.000Z"),
        ("vllm-1  | INFO 11-30 09:15:02 [a.py:1] text", "2025-11-30T09:15:02.000Z"),
        ("2025-11-30 09:15:02,123 - root - INFO - text", "2025-11-30T09:15:02.123Z"),
        ("INFO 02-29 09:15:02 [a.py:1] the last leap year", "2024-02-29T09:15:02.000Z"),
        ("INFO:     Application startup complete.", None),
        ("INFO 13-45 09:15:02 [a.py:1] no such day", None),
        ("2025-99-30T09:15:02Z text", None),
        ("", None),
    ],
)
def test_stamps(line, moment):
    assert read(line) == [moment]


def test_a_day_and_a_year_pass():
    assert read(
        "INFO 12-31 23:59:59 [a.py:1] x", "INFO 01-01 00:00:01 [a.py:1] x", now=from_iso("2026-06-01T00:00:00Z")
    ) == [
        "2025-12-31T23:59:59.000Z",
        "2026-01-01T00:00:01.000Z",
    ]


def test_a_year_passes_backwards_between_ranks():
    assert read(
        "INFO 01-01 00:00:01 [a.py:1] x", "INFO 12-31 23:59:59 [a.py:1] x", now=from_iso("2026-06-01T00:00:00Z")
    ) == [
        "2026-01-01T00:00:01.000Z",
        "2025-12-31T23:59:59.000Z",
    ]


def test_a_log_of_december_read_in_january_is_of_last_year():
    assert read("INFO 12-24 18:00:00 [a.py:1] x", now=from_iso("2026-01-05T00:00:00Z")) == ["2025-12-24T18:00:00.000Z"]


def test_pieces_of_a_progress_bar_do_not_change_the_time_zone():
    stamped = "2025-11-30T09:15:02Z INFO 11-30 10:15:02 [a.py:1] x"
    assert read(stamped, "INFO 11-30 10:15:03 [a.py:1] torn off") == ["2025-11-30T09:15:02.000Z", None]


@given(
    st.lists(st.text(max_size=60) | st.from_regex(r"INFO \d\d-\d\d \d\d:\d\d:\d\d \[a"), max_size=6), st.floats(0, 1e11)
)
def test_any_text_is_read(lines, now):
    reader = MomentReader(now)
    for line in lines:
        reader.read(line)
