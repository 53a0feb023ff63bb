"""The recordings are complete, of one chain each, and tell nothing about the machine they were made on."""

from __future__ import annotations

import itertools
import re

import pytest

from lab import recordings

EVERY = [(name, start) for name in recordings.NAMES for start in recordings.starts(name)]


@pytest.mark.parametrize("name", recordings.NAMES)
def test_each_start_begins_with_the_tree_that_the_one_before_left(name: str) -> None:
    starts = [recordings.load(name, start) for start in recordings.starts(name)]
    assert starts[0].before == ()
    for earlier, later in itertools.pairwise(starts):
        partly = name.endswith("-support-lost")
        assert set(later.before) < set(earlier.after) if partly else later.before == earlier.after


@pytest.mark.parametrize(("name", "start"), EVERY)
def test_each_start_became_ready_and_answered_the_same(name: str, start: str) -> None:
    recording = recordings.load(name, start)
    assert recording.exit_status == 0
    assert "init engine" in recording.engine_init
    assert recording.engine_init in recording.log
    assert recording.token_ids == recordings.load(name, "1-cold").token_ids


@pytest.mark.parametrize(("name", "start"), EVERY)
def test_no_place_of_the_recording_machine_is_named(name: str, start: str) -> None:
    recording = recordings.load(name, start)
    content = recording.log + recordings.log_path(name, start).with_suffix(".json").read_text()
    lines = [line for line in content.splitlines() if " Route: " not in line and " HTTP/1.1" not in line]
    places = set(re.findall(r"(?<![\w/.:])/(?:[\w.+-]+)", "\n".join(lines)))
    known = {
        "/v1",
        "/compile-cache",
        "/node",
        "/tmp",
        "/engine",
        "/checkout",
        "/python",
        "/usr",
        "/dev",
        "/proc",
        "/sys",
    }
    assert places - known == set()
