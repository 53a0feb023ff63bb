"""The agent's side: what pods may find at any moment, and what is kept when there is not room for everything."""

from __future__ import annotations

import dataclasses
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from glowplug.core.clock import Deadline
from glowplug.core.documents.fingerprint import Key
from glowplug.core.documents.node import NodeKey
from glowplug.core.documents.start import RestoreOutcome
from glowplug.core.errors import BadInputError, IntegrityError
from glowplug.nodestore import layout, write
from glowplug.nodestore.read import NodeStore
from glowplug.nodestore.restore import restore
from glowplug.nodestore.write import Unpacked
from glowplug.tree.index import diff, scan
from tests.cache import making
from tests.clocks import Held
from tests.nodestore import making as nodes

_ADDING = Path(__file__).with_name("adding.py")
_REPOSITORY = Path(__file__).parents[2]


def test_a_key_comes_back_as_it_was_handed_in(root: Path, key: Key, tree: Path) -> None:
    written = nodes.hold(root, key, tree, "e1", "e2", guards={"triton": "3.5.0"})
    held = NodeStore(nodes.mount(root)).held(key.digest())
    assert held is not None
    assert (held.key, held.key_digest, held.blocked, held.parts) == (key, key.digest(), "", written.parts)
    assert held.place == nodes.mount(root) / key.digest()


def test_nothing_that_pods_find_can_be_written(root: Path, key: Key, tree: Path) -> None:
    nodes.hold(root, key, tree)
    for path in (nodes.mount(root) / key.digest()).rglob("*"):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o022, path


def test_adding_the_same_again_moves_nothing(root: Path, key: Key, tree: Path) -> None:
    nodes.hold(root, key, tree)
    place = nodes.mount(root) / key.digest()
    before = {path: path.stat().st_ino for path in place.rglob("*") if path.name not in {layout.KEY, layout.USED}}
    nodes.hold(root, key, tree)
    assert {path: path.stat().st_ino for path in before} == before


def test_parts_that_are_no_longer_named_go(root: Path, key: Key, tree: Path) -> None:
    nodes.hold(root, key, tree, "e1", "e2")
    nodes.hold(root, key, tree, "e2")
    held = NodeStore(nodes.mount(root)).held(key.digest())
    assert held is not None
    names = {path.name for path in held.place.iterdir() if path.is_dir()}
    assert names == {part.sha256 for part in held.parts}
    assert {part.name for part in held.parts} == {"e2", "e2/support"}


def test_a_part_that_nobody_has_changes_nothing(root: Path, key: Key, tree: Path) -> None:
    written = nodes.hold(root, key, tree)
    wrong = dataclasses.replace(written, parts=(*written.parts, dataclasses.replace(written.parts[0], sha256="0" * 64)))
    with pytest.raises(BadInputError):
        write.add(root, nodes.DOMAIN, wrong, {})
    assert NodeStore(nodes.mount(root)).held(key.digest()) is not None


def test_a_table_that_no_reader_accepts_is_refused(root: Path, key: Key, tree: Path) -> None:
    written = nodes.hold(root, key, tree)
    part = dataclasses.replace(written.parts[0], sha256="0" * 64)
    with write.staging(root, nodes.DOMAIN) as work:
        (work / "tree").mkdir()
        files = tuple(dataclasses.replace(item, path=f"../{item.path}") for item in scan(tree).files.values())
        with pytest.raises(IntegrityError):
            write.add(
                root, nodes.DOMAIN, dataclasses.replace(written, parts=(part,)), {part.sha256: Unpacked(work, files)}
            )
    assert NodeStore(nodes.mount(root)).held(key.digest()) is not None


def test_a_key_of_another_domain_is_refused(root: Path, key: Key) -> None:
    with pytest.raises(BadInputError):
        write.add(root, "other", NodeKey(key, key.digest()), {})


@pytest.mark.parametrize("domain", ["", ".", "..", "../x", "a/b", ".glowplug", "x" * 300, "a\0b", "-", "a\n"])
def test_a_domain_that_is_no_directory_is_refused(root: Path, domain: str) -> None:
    with pytest.raises(BadInputError):
        write.prepare(root, domain)
    assert not root.exists()


def test_pods_of_any_user_may_have_an_outbox(root: Path) -> None:
    """Also where kubelet made the directory first, with the mode that it gives to a missing hostPath."""
    layout.outboxes(root).mkdir(parents=True, mode=0o755)
    write.prepare(root, nodes.DOMAIN)
    assert stat.S_IMODE(layout.outboxes(root).stat().st_mode) == 0o1777


class TestTheAgentsWord:
    def test_is_read_as_it_was_written(self, root: Path) -> None:
        written = write.set_node(root, nodes.DOMAIN, "1.2.3", prefetching=True, clock=Held(at=1_790_000_000.5))
        node = NodeStore(nodes.mount(root))
        assert node.node() == written
        assert (written.updated_at, written.prefetching) == ("2026-09-21T14:13:20.500Z", True)
        assert not node.ready()

    def test_ready_can_be_taken_back(self, root: Path) -> None:
        node = NodeStore(nodes.mount(root))
        write.mark_ready(root, nodes.DOMAIN)
        assert node.ready()
        write.unmark_ready(root, nodes.DOMAIN)
        assert not node.ready()

    def test_the_program_is_readable_by_all(self, root: Path) -> None:
        before = os.umask(0o077)
        try:
            write.put_program(root, nodes.DOMAIN, b"program")
        finally:
            os.umask(before)
        program = nodes.mount(root) / "glowplug.pyz"
        assert (program.read_bytes(), stat.S_IMODE(program.stat().st_mode)) == (b"program", 0o644)


class TestRemoving:
    def test_a_key_is_gone(self, root: Path, key: Key, tree: Path) -> None:
        nodes.hold(root, key, tree)
        assert write.remove(root, nodes.DOMAIN, key.digest())
        assert not write.remove(root, nodes.DOMAIN, key.digest())
        assert NodeStore(nodes.mount(root)).held(key.digest()) is None
        assert [path.name for path in nodes.mount(root).iterdir()] == [".glowplug"]

    def test_what_a_killed_agent_was_removing_goes_with_the_next_staging(self, root: Path, tree: Path) -> None:
        half = write.prepare(root, nodes.DOMAIN) / f"{layout.GONE}12"
        tree.rename(half)
        with write.staging(root, nodes.DOMAIN):
            assert not half.exists()


class TestRoom:
    @pytest.fixture
    def keys(self, root: Path, tree: Path) -> list[Key]:
        """Three keys, the first one used last."""
        keys = [making.key(args={"n": str(number)}) for number in range(3)]
        for age, key in enumerate(keys):
            nodes.hold(root, key, tree)
            write.touch(root, nodes.DOMAIN, key.digest(), Held(at=1_700_000_000 - age))
        return keys

    def here(self, root: Path, keys: list[Key]) -> list[int]:
        node = NodeStore(nodes.mount(root))
        return [number for number, key in enumerate(keys) if node.held(key.digest())]

    def test_nothing_goes_while_there_is_enough(self, root: Path, keys: list[Key]) -> None:
        assert write.lru(root, 1 << 40, 1 << 20) == ()
        assert self.here(root, keys) == [0, 1, 2]

    def test_what_was_not_used_for_longest_goes_for_bytes(self, root: Path, keys: list[Key]) -> None:
        size = sum(item.bytes for item in write.usage(root))
        removed = write.lru(root, size - 1, 1 << 20)
        assert [item.key_digest for item in removed] == [keys[2].digest()]
        assert self.here(root, keys) == [0, 1]

    def test_and_for_inodes(self, root: Path, keys: list[Key]) -> None:
        one = write.usage(root)[0]
        assert one.inodes == sum(1 for _ in (nodes.mount(root) / one.key_digest).rglob("*")) + 1
        write.lru(root, 1 << 40, one.inodes)
        assert self.here(root, keys) == [0]

    def test_what_is_kept_stays(self, root: Path, keys: list[Key]) -> None:
        write.lru(root, 0, 0, keep=frozenset({(nodes.DOMAIN, keys[2].digest())}))
        assert self.here(root, keys) == [2]

    def test_a_key_that_was_never_whole_goes_first(self, root: Path, keys: list[Key]) -> None:
        (nodes.mount(root) / ("f" * 64) / "tree").mkdir(parents=True)
        assert write.usage(root)[0].key_digest == "f" * 64

    def test_an_agent_without_a_directory_has_nothing(self, tmp_path: Path) -> None:
        assert write.usage(tmp_path / "absent") == []


def _agent(root: Path, tmp_path: Path) -> subprocess.Popen[str]:
    """An agent that adds one key with the contents of `salt0` and `salt1` in turn, for ever."""
    return subprocess.Popen(
        [sys.executable, _ADDING, root, tmp_path / "salt0", tmp_path / "salt1"],
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": f"{_REPOSITORY}:{_REPOSITORY / 'src'}", "PATH": os.environ["PATH"]},
    )


@pytest.mark.slow
def test_pods_that_restore_while_the_agent_replaces_get_one_content_whole(root: Path, key: Key, tmp_path: Path) -> None:
    wanted = [scan(making.tree(tmp_path / f"salt{salt}", salt=salt)) for salt in ("0", "1")]
    seen = set()
    write.prepare(root, nodes.DOMAIN)
    with _agent(root, tmp_path) as agent:
        try:
            assert agent.stdout is not None
            reading = threading.Thread(target=agent.stdout.read, daemon=True)  # a full pipe would stop it
            reading.start()
            for number in range(40):
                cache_root = tmp_path / f"cache{number}"
                done = restore(
                    NodeStore(nodes.mount(root)), key, {}, cache_root, deadline=Deadline.after(60), wait_seconds=30
                )
                found = scan(cache_root)
                assert done.outcome is RestoreOutcome.RESTORED or not found.files, done
                assert not found.files or any(not diff(one, found) for one in wanted), done
                seen.add((done.outcome, done.reason))
        finally:
            agent.kill()
        reading.join()
    assert (RestoreOutcome.RESTORED, "") in seen
    assert seen <= {(RestoreOutcome.RESTORED, ""), (RestoreOutcome.NONE, "blob_missing")}


@pytest.mark.slow
def test_an_agent_killed_at_any_moment_leaves_a_key_whole_or_not_there(
    root: Path, key: Key, tree: Path, tmp_path: Path
) -> None:
    """What a pod restores is the whole tree of one of the two salts, or nothing."""
    wanted = [scan(making.tree(tmp_path / f"salt{salt}", salt=salt)) for salt in ("0", "1")]
    for moment in range(12):
        agent = _agent(root, tmp_path)
        assert agent.stdout is not None
        for _ in range(1 + moment * 3):
            agent.stdout.readline()
        agent.send_signal(signal.SIGKILL)
        agent.stdout.close()
        agent.wait()
        cache_root = tmp_path / f"cache{moment}"
        done = restore(NodeStore(nodes.mount(root)), key, {}, cache_root, deadline=Deadline.after(60), wait_seconds=0.0)
        found = scan(cache_root)
        if done.outcome is RestoreOutcome.RESTORED:
            assert done.reason == ""
            assert any(not diff(one, found) for one in wanted)
        else:
            assert (done.outcome, done.reason) in {
                (RestoreOutcome.NONE, "node_not_ready"),
                (RestoreOutcome.NONE, "blob_missing"),
            }
            assert not found.files
    nodes.hold(root, key, tmp_path / "salt0")
    done = restore(NodeStore(nodes.mount(root)), key, {}, tmp_path / "last", deadline=Deadline.after(60))
    assert not diff(wanted[0], scan(tmp_path / "last"))


class TestWhatNobodyExpects:
    """A crash of the file system, or a person, leaves other things under the names that are ours."""

    @pytest.mark.parametrize(
        ("name", "work"),
        [
            (layout.READY, lambda root: write.unmark_ready(root, nodes.DOMAIN)),
            (layout.READY, lambda root: write.mark_ready(root, nodes.DOMAIN)),
            (layout.NODE, lambda root: write.set_node(root, nodes.DOMAIN, "1", prefetching=True)),
            (layout.PROGRAM, lambda root: write.put_program(root, nodes.DOMAIN, b"it")),
            *((name, lambda root: write.take_back(root, nodes.DOMAIN)) for name in (layout.NODE, layout.PROGRAM)),
        ],
    )
    def test_a_directory_that_should_be_a_file_goes_first(
        self, root: Path, name: str, work: Callable[[Path], object]
    ) -> None:
        path = write.prepare(root, nodes.DOMAIN) / name
        (path / "in" / "it").mkdir(parents=True)
        work(root)
        assert not path.is_dir()

    @pytest.mark.parametrize("name", ["outbox", "store", f"store/{nodes.DOMAIN}"])
    def test_a_file_that_should_be_a_directory_goes_first(self, root: Path, name: str) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"")
        write.mark_ready(root, nodes.DOMAIN)
        assert (root / name).is_dir()
        assert not list(root.rglob(f"{layout.GONE}*"))

    def test_a_key_that_is_a_file_is_removed_or_replaced(self, root: Path, key: Key, tree: Path) -> None:
        place = write.prepare(root, nodes.DOMAIN) / key.digest()
        place.write_bytes(b"")
        nodes.hold(root, key, tree)
        assert NodeStore(nodes.mount(root)).held(key.digest()) is not None
        assert write.remove(root, nodes.DOMAIN, key.digest())
        place.write_bytes(b"")
        assert write.remove(root, nodes.DOMAIN, key.digest())
        place.symlink_to("nowhere")
        assert write.remove(root, nodes.DOMAIN, key.digest())
        assert not os.path.lexists(place)

    def test_a_key_whose_document_is_a_directory_is_removed(self, root: Path, key: Key) -> None:
        (write.prepare(root, nodes.DOMAIN) / key.digest() / layout.KEY / "in").mkdir(parents=True)
        assert write.remove(root, nodes.DOMAIN, key.digest())
        assert [item.name for item in nodes.mount(root).iterdir()] == []
