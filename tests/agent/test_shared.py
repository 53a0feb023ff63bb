"""Shared mode: what is put into the live directory of the guide, and what never is touched there."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from glowplug.agent import shared
from glowplug.agent.settings import Mode
from glowplug.core.clock import Deadline
from glowplug.core.documents.fingerprint import Key
from glowplug.core.errors import UnavailableError
from glowplug.kube.contract import Api
from glowplug.manifests.marks import STARTUP_TAINT
from lab.kube.client import wait_for
from tests.agent import hearing
from tests.agent.hearing import DOMAIN, Heard
from tests.cache import making
from tests.nodestore import making as nodes
from tests.parts import requires


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def live(tmp_path: Path) -> Path:
    path = tmp_path / "disk" / "compile-cache"
    shared.make(path)
    return path


def _hold(root: Path, beside: Path, *names: str, key: Key | None = None, salt: str = "", **said: Any) -> Path:
    """Let the node hold entries; returns a tree as their files are."""
    tree = beside / f"tree-{salt}"
    for name in names or ("e1",):
        making.tree(tree, name, salt=salt)
    nodes.hold(root, key or making.key(), tree, *names, **said)
    return tree


def _fill(root: Path, live: Path) -> shared.Filled:
    return shared.fill(root, [DOMAIN], live, Deadline.after(120))


def test_what_the_node_holds_is_there_as_it_was_compiled(root: Path, live: Path, tmp_path: Path) -> None:
    tree = _hold(root, tmp_path, "e1", "e2")
    done = _fill(root, live)
    assert (done.put, done.left, done.faults) == (2, 0, ())
    assert making.snapshot(live) == making.snapshot(tree)
    assert done.bytes == sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())
    for path in tree.rglob("*"):
        if path.is_file():
            assert (live / path.relative_to(tree)).stat().st_mtime_ns == path.stat().st_mtime_ns


def test_anybody_may_write_all_of_it(root: Path, live: Path, tmp_path: Path) -> None:
    """Engines rewrite what they found, and pods of the guide run as whom they like."""
    _hold(root, tmp_path)
    before = os.umask(0o077)
    try:
        _fill(root, live)
    finally:
        os.umask(before)
    assert stat.S_IMODE(live.stat().st_mode) == 0o1777
    for path in [*live.glob("vllm/**/*"), *live.glob("inductor/**/*"), live / "vllm", live / "inductor"]:
        needed = 0o777 if path.is_dir() else 0o666
        assert path.stat().st_mode & needed == needed, path


@requires("root")
def test_another_user_may_do_what_engines_do(root: Path, live: Path, tmp_path: Path) -> None:
    """Write a file anew under its name, by way of another; add an entry."""
    _hold(root, tmp_path)
    _fill(root, live)
    for path in (tmp_path, *tmp_path.parents):
        if path != Path("/"):
            path.chmod(path.stat().st_mode | 0o011)
    script = (
        "import os, sys; os.setgid(4242); os.setuid(4242); os.chdir(sys.argv[1]); "
        "open('vllm/e1/new', 'w').write('x'); os.replace('vllm/e1/new', 'vllm/e1/model'); "
        "open('vllm/e1/graph0', 'r+').write('y'); os.makedirs('vllm/e9/rank'); os.makedirs('triton/k')"
    )
    done = subprocess.run([sys.executable, "-c", script, str(live)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_entry_that_is_there_is_never_touched(root: Path, live: Path, tmp_path: Path) -> None:
    """Not even the files that it lacks are added."""
    _hold(root, tmp_path, "e1", "e2")
    theirs = live / "vllm" / "e1" / "graph0"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("compiled here")
    theirs.chmod(0o600)
    theirs.parent.chmod(0o755)
    done = _fill(root, live)
    assert (done.put, done.left) == (1, 1)
    assert sorted(path.name for path in (live / "vllm" / "e1").iterdir()) == ["graph0"]
    assert theirs.read_text() == "compiled here"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (theirs, theirs.parent)] == [0o600, 0o755]
    assert (live / "vllm" / "e2" / "model").is_file()
    assert not (live / "inductor" / "e1").exists(), "nobody needs the support of an entry that was left out"


def test_support_that_is_there_stays(root: Path, live: Path, tmp_path: Path) -> None:
    _hold(root, tmp_path)
    theirs = live / "inductor" / "e1" / "kernel0"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("compiled here")
    assert _fill(root, live).put == 1
    assert theirs.read_text() == "compiled here"
    assert (live / "inductor" / "e1" / "kernel1").is_file()


def test_the_second_time_there_is_nothing_to_do(root: Path, live: Path, tmp_path: Path) -> None:
    _hold(root, tmp_path)
    _fill(root, live)
    before = {path: path.stat().st_ino for path in live.rglob("*") if path.is_file()}
    done = _fill(root, live)
    assert (done.put, done.left, done.faults) == (0, 1, ())
    assert {path: path.stat().st_ino for path in live.rglob("*") if path.is_file()} == before


def test_what_an_agent_was_killed_over_is_completed(root: Path, live: Path, tmp_path: Path) -> None:
    tree = _hold(root, tmp_path)
    _fill(root, live)
    (live / "vllm" / "e1" / "model").unlink()  # the index file, which comes last
    assert _fill(root, live).put == 1
    assert making.snapshot(live) == making.snapshot(tree)


def test_killed_at_any_moment_it_leaves_no_entry_that_lacks_something(root: Path, tmp_path: Path) -> None:
    """A process is killed sooner and later; whoever finds the index file finds all the rest."""
    tree = _hold(root, tmp_path, "e1", "e2", "e3")
    wanted = making.snapshot(tree)
    script = (
        "import sys, time, os\nfrom pathlib import Path\nfrom glowplug.agent import shared\n"
        "from glowplug.core.clock import Deadline\noriginal = os.rename\n"
        "def rename(*a, **k):\n    print('step', flush=True); time.sleep(0.002); original(*a, **k)\nos.rename = rename\n"
        "shared.fill(Path(sys.argv[1]), ['default'], Path(sys.argv[2]), Deadline.after(60))\n"
    )
    for steps in (1, 4, 9, 15, 21):
        live = tmp_path / f"live{steps}"
        shared.make(live)
        with subprocess.Popen([sys.executable, "-c", script, root, live], stdout=subprocess.PIPE) as running:
            assert running.stdout is not None
            for _ in range(steps):
                running.stdout.readline()
            running.kill()
        found = making.snapshot(live)
        assert found.items() <= wanted.items()
        for name in ("e1", "e2", "e3"):
            if f"vllm/{name}/model" in found:
                assert {path for path in wanted if f"/{name}/" in path} <= set(found)
        assert _fill(root, live).faults == ()
        assert making.snapshot(live) == wanted


def test_what_was_made_under_another_path_is_left_out(root: Path, live: Path, tmp_path: Path) -> None:
    """Absolute paths are in the artifacts."""
    _hold(root, tmp_path, key=making.key(cache_root="/elsewhere"))
    assert _fill(root, live) == shared.Filled()
    assert making.snapshot(live) == {}


def test_a_blocked_key_is_left_out(root: Path, live: Path, tmp_path: Path) -> None:
    _hold(root, tmp_path, blocked="two starts rejected it")
    assert _fill(root, live) == shared.Filled()


def test_of_two_that_claim_one_path_the_newer_is_there_whole(root: Path, live: Path, tmp_path: Path) -> None:
    """vLLM's AOT directory names no GPU, so that two keys may have one path."""
    _hold(root, tmp_path, salt="old", created="2026-11-01T00:00:00.000Z")
    new = _hold(root, tmp_path, key=making.key(torch="2.12.0"), salt="new", created="2026-11-02T00:00:00.000Z")
    done = _fill(root, live)
    assert (done.put, done.left) == (1, 1)
    assert making.snapshot(live) == making.snapshot(new)


def test_another_domain_is_left_out(root: Path, live: Path, tmp_path: Path) -> None:
    _hold(root, tmp_path, key=making.key(domain="other"))
    assert _fill(root, live) == shared.Filled()


@pytest.mark.parametrize("what", ["vllm", "vllm/e1"])
def test_a_link_leads_nowhere(root: Path, live: Path, tmp_path: Path, what: str) -> None:
    """Pods write this directory, so they can put links into it."""
    _hold(root, tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (live / what).parent.mkdir(exist_ok=True)
    (live / what).symlink_to(outside)
    done = _fill(root, live)
    assert (done.put, len(done.faults)) == (0, 1)
    assert list(outside.iterdir()) == []


def test_a_file_in_the_way_costs_the_entry(root: Path, live: Path, tmp_path: Path) -> None:
    _hold(root, tmp_path)
    (live / "inductor").write_text("somebody's")
    done = _fill(root, live)
    assert (done.put, len(done.faults)) == (0, 1)
    assert (live / "inductor").read_text() == "somebody's"
    assert not (live / "vllm" / "e1" / "model").exists()


@pytest.mark.parametrize("what", ["file", "link", "directory", "theirs"])
def test_what_pods_make_of_our_name_there_is_of_no_use_to_them(
    root: Path, live: Path, tmp_path: Path, what: str
) -> None:
    """Who owns the directory in which something is unpacked can put a link into its place, many pods run as root as we do."""
    tree = _hold(root, tmp_path)
    own, outside = live / ".glowplug", tmp_path / "outside"
    outside.mkdir()
    if what == "file":
        own.write_text("somebody's")
    elif what == "link":
        own.symlink_to(outside)
    else:
        (own / "work-0").mkdir(parents=True, mode=0o700)
        if what == "theirs" and os.geteuid() == 0:
            os.chown(own, 1234, 1234)
    before = (own.lstat().st_ino, own.lstat().st_mtime_ns, own.lstat().st_uid)
    assert (_fill(root, live).put, list(outside.iterdir())) == (1, [])
    assert (own.lstat().st_ino, own.lstat().st_mtime_ns, own.lstat().st_uid) == before
    if own.is_dir() and what != "link":
        assert [path.name for path in own.iterdir()] == ["work-0"]
    assert {path: made for path, made in making.snapshot(live).items() if path != ".glowplug"} == making.snapshot(tree)


def test_nothing_is_unpacked_where_pods_write(root: Path, live: Path, tmp_path: Path) -> None:
    tree = _hold(root, tmp_path)
    _fill(root, live)
    assert {path.name for path in live.iterdir()} == {path.name for path in tree.iterdir()}


def test_on_another_mount_it_is_the_same(root: Path, tmp_path: Path) -> None:
    """As in the agent's pod, whose two directories of the node are two mounts."""
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("this machine has one file system only")
    tree = _hold(root, tmp_path, "e1", "e2")
    live = Path(tempfile.mkdtemp(dir=other)) / "compile-cache"
    try:
        shared.make(live)
        done = _fill(root, live)
        assert (done.put, done.left, done.faults) == (2, 0, ())
        assert making.snapshot(live) == making.snapshot(tree)
        assert {path.name for path in live.iterdir()} == {path.name for path in tree.iterdir()}
        for path in [*live.glob("vllm/**/*"), *live.glob("inductor/**/*")]:
            needed = 0o777 if path.is_dir() else 0o666
            assert path.stat().st_mode & needed == needed, path
    finally:
        shutil.rmtree(live.parent)


def test_a_damaged_file_of_the_node_store_is_not_passed_on(root: Path, live: Path, tmp_path: Path) -> None:
    _hold(root, tmp_path)
    (victim,) = root.rglob("vllm/e1/graph1")
    content = victim.read_bytes()
    victim.chmod(0o600)
    victim.write_bytes(b"!" + content[1:])
    done = _fill(root, live)
    assert (done.put, len(done.faults)) == (0, 1)
    assert making.snapshot(live) == {}


def test_without_time_nothing_is_begun(root: Path, live: Path, tmp_path: Path) -> None:
    _hold(root, tmp_path)
    done = shared.fill(root, [DOMAIN], live, Deadline.after(0))
    assert done.put == 0
    assert making.snapshot(live) == {}


def test_a_live_directory_that_is_a_link_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir(0o700)
    (tmp_path / "live").symlink_to(tmp_path / "there")
    with pytest.raises(OSError, match=r"directory|symbolic"):
        shared.make(tmp_path / "live")
    assert stat.S_IMODE((tmp_path / "there").stat().st_mode) == 0o700


# As a loop of the agent


class _Node:
    """The API as far as a taint concerns it: the node's own changes are what is asked about here (test_taint asks a real one)."""

    def __init__(self, *, away: bool = False) -> None:
        self.taints = [{"key": STARTUP_TAINT, "effect": "NoSchedule"}]
        self._away = away

    def node(self, name: str) -> dict[str, Any]:
        if self._away:
            raise UnavailableError("no API server")
        metadata = {"name": name, "creationTimestamp": "2026-11-30T20:00:00Z"}
        return {"metadata": metadata, "spec": {"taints": self.taints}}

    def patch_node(self, _name: str, _operations: object) -> None:
        self.taints = []


class _Fetch:
    """Whether the first fetch is done; and how often that was asked."""

    def __init__(self, *, done: bool = False) -> None:
        self.done = done
        self.asked = 0

    def unready(self) -> str:
        self.asked += 1
        return "" if self.done else "fetching"

    def wait_until_asked(self, times: int) -> None:
        before = self.asked
        wait_for(30, f"asked {times} times more", lambda: self.asked >= before + times)


@contextmanager
def _running(
    root: Path, live: Path, node: _Node, fetch: _Fetch, heard: Heard, **changes: Any
) -> Iterator[threading.Event]:
    """The loop of shared mode; whoever sets `stop`, or leaves the block, ends it, and that it has ended is certain then."""
    settings = hearing.settings(root, mode=Mode.SHARED, shared_dir=live, taint=STARTUP_TAINT, **changes)
    stop = threading.Event()
    loop = threading.Thread(target=shared.run, args=(settings, cast("Api", node), heard, fetch.unready, stop))
    loop.start()
    try:
        yield stop
    finally:
        stop.set()
        loop.join(60)
    assert not loop.is_alive()


def test_the_taint_goes_after_the_directory_is_filled(root: Path, tmp_path: Path) -> None:
    tree = _hold(root, tmp_path)
    node, heard, fetch = _Node(), Heard(), _Fetch()
    live = tmp_path / "live"
    with _running(root, live, node, fetch, heard):
        fetch.wait_until_asked(2)
        assert node.taints
        assert live.is_dir()
        assert making.snapshot(live) == {}
        fetch.done = True
        wait_for(30, "the taint is gone", lambda: not node.taints)
        assert making.snapshot(live) == making.snapshot(tree)
    assert heard.of("taint") == [("removed",)]


def test_what_was_put_there_is_told(root: Path, tmp_path: Path) -> None:
    tree = _hold(root, tmp_path, "e1", "e2", "e3")
    live, node, heard = tmp_path / "live", _Node(), Heard()
    shared.make(live)
    theirs = live / "vllm" / "e1" / "graph0"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("compiled here")
    (victim,) = root.rglob("vllm/e3/graph1")
    victim.chmod(0o600)
    victim.write_bytes(b"!" + victim.read_bytes()[1:])
    with _running(root, live, node, _Fetch(done=True), heard):
        wait_for(30, "the taint is gone", lambda: not node.taints)
    size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file() and "e2" in path.parts)
    assert heard.of("filled") == [(1, 1, 1, size)]


@pytest.mark.parametrize(
    "changes",
    [{"prewarm_seconds": 0.1}, {"kept": False}, {"observe": True}],
    ids=["out of time", "no instance store", "observe"],
)
def test_the_taint_goes_whatever_became_of_the_fetch(root: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    node = _Node()
    with _running(root, tmp_path / "live", node, _Fetch(), Heard(), **changes):
        wait_for(30, "the taint is gone", lambda: not node.taints)


def test_the_taint_goes_where_the_directory_cannot_be_made(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    node, heard = _Node(), Heard()
    with _running(root, tmp_path / "file" / "live", node, _Fetch(done=True), heard):
        wait_for(30, "the taint is gone", lambda: not node.taints)
    assert {what for what, _ in heard.of("failed")} == {"shared"}


def test_an_end_before_it_is_warm_leaves_the_taint(root: Path, tmp_path: Path) -> None:
    """The next agent of the node removes it, or `release`."""
    node, heard, fetch = _Node(), Heard(), _Fetch()
    with _running(root, tmp_path / "live", node, fetch, heard):
        fetch.wait_until_asked(1)
    assert node.taints
    assert heard.of("filled") == []
