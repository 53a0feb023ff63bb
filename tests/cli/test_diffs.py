"""cli/diffs.py: what `--diff` prints is what `patch` takes, however often a file repeats itself."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from glowplug.cli.diffs import unified

LINES = st.lists(st.sampled_from(["a\n", "b\n", "---\n", "  a\n", "\n", "a\r\n"]), max_size=40)


def _patched(folder: Path, before: str, after: str) -> str:
    file = folder / "f.yaml"
    file.write_bytes(before.encode())
    told = "".join(unified("f.yaml", before, after))
    done = subprocess.run(["patch", "-p0", "--binary", "-s"], cwd=folder, input=told.encode(), capture_output=True)
    assert done.returncode == 0, (done.stdout, told)
    return file.read_bytes().decode()


def test_nothing_is_printed_for_equal_texts() -> None:
    assert list(unified("f.yaml", "a\n", "a\n")) == []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("patch") is None, reason="no patch: apt-get install -y patch")
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=LINES, after=LINES, cut=st.booleans(), at=st.integers(0, 40))
def test_patch_makes_the_one_of_the_other(
    tmp_path: Path, before: list[str], after: list[str], cut: bool, at: int
) -> None:
    edited = [*before[:at], *after[:3], *before[at + 2 :]]
    for new in (after, edited):
        one, other = "".join(before), "".join(new)
        other = other.rstrip("\n") if cut else other
        if one != other:
            assert _patched(tmp_path, one, other) == other


def test_time_grows_with_the_length_only() -> None:
    document = "".join(f"  line-{number % 12}: {number % 7}\n" for number in range(60)) + "---\n"

    def seconds(count: int) -> float:
        before = document * count
        after = before.replace("line-3: 3\n", "line-3: 4\n    more: 1\n")
        began = time.process_time()
        assert sum(1 for _ in unified("f.yaml", before, after)) > count
        return time.process_time() - began

    few = min(seconds(100) for _ in range(3))
    many = min(seconds(1600) for _ in range(2))
    assert many < 100 * few  # the square of sixteen is 256
