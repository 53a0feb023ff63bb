"""A lacking part skips with the command that brings it; a required one fails instead. Proved on pytest itself."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests import parts
from tests.repo import tree

_LACKING = """
    from tests import parts
    import dataclasses
    parts.PARTS = dict(parts.PARTS)
    parts.PARTS["browser"] = dataclasses.replace(parts.PARTS["browser"], missing=lambda: "no Chromium", install="get it")
    parts.PARTS["cluster"] = dataclasses.replace(
        parts.PARTS["cluster"], missing=lambda: pytest.fail("asked in vain"), never=lambda: "no such kernel")
    parts.PARTS["s3"] = dataclasses.replace(parts.PARTS["s3"], missing=lambda: "")
    import pytest
    from tests.conftest import *
"""
_TESTS = """
    import pytest
    from tests.parts import requires
    @requires("browser", "s3")
    def test_lacking(): pass
    @requires("s3")
    def test_there(): pass
    @requires("s3")
    def test_skips_by_itself(): pytest.skip("no mood")
    @requires("s3")
    @pytest.mark.xfail(strict=True)
    def test_known(): assert False
    def test_plain(): pass
"""


def _pytest(directory: Path, *arguments: str, require: str = "") -> tuple[int, str]:
    (directory / "conftest.py").write_text(textwrap.dedent(_LACKING))
    (directory / "test_it.py").write_text(textwrap.dedent(_TESTS))
    pytest_alone = [sys.executable, "-m", "pytest", "-c", os.devnull, "-p", "no:cacheprovider", "-rs"]
    done = subprocess.run(
        [*pytest_alone, "--rootdir", str(directory), *arguments, str(directory)],
        env=os.environ
        | {parts.ENVIRONMENT: require, "PYTHONPATH": str(tree.ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_lacking_part_skips_and_says_what_brings_it(tmp_path: Path) -> None:
    status, text = _pytest(tmp_path)
    assert status == 0
    assert "browser: no Chromium; install with: get it" in text
    assert "\n2 passed, 0 failed, 2 skipped" in text


def test_a_required_part_that_is_lacking_fails(tmp_path: Path) -> None:
    status, text = _pytest(tmp_path, require="browser")
    assert status == 1
    assert "GLOWPLUG_TEST_REQUIRE requires browser" in text
    assert "\n2 passed, 1 failed, 1 skipped" in text


def test_a_test_cannot_skip_itself_past_a_required_part(tmp_path: Path) -> None:
    status, text = _pytest(tmp_path, require="s3")
    assert status == 1
    assert "no mood" in text


def test_a_lacking_part_that_nobody_requires_skips_beside_required_ones_that_are_there(tmp_path: Path) -> None:
    status, text = _pytest(tmp_path, "-k", "test_lacking", require="s3")
    assert status == 0, text
    assert "\n0 passed, 0 failed, 1 skipped" in text


def test_a_part_that_nothing_could_bring_here_skips_even_where_it_is_required(tmp_path: Path) -> None:
    beside = """
        import pytest
        from tests.parts import requires
        @requires("cluster")
        def test_impossible(): pass
        @requires("browser", "cluster")
        def test_impossible_and_lacking(): pass
    """
    (tmp_path / "test_other.py").write_text(textwrap.dedent(beside))
    status, text = _pytest(tmp_path, "-k", "impossible", require="cluster,browser")
    assert status == 0, text
    assert text.count("cluster: never on this machine: no such kernel") >= 1
    assert "\n0 passed, 0 failed, 2 skipped" in text
    status, text = _pytest(tmp_path, require="cluster,browser")
    assert status == 1, "what could be installed is still missed"
    assert "\n2 passed, 1 failed, 3 skipped" in text


def test_a_part_is_a_marker(tmp_path: Path) -> None:
    _, text = _pytest(tmp_path, "-m", "not browser", require="browser")
    assert "\n2 passed, 0 failed, 1 skipped" in text


def test_a_misspelt_part_is_an_error_and_not_nothing(tmp_path: Path) -> None:
    status, text = _pytest(tmp_path, require="brwoser")
    assert status == 4
    assert "brwoser" in text
    with pytest.raises(KeyError):
        parts.requires("brwoser")
