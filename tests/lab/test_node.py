"""A new node shares nothing with the first but the paths; the machine itself stays as it was."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.node import Site, can_enter

WAYS = [
    pytest.param(True, id="namespace", marks=pytest.mark.skipif(not can_enter(), reason="no mount namespaces here")),
    pytest.param(False, id="moved"),
]
PRINT = "import os, sys; print(sorted(os.listdir(sys.argv[1])))"


@pytest.fixture(params=WAYS)
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    namespaces: bool = request.param
    cache_root = Path("/compile-cache") if namespaces else tmp_path / "compile-cache"
    yield Site(tmp_path / "site", cache_root, keep=(tmp_path,), namespaces=namespaces)


def test_two_nodes_see_the_same_paths_with_own_content(site: Site) -> None:
    first, second = site.node("first"), site.node("second")
    script = 'umask; for d in "$0" "$HOME" "$TMPDIR" "$XDG_STATE_HOME"; do ls -A "$d" && : > "$d/mark"; done'
    done = first.run(["sh", "-c", script, str(site.cache_root)])
    assert done.returncode == 0, done.stderr
    assert second.run([sys.executable, "-c", PRINT, str(site.cache_root)]).stdout == "[]\n"
    for place in (site.cache_root, site.home, site.state, site.tmp):
        assert "mark" in first.run([sys.executable, "-c", PRINT, str(place)]).stdout
        assert "mark" not in second.run([sys.executable, "-c", PRINT, str(place)]).stdout


def test_the_content_can_be_looked_at_and_copied_from_outside(site: Site) -> None:
    first, second = site.node("first"), site.node("second")
    first.run(["sh", "-c", 'echo kernel > "$0/file"', str(site.cache_root)])
    os.utime(first.cache / "file", ns=(1_234_567_890_123_456_789, 1_234_567_890_123_456_789))
    second.copy_cache_from(first)
    done = second.run(["cat", str(site.cache_root / "file")])
    assert done.stdout == "kernel\n"
    assert (second.cache / "file").stat().st_mtime_ns == 1_234_567_890_123_456_789


def test_a_discarded_node_is_new_when_asked_for_again(site: Site) -> None:
    site.node("first").run(["sh", "-c", ': > "$0/file"', str(site.cache_root)])
    site.node("first").discard()
    assert site.node("first").run([sys.executable, "-c", PRINT, str(site.cache_root)]).stdout == "[]\n"


def test_the_environment_is_the_nodes_own(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    monkeypatch.setenv("VLLM_CACHE_ROOT", "/somewhere")
    env = site.node("first").env({"A": "b"})
    assert not {"XDG_CACHE_HOME", "VLLM_CACHE_ROOT"} & set(env)
    assert (env["A"], env["HOME"], env["TMPDIR"]) == ("b", str(site.home), str(site.tmp))


def test_exit_status_signals_and_unknown_commands_are_the_commands_own(site: Site, tmp_path: Path) -> None:
    node = site.node("first")
    assert node.run(["sh", "-c", "exit 7"]).returncode == 7
    log = tmp_path / "log"
    with node.start(
        ["sh", "-c", "trap 'echo stopped; exit 9' TERM; echo up; while :; do sleep 0.05; done"], log=log
    ) as it:
        _until(lambda: "up" in log.read_text())
        it.signal(signal.SIGTERM)
        _until(lambda: it.poll() == 9)
    assert log.read_text() == "up\nstopped\n"


def test_what_was_started_ends_with_its_block(site: Site, tmp_path: Path) -> None:
    node = site.node("first")
    command = ["sh", "-c", "trap '' TERM; sleep 600 & echo $!; wait"]
    with node.start(command, log=tmp_path / "log", patience=0.2):
        _until(lambda: (tmp_path / "log").read_text().strip().isdigit())
    pid = int((tmp_path / "log").read_text())
    _until(lambda: not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text())


@pytest.mark.skipif(not can_enter(), reason="no mount namespaces here")
def test_a_namespace_leaves_no_mount_point_behind(tmp_path: Path) -> None:
    there_before = Path("/compile-cache").exists(), Path("/node").exists()
    node = Site(tmp_path / "site", keep=(tmp_path,)).node("first")
    assert node.run(["test", "-d", "/compile-cache"]).returncode == 0
    assert (Path("/compile-cache").exists(), Path("/node").exists()) == there_before
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


def _until(holds: object, seconds: float = 60) -> None:
    assert callable(holds)
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
