"""Evidence against a part: one failure is a suspicion, a good start without it is proof, a bad one clears it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.cache.quarantine import Evidence, Quarantine, Standing, after_failure, after_success, lifted

A, B, C = "a" * 64, "b" * 64, "c" * 64
KEY, OTHER = "1" * 64, "2" * 64
_SOURCE = Path(__file__).parents[2] / "src"

# what happened: (failed or succeeded, key, parts in the tree) …; who is left out afterwards, and of those who is proven bad
STORIES: dict[str, tuple[list[tuple[str, str, set[str]]], set[str], set[str]]] = {
    "nothing happened": ([], set(), set()),
    "good starts": ([("ok", KEY, {A}), ("ok", KEY, {A})], set(), set()),
    "a cold failure": ([("bad", KEY, set())], set(), set()),
    "one failure": ([("bad", KEY, {A, B})], {A, B}, set()),
    "failure, then cold success": ([("bad", KEY, {A, B}), ("ok", KEY, set())], {A, B}, {A, B}),
    "failure, then cold failure": ([("bad", KEY, {A}), ("bad", KEY, set())], set(), set()),
    "failure, then success without one": ([("bad", KEY, {A, B}), ("ok", KEY, {B})], {A}, {A}),
    "success of another key proves nothing": ([("bad", KEY, {A}), ("ok", OTHER, set())], {A}, set()),
    "failure of another key clears nothing": ([("bad", KEY, {A}), ("bad", OTHER, {C})], {A, C}, set()),
    "failure of both, with and without": ([("bad", KEY, {A}), ("bad", KEY, {B})], {B}, set()),
    "proof stays through later failures": (
        [("bad", KEY, {A}), ("ok", KEY, set()), ("bad", KEY, set()), ("bad", KEY, {B})],
        {A, B},
        {A},
    ),
    "proof is revised by a good start with it": (
        [("bad", KEY, {A}), ("ok", KEY, set()), ("ok", KEY, {A})],
        set(),
        set(),
    ),
    "failure twice with it": ([("bad", KEY, {A}), ("bad", KEY, {A})], {A}, set()),
}


@pytest.mark.parametrize("name", STORIES)
def test_stories(name: str, tmp_path: Path) -> None:
    happened, left_out, proven = STORIES[name]
    evidence = Evidence()
    book = Quarantine(tmp_path)
    for number, (end, key, parts) in enumerate(happened):
        evidence = (after_success if end == "ok" else after_failure)(evidence, key, parts, number)
        (book.succeeded if end == "ok" else book.failed)(key, parts)
    assert (evidence.left_out(), evidence.quarantined()) == (left_out, proven)
    assert (book.left_out(), book.read().quarantined()) == (left_out, proven)


STARTS = st.lists(st.tuples(st.booleans(), st.sampled_from([KEY, OTHER]), st.frozensets(st.sampled_from([A, B, C]))))


@given(STARTS)
def test_no_part_is_proven_bad_without_having_been_in_a_failed_start(
    starts: list[tuple[bool, str, frozenset[str]]],
) -> None:
    evidence, failed = Evidence(), set()
    for ok, key, parts in starts:
        used = parts - evidence.left_out()  # what restore does
        failed |= set() if ok else used
        evidence = (after_success if ok else after_failure)(evidence, key, used, 0)
        assert evidence.left_out() <= failed
        assert all(row.standing in Standing for row in evidence.rows.values())


@given(STARTS)
def test_a_person_can_lift_everything(starts: list[tuple[bool, str, frozenset[str]]]) -> None:
    evidence = Evidence()
    for ok, key, parts in starts:
        evidence = (after_success if ok else after_failure)(evidence, key, parts, 0)
    assert lifted(evidence, [A, B, C]) == Evidence()


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"null", b"[]", b'{"schema":"glowplug.quarantine/2","parts":{}}', b'{"schema":"glowplug.quarantine/1"}',
     b'{"schema":"glowplug.quarantine/1","parts":{"' + b"a" * 64 + b'":{"standing":"odd","key_digest":"","since":0}}}',
     b"\xff" * 100, b"[" * 100_000],
)  # fmt: skip
def test_a_damaged_file_is_no_evidence_and_is_replaced(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "quarantine.json").write_bytes(data)
    book = Quarantine(tmp_path)
    assert book.left_out() == frozenset()
    book.failed(KEY, [A])
    assert book.left_out() == {A}


def test_a_directory_that_cannot_be_made_harms_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    book = Quarantine(tmp_path / "file" / "state")
    assert book.left_out() == frozenset()
    assert book.failed(KEY, [A]).left_out() == {A}
    assert book.left_out() == frozenset()


def test_the_file_does_not_grow_without_end(tmp_path: Path) -> None:
    evidence = Evidence()
    for number in range(1200):
        evidence = after_failure(evidence, f"{number:064x}", [f"{number:064x}"], number)
    assert len(evidence.rows) == 1000
    assert f"{1199:064x}" in evidence.rows


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from glowplug.cache import quarantine
from glowplug.cache.quarantine import Quarantine
quarantine._LOCK_SECONDS = 60.0
for number in range(20):
    digest = f"{int(sys.argv[2]) * 100 + number:064x}"
    Quarantine(Path(sys.argv[1])).failed(digest, [digest])
"""
    processes = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path), str(n)], env={"PYTHONPATH": str(_SOURCE)})
        for n in range(1, 5)
    ]
    assert [process.wait() for process in processes] == [0] * 4
    assert len(Quarantine(tmp_path).left_out()) == 80
