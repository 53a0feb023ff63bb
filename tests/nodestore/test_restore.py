"""A pod's tree gets whole entries of what its node holds, or nothing and a reason; in time, and never what is damaged."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from glowplug.core import atomic
from glowplug.core.clock import Deadline
from glowplug.core.documents.fingerprint import Key
from glowplug.core.documents.start import RestoreOutcome, RestoreResult
from glowplug.nodestore import layout, write
from glowplug.nodestore import restore as restoring
from glowplug.nodestore.read import Held, NodeStore
from glowplug.nodestore.restore import restore
from glowplug.tree import duplicate as duplicating
from glowplug.tree import room
from glowplug.tree.index import diff, scan
from glowplug.tree.model import Limits
from tests.cache import making
from tests.clocks import Held as HeldClock
from tests.clocks import by, soonest
from tests.nodestore import making as nodes
from tests.parts import requires


def held(node: NodeStore, key: Key) -> Held:
    found = node.held(key.digest())
    assert found is not None
    return found


def tree_of(node: NodeStore, key: Key, name: str) -> Path:
    part = next(part for part in held(node, key).parts if part.name == name)
    return layout.tree(layout.part(node.mount, key.digest(), part.sha256))


def entries_in(cache_root: Path) -> set[str]:
    """The entries that the tree has whole; half of one is none."""
    files = scan(cache_root).files
    names = {path.split("/")[1] for path in files}
    for name in names:
        assert sum(path.split("/")[1] == name for path in files) == 9, f"half of {name}"
    return names


def said(done: RestoreResult) -> tuple[RestoreOutcome, str]:
    return done.outcome, done.reason


def test_everything_arrives_with_times_in_nanoseconds(
    node: NodeStore, key: Key, tree: Path, cache_root: Path, soon: Deadline
) -> None:
    done = restore(node, key, {}, cache_root, deadline=soon)
    assert said(done) == (RestoreOutcome.RESTORED, "")
    wanted, found = scan(tree), scan(cache_root)
    assert not diff(wanted, found)
    assert not diff(wanted, found).rewritten
    assert (done.bytes, done.source) == (wanted.bytes, str(node.mount))
    assert set(done.parts) == {part.sha256 for part in held(node, key).parts}
    assert [path.name for path in (cache_root / ".glowplug").iterdir()] == ["parts"]


def test_the_copy_is_the_pods_own(node: NodeStore, key: Key, cache_root: Path, soon: Deadline) -> None:
    """Writable for its user and group, whatever the node's files are, and no other name of the node's file."""
    restore(node, key, {}, cache_root, deadline=soon)
    copy = cache_root / "vllm" / "e1" / "model"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o664
    assert copy.stat().st_nlink == 1
    copy.write_text("the engine writes")
    assert not (tree_of(node, key, "e1") / "vllm" / "e1" / "model").read_text().startswith("the engine")


class TestASecondRestore:
    def test_finds_everything_present(self, node: NodeStore, key: Key, cache_root: Path, soon: Deadline) -> None:
        first = restore(node, key, {}, cache_root, deadline=soon)
        again = restore(node, key, {}, cache_root, deadline=soon)
        assert (*said(again), again.bytes) == (RestoreOutcome.SKIPPED, "already_present", 0)
        assert set(again.parts) == set(first.parts)

    def test_brings_what_was_lost(
        self, node: NodeStore, key: Key, tree: Path, cache_root: Path, soon: Deadline
    ) -> None:
        restore(node, key, {}, cache_root, deadline=soon)
        (cache_root / "inductor" / "e1" / "kernel0").unlink()
        again = restore(node, key, {}, cache_root, deadline=soon)
        assert (again.outcome, len(again.parts)) == (RestoreOutcome.RESTORED, 1)
        assert not diff(scan(tree), scan(cache_root))

    def test_brings_what_a_stopped_machine_tore(
        self, node: NodeStore, key: Key, tree: Path, cache_root: Path, soon: Deadline
    ) -> None:
        """The length was not on the disk yet, the time stamp was."""
        restore(node, key, {}, cache_root, deadline=soon)
        torn = cache_root / "vllm" / "e1" / "graph2"
        mtime_ns = torn.stat().st_mtime_ns
        os.truncate(torn, 100)
        os.utime(torn, ns=(mtime_ns, mtime_ns))
        restore(node, key, {}, cache_root, deadline=soon)
        assert not diff(scan(tree), scan(cache_root))

    def test_keeps_what_the_engine_wrote_anew(
        self, node: NodeStore, key: Key, cache_root: Path, soon: Deadline
    ) -> None:
        restore(node, key, {}, cache_root, deadline=soon)
        own = cache_root / "inductor" / "e1" / "kernel1"
        own.write_text("of another length")
        assert said(restore(node, key, {}, cache_root, deadline=soon)) == (RestoreOutcome.SKIPPED, "already_present")
        assert own.read_text() == "of another length"

    def test_does_not_wait_for_the_agent(self, node: NodeStore, root: Path, key: Key, cache_root: Path) -> None:
        """A container started again has its tree: that the agent started anew meanwhile is no reason to wait."""
        restore(node, key, {}, cache_root, deadline=Deadline.after(120))
        write.remove(root, nodes.DOMAIN, key.digest())
        write.unmark_ready(root, nodes.DOMAIN)
        clock = HeldClock()
        done = restore(node, key, {}, cache_root, deadline=Deadline.after(30, clock))
        assert said(done) == (RestoreOutcome.NONE, "node_not_ready")
        assert clock.at == 0


def test_an_entry_of_the_trees_own_making_is_not_laid_over(
    node: NodeStore, key: Key, cache_root: Path, soon: Deadline
) -> None:
    making.tree(cache_root, salt="own compile")
    before = scan(cache_root)
    restore(node, key, {}, cache_root, deadline=soon)
    after = scan(cache_root)
    assert all(after.files[path] == item for path, item in before.files.items())
    assert {path.split("/")[1] for path in after.files.keys() - before.files.keys()} == {"e2"}


class TestReasons:
    """The same words as for a store (`cache.restore`)."""

    def test_nothing_is_mounted(self, tmp_path: Path, key: Key, cache_root: Path, soon: Deadline) -> None:
        done = restore(NodeStore(tmp_path / "absent"), key, {}, cache_root, deadline=soon)
        assert said(done) == (RestoreOutcome.NONE, "no_node_store")

    def test_a_node_without_keys(self, root: Path, key: Key, cache_root: Path, soon: Deadline) -> None:
        write.mark_ready(root, nodes.DOMAIN)
        done = restore(NodeStore(nodes.mount(root)), key, {}, cache_root, deadline=soon)
        assert said(done) == (RestoreOutcome.NONE, "no_keys")

    def test_the_nearest_key_names_the_fields(
        self, node: NodeStore, root: Path, tree: Path, cache_root: Path, soon: Deadline
    ) -> None:
        nodes.hold(root, making.key(gpu="NVIDIA L4", torch="2.10.0"), tree)
        other = making.key(torch="2.13.0")
        done = restore(node, other, {}, cache_root, deadline=soon)
        assert said(done) == (RestoreOutcome.NONE, "key:torch")

    def test_a_guard_differs(self, root: Path, key: Key, tree: Path, cache_root: Path, soon: Deadline) -> None:
        nodes.hold(root, key, tree, guards={"triton": "3.5.0", "cuda": "12.9"})
        done = restore(NodeStore(nodes.mount(root)), key, {"triton": "3.6.0"}, cache_root, deadline=soon)
        assert said(done) == (RestoreOutcome.NONE, "guard:triton")

    def test_a_blocked_key(self, root: Path, key: Key, tree: Path, cache_root: Path, soon: Deadline) -> None:
        nodes.hold(root, key, tree, blocked="rejected by 2 starts")
        done = restore(NodeStore(nodes.mount(root)), key, {}, cache_root, deadline=soon)
        assert said(done) == (RestoreOutcome.NONE, "key_blocked")

    def test_a_part_under_suspicion(self, node: NodeStore, key: Key, cache_root: Path, soon: Deadline) -> None:
        """It is not offered, and what an earlier restore put there of it is taken out again."""
        restore(node, key, {}, cache_root, deadline=soon)
        suspects = frozenset(part.sha256 for part in held(node, key).parts if part.name == "e1" or part.of == "e1")
        restore(node, key, {}, cache_root, deadline=soon, skip_parts=suspects)
        assert entries_in(cache_root) == {"e2"}
        every = frozenset(part.sha256 for part in held(node, key).parts)
        done = restore(node, key, {}, cache_root, deadline=soon, skip_parts=every)
        assert said(done) == (RestoreOutcome.NONE, "quarantined")
        assert entries_in(cache_root) == set()

    def test_a_newer_form(self, node: NodeStore, key: Key, cache_root: Path, soon: Deadline) -> None:
        path = layout.key_document(node.mount, key.digest())
        path.write_text(path.read_text().replace('"min_reader":1', '"min_reader":2'))
        assert said(restore(node, key, {}, cache_root, deadline=soon)) == (RestoreOutcome.NONE, "newer_format")

    def test_a_path_that_no_cache_of_the_engine_has(
        self, node: NodeStore, key: Key, cache_root: Path, soon: Deadline
    ) -> None:
        done = restore(node, key, {}, cache_root, deadline=soon, allowed=lambda path: "e1" not in path)
        assert said(done) == (RestoreOutcome.RESTORED, "integrity")
        assert entries_in(cache_root) == {"e2"}

    def test_no_room(
        self, node: NodeStore, key: Key, cache_root: Path, soon: Deadline, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        full = os.statvfs_result((4096, 4096, 100, 2, 2, 100, 100, 100, 0, 255))
        monkeypatch.setattr(room.os, "statvfs", lambda _: full)
        assert said(restore(node, key, {}, cache_root, deadline=soon)) == (RestoreOutcome.FAILED, "no_space")

    def test_limits(self, node: NodeStore, key: Key, cache_root: Path, soon: Deadline) -> None:
        done = restore(node, key, {}, cache_root, deadline=soon, limits=Limits(files=3))
        assert said(done) == (RestoreOutcome.FAILED, "archive_limit")

    def test_out_of_time(self, node: NodeStore, key: Key, cache_root: Path) -> None:
        clock = HeldClock(at=10.0)
        done = restore(node, key, {}, cache_root, deadline=Deadline(10.0, clock))
        assert said(done) == (RestoreOutcome.FAILED, "deadline")
        assert entries_in(cache_root) == set()

    def test_out_of_time_on_the_way_keeps_whole_entries(
        self, node: NodeStore, key: Key, cache_root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = HeldClock()
        placed = restoring.arriving.put

        def put(*arguments: object, **named: object) -> object:
            clock.at += 4
            return placed(*arguments, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(restoring.arriving, "put", put)
        done = restore(node, key, {}, cache_root, deadline=Deadline.after(5, clock))
        assert said(done) == (RestoreOutcome.RESTORED, "deadline")
        assert len(entries_in(cache_root)) == 1


def _other_bytes(path: Path) -> None:
    path.write_bytes(b"X" + path.read_bytes()[1:])


def _shorter(path: Path) -> None:
    os.truncate(path, 5)


def _link(path: Path) -> None:
    elsewhere = path.parents[6] / "elsewhere"
    shutil.copy2(path, elsewhere)
    path.unlink()
    path.symlink_to(elsewhere)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


class TestDamage:
    """A disk that fails, or a hand in the agent's directory: the engine gets no byte of the entry."""

    @pytest.mark.parametrize("damage", [_other_bytes, _shorter, _link, _pipe, _directory])
    @pytest.mark.parametrize("name", ["e1", "e1/support"])
    def test_of_a_file(
        self, node: NodeStore, key: Key, cache_root: Path, damage: Callable[[Path], None], name: str
    ) -> None:
        folder = tree_of(node, key, name)
        damage(next(path for path in sorted(folder.rglob("*")) if path.is_file()))
        with by(60) as deadline:
            done = restore(node, key, {}, cache_root, deadline=deadline)
        assert said(done) == (RestoreOutcome.RESTORED, "integrity")
        assert entries_in(cache_root) == {"e2"}

    @pytest.mark.parametrize(
        "data",
        [b"", b"{", b"[]", b"[" * 200_000, b'{"schema":"glowplug.node-key/1"}', b"\xff", b"{}" + b" " * (2 << 20)],
    )
    def test_of_the_keys_document(
        self, node: NodeStore, key: Key, cache_root: Path, soon: Deadline, data: bytes
    ) -> None:
        layout.key_document(node.mount, key.digest()).write_bytes(data)
        assert said(restore(node, key, {}, cache_root, deadline=soon)) == (RestoreOutcome.FAILED, "integrity")
        assert entries_in(cache_root) == set()

    @pytest.mark.parametrize(
        "change",
        [
            ('"unpacked_bytes":', '"unpacked_bytes":-'),
            ('"unpacked_bytes":', '"unpacked_bytes":' + "9" * 300_000),
            ('"name":"e1"', '"name":"e2"'),
            ('"torch":"2.11.0"', '"torch":"2.12.0"'),
            ('"files":5', '"files":5.0'),
            ('"files":5', '"files":true'),
            ('"vllm/e1/model"', '"../e1/model"'),
            ('"name":"e1"', '"name":"\\ud800"'),
            ('"min_reader":1', '"min_reader":1,"min_reader":1'),
        ],
    )
    def test_of_what_the_document_says(
        self, node: NodeStore, key: Key, cache_root: Path, soon: Deadline, change: tuple[str, str]
    ) -> None:
        path = layout.key_document(node.mount, key.digest())
        text = path.read_text()
        assert change[0] in text
        path.write_text(text.replace(*change, 1))
        assert said(restore(node, key, {}, cache_root, deadline=soon)) == (RestoreOutcome.FAILED, "integrity")
        assert entries_in(cache_root) == set()

    def test_of_a_table(self, node: NodeStore, key: Key, cache_root: Path, soon: Deadline) -> None:
        """Also of what no digest of a file shows: its mode, its time."""
        table = layout.files(tree_of(node, key, "e1").parent)
        table.chmod(0o644)
        table.write_text(table.read_text().replace('"mtime_ns":1000000000000000002', '"mtime_ns":1000000000000000003'))
        done = restore(node, key, {}, cache_root, deadline=soon)
        assert said(done) == (RestoreOutcome.RESTORED, "integrity")
        assert entries_in(cache_root) == {"e2"}


@requires("root")
class TestAsAnotherUser:
    """Images run under any UID; the agent's files are root's."""

    @pytest.fixture
    def shared(self) -> Iterator[Path]:
        """A directory that other users may enter, which a test's own is not."""
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o755)
            yield Path(folder)

    def restored(self, shared: Path, key: Key) -> tuple[str, str, set[str]]:
        """What user 12345, who owns nothing but the cache root, gets of the node store in `shared`."""
        mine = shared / "mine"
        mine.mkdir()
        os.chown(mine, 12345, 12345)
        read, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setgid(12345)
                os.setuid(12345)
                store = NodeStore(nodes.mount(shared / "glowplug"))
                done = restore(store, key, {}, mine / "cache", deadline=Deadline.after(60))
                os.write(write_end, f"{done.outcome.value} {done.reason}".encode())
            finally:
                os._exit(0)
        os.close(write_end)
        with os.fdopen(read, "rb") as handle:
            outcome, _, reason = handle.read().decode().partition(" ")
        os.waitpid(child, 0)
        return outcome, reason, entries_in(mine / "cache")

    def test_everything_arrives(self, shared: Path, key: Key, tree: Path) -> None:
        """Also what the archive's mode gives to owner and group alone, from an agent with a narrow umask."""
        before = os.umask(0o077)
        try:
            nodes.hold(shared / "glowplug", key, tree, "e1", "e2")
        finally:
            os.umask(before)
        assert self.restored(shared, key) == ("restored", "", {"e1", "e2"})
        assert {path.stat().st_uid for path in (shared / "mine" / "cache" / "vllm").rglob("*")} == {12345}

    def test_what_may_not_be_read_is_left_out(self, shared: Path, key: Key, tree: Path) -> None:
        nodes.hold(shared / "glowplug", key, tree, "e1", "e2")
        tree_of(NodeStore(nodes.mount(shared / "glowplug")), key, "e1").chmod(0)
        assert self.restored(shared, key) == ("restored", "access_denied", {"e2"})


class TestWaiting:
    """A pod waits while the agent says that it is fetching, and for an agent that is about to say something, for 15 s at most."""

    @pytest.fixture
    def empty(self, root: Path) -> NodeStore:
        return NodeStore(write.prepare(root, nodes.DOMAIN))

    def waited(self, node: NodeStore, key: Key, cache_root: Path, seconds: float = 30) -> tuple[str, float]:
        clock = HeldClock()
        done = restore(node, key, {}, cache_root, deadline=Deadline.after(seconds, clock))
        return done.reason, clock.at

    def test_not_for_an_agent_that_is_done(self, empty: NodeStore, root: Path, key: Key, cache_root: Path) -> None:
        write.set_node(root, nodes.DOMAIN, "1.0", prefetching=True)
        write.mark_ready(root, nodes.DOMAIN)
        assert self.waited(empty, key, cache_root) == ("no_keys", 0)

    def test_not_for_an_agent_that_does_not_fetch(
        self, empty: NodeStore, root: Path, key: Key, cache_root: Path
    ) -> None:
        write.set_node(root, nodes.DOMAIN, "1.0", prefetching=False)
        assert self.waited(empty, key, cache_root) == ("no_keys", 0)

    def test_not_beyond_its_patience(self, empty: NodeStore, root: Path, key: Key, cache_root: Path) -> None:
        write.set_node(root, nodes.DOMAIN, "1.0", prefetching=True)
        reason, seconds = self.waited(empty, key, cache_root)
        assert reason == "node_not_ready"
        assert seconds == pytest.approx(15)

    def test_nor_beyond_the_deadline(self, empty: NodeStore, key: Key, cache_root: Path) -> None:
        reason, seconds = self.waited(empty, key, cache_root, 3)
        assert reason == "node_not_ready"
        assert seconds == pytest.approx(3)

    @pytest.mark.parametrize("node_document", [b"{}", b"[" * 100_000, b"\0"])
    def test_a_damaged_word_of_the_agent_is_none(
        self, empty: NodeStore, key: Key, cache_root: Path, node_document: bytes
    ) -> None:
        (empty.mount / "node.json").write_bytes(node_document)
        assert self.waited(empty, key, cache_root)[0] == "node_not_ready"

    def test_a_key_that_comes_meanwhile_is_taken_at_once(
        self, empty: NodeStore, root: Path, key: Key, tree: Path, cache_root: Path
    ) -> None:
        write.set_node(root, nodes.DOMAIN, "1.0", prefetching=True)
        agent = threading.Timer(0.5, lambda: nodes.hold(root, key, tree))
        agent.start()
        with by(120) as deadline:
            done = restore(empty, key, {}, cache_root, deadline=deadline, wait_seconds=120)
        agent.join()
        assert said(done) == (RestoreOutcome.RESTORED, "")


class TestWhileTheAgentWorks:
    def test_a_key_that_is_removed_under_our_hands_is_a_miss(
        self, node: NodeStore, root: Path, key: Key, cache_root: Path, soon: Deadline, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._meanwhile(monkeypatch, lambda: write.remove(root, nodes.DOMAIN, key.digest()))
        done = restore(node, key, {}, cache_root, deadline=soon)
        assert said(done) == (RestoreOutcome.NONE, "blob_missing")
        assert entries_in(cache_root) == set()

    def test_parts_that_are_replaced_under_our_hands_are_looked_up_again(
        self,
        node: NodeStore,
        root: Path,
        key: Key,
        tree: Path,
        cache_root: Path,
        soon: Deadline,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def replace() -> None:
            making.tree(tree, salt="anew")
            nodes.hold(root, key, tree, "e1", "e2")

        self._meanwhile(monkeypatch, replace)
        done = restore(node, key, {}, cache_root, deadline=soon)
        assert done.outcome is RestoreOutcome.RESTORED
        assert not diff(scan(tree), scan(cache_root))

    def _meanwhile(self, monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
        """Do `work` when the second file is about to be copied."""
        original = duplicating._Copying.file
        calls: Iterator[int] = iter(range(1_000_000))

        def file(self: duplicating._Copying, *arguments: object) -> None:
            if next(calls) == 1:
                work()
            original(self, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(duplicating._Copying, "file", file)


def test_what_a_killed_restore_left_is_removed(node: NodeStore, key: Key, cache_root: Path, soon: Deadline) -> None:
    (cache_root / ".glowplug" / "work-0123").mkdir(parents=True)
    (cache_root / ".glowplug" / "work-0123" / "half").write_text("half")
    restore(node, key, {}, cache_root, deadline=soon)
    assert not (cache_root / ".glowplug" / "work-0123").exists()


def test_a_link_in_the_cache_root_leads_nowhere(
    node: NodeStore, key: Key, cache_root: Path, tmp_path: Path, soon: Deadline
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    cache_root.mkdir()
    (cache_root / "vllm").symlink_to(elsewhere)
    restore(node, key, {}, cache_root, deadline=soon)
    assert list(elsewhere.iterdir()) == []


def test_temporary_names_are_never_taken_for_a_key(node: NodeStore, key: Key, soon: Deadline) -> None:
    for name in (f"{atomic.TEMPORARY_PREFIX}1", f"{layout.GONE}1", ".glowplug", "key.json"):
        (node.mount / name).mkdir(exist_ok=True)
    assert [found.key_digest for found in node.all(soon)] == [key.digest()]


def test_300_files_are_quickly_there(root: Path, key: Key, tmp_path: Path) -> None:
    """150 ms for 15 MB is what a start has for it; a busy machine gets ten times as much."""
    tree = making.tree(tmp_path / "large", files=150, size=50_000)
    nodes.hold(root, key, tree)
    node = NodeStore(nodes.mount(root))
    roots = iter(tmp_path / f"cache{number}" for number in range(100))

    def work() -> None:
        done = restore(node, key, {}, next(roots), deadline=Deadline.after(60))
        assert said(done) == (RestoreOutcome.RESTORED, "")

    assert soonest(work, 0.15) < 1.5


class TestTheAgentsWord:
    @pytest.mark.parametrize("reason", ["restore_off", "min_version"])
    def test_that_nothing_is_given_is_heeded_at_once(
        self, node: NodeStore, root: Path, key: Key, cache_root: Path, reason: str
    ) -> None:
        write.set_node(root, nodes.DOMAIN, "1.0", prefetching=True, withheld=reason)
        clock = HeldClock()
        done = restore(node, key, {}, cache_root, deadline=Deadline.after(60, clock))
        assert said(done) == (RestoreOutcome.NONE, reason)
        assert (clock.slept, cache_root.exists() and scan(cache_root).files) == ([], cache_root.exists() and {})
        write.set_node(root, nodes.DOMAIN, "1.0", prefetching=False)
        assert restore(node, key, {}, cache_root, deadline=Deadline.after(60)).outcome is RestoreOutcome.RESTORED

    def test_that_it_looks_once_more_is_waited_for_though_it_was_ready(self, root: Path, key: Key, tree: Path) -> None:
        write.mark_ready(root, nodes.DOMAIN)
        write.set_node(root, nodes.DOMAIN, "1.0", prefetching=True)
        thread = threading.Timer(0.2, nodes.hold, (root, key, tree))
        thread.start()
        cache_root = root.parent / "fresh"
        done = restore(NodeStore(nodes.mount(root)), key, {}, cache_root, deadline=Deadline.after(60))
        assert done.outcome is RestoreOutcome.RESTORED
        thread.join()

    def test_that_it_looks_is_not_believed_when_it_is_old(self, root: Path, key: Key, cache_root: Path) -> None:
        write.mark_ready(root, nodes.DOMAIN)
        write.set_node(root, nodes.DOMAIN, "1.0", prefetching=True)
        os.utime(nodes.mount(root) / layout.NODE, (1, 1))
        with by(5):
            done = restore(NodeStore(nodes.mount(root)), key, {}, cache_root, deadline=Deadline.after(60))
        assert said(done) == (RestoreOutcome.NONE, "no_keys")
