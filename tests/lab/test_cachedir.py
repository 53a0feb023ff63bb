"""What takes minutes is built once, whole or not at all, by one builder at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab import cachedir

DEFINITION = {"version": "1"}


def test_the_place_follows_the_variables() -> None:
    assert cachedir.root({"GLOWPLUG_LAB_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}) == Path("/a")
    assert cachedir.root({"XDG_CACHE_HOME": "/b", "HOME": "/c"}) == Path("/b/glowplug-lab")
    assert cachedir.root({"HOME": "/c"}) == Path("/c/.cache/glowplug-lab")


def test_it_is_built_once_and_again_when_its_definition_changes(tmp_path: Path) -> None:
    built: list[Path] = []

    def build(beside: Path, final: Path) -> None:
        built.append(final)
        (beside / "content").write_text("x")

    assert cachedir.find("thing", DEFINITION, base=tmp_path) is None
    first = cachedir.get("thing", DEFINITION, build, base=tmp_path)
    assert cachedir.get("thing", dict(DEFINITION), build, base=tmp_path) == first
    assert cachedir.find("thing", DEFINITION, base=tmp_path) == first
    assert cachedir.get("thing", DEFINITION | {"version": "2"}, build, base=tmp_path) != first
    assert len(built) == 2


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    def build(beside: Path, final: Path) -> None:
        (beside / "half").write_text("x")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        cachedir.get("thing", DEFINITION, build, base=tmp_path)
    assert [path.suffix for path in (tmp_path / "thing").iterdir()] == [".lock"]


_BUILDER = """
import sys, time
from pathlib import Path
from lab import cachedir
def build(beside, final):
    (beside / "half").write_text("x")
    with open(sys.argv[1] + "/builds", "a") as log:
        log.write("b\\n")
    time.sleep(float(sys.argv[2]))
    (beside / "half").rename(beside / "whole")
print(cachedir.get("thing", {"version": "1"}, build, base=Path(sys.argv[1])))
"""


def _builder(base: Path, seconds: float) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", _BUILDER, str(base), str(seconds)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def _builds(base: Path) -> int:
    log = base / "builds"
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_two_builders_build_once(tmp_path: Path) -> None:
    builders = [_builder(tmp_path, 0.3) for _ in range(2)]
    outputs = [builder.communicate(timeout=90)[0] for builder in builders]
    assert outputs[0] == outputs[1] != ""
    assert _builds(tmp_path) == 1


def test_a_killed_build_is_no_product_and_does_not_block(tmp_path: Path) -> None:
    with _builder(tmp_path, 60) as builder:
        deadline = time.monotonic() + 60
        while not _builds(tmp_path):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(builder.pid, signal.SIGKILL)
    assert cachedir.find("thing", DEFINITION, base=tmp_path) is None
    output, _ = _builder(tmp_path, 0).communicate(timeout=90)
    product = Path(output.strip())
    assert [path.name for path in product.iterdir()] == ["whole"]


def test_long_steps_say_that_they_go_on(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cachedir, "_HEARTBEAT_SECONDS", 0.05)
    out = err = ""
    end = time.monotonic() + 60
    with cachedir.step("a long step"):
        while "so far" not in err and time.monotonic() < end:
            time.sleep(0.05)
            out, err = (text + new for text, new in zip((out, err), capsys.readouterr(), strict=True))
    out, err = (text + new for text, new in zip((out, err), capsys.readouterr(), strict=True))
    assert out == ""
    assert err.startswith("lab: a long step …\n")
    assert "so far" in err
    assert "done in" in err
