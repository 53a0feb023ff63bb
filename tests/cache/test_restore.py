"""A cache root gets whole entries with all they need, or nothing and a reason."""

from __future__ import annotations

import dataclasses
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from glowplug.cache import format as manifests
from glowplug.cache import layout
from glowplug.cache.lookup import Found, look_up, open_key
from glowplug.cache.publish import publish
from glowplug.cache.restore import restore, restore_exact
from glowplug.core.clock import Deadline
from glowplug.core.documents.fingerprint import Key
from glowplug.core.documents.start import RestoreOutcome
from glowplug.core.errors import IntegrityError, NotFoundError, UnavailableError
from glowplug.store.contract import Store
from glowplug.store.schemes import open_store
from glowplug.tree import receipts, room
from glowplug.tree.index import diff, scan
from glowplug.tree.model import Limits
from lab.faults import Answer, Fault, FlipBit, Hang, Proxy, Refuse, ShortLength, Slow, Truncate
from tests.cache import making
from tests.cache.conftest import Place
from tests.clocks import SLACK
from tests.parts import requires

_RESTORING = Path(__file__).with_name("restoring.py")
_REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def filled(store: Store, key: Key, tree: Path, soon: Deadline) -> Store:
    making.tree(tree, "e2")
    publish(store, key, {}, making.parts(tree) + making.parts(tree, "e2"), deadline=soon)
    return store


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "compile-cache"


def parts_of(store: Store, key: Key) -> list[manifests.Part]:
    found = look_up(store, key, Deadline.after(30))
    assert isinstance(found, Found)
    return [part for offer in found.offers for part in offer.parts]


def spoil(store: Store, path: str, data: bytes) -> None:
    """Put other bytes where immutable ones were."""
    store.delete(path, Deadline.after(30))
    store.put(path, data, Deadline.after(30))


def bytes_of(store: Store, path: str) -> bytes:
    return b"".join(store.stream(path, Deadline.after(30)))


def test_everything_arrives_with_times_in_nanoseconds(
    filled: Store, key: Key, tree: Path, root: Path, soon: Deadline
) -> None:
    done = restore(filled, key, {}, root, deadline=soon)
    assert (done.outcome, done.reason, done.source) == (RestoreOutcome.RESTORED, "", filled.url)
    wanted, found = scan(tree), scan(root)
    assert not diff(wanted, found)
    assert not diff(wanted, found).rewritten
    assert done.bytes == wanted.bytes
    assert set(done.parts) == {part.sha256 for part in parts_of(filled, key)}
    assert [path.name for path in (root / ".glowplug").iterdir()] == ["parts"]


class TestASecondRestore:
    def test_finds_everything_present(self, filled: Store, key: Key, root: Path, soon: Deadline) -> None:
        first = restore(filled, key, {}, root, deadline=soon)
        again = restore(filled, key, {}, root, deadline=soon)
        assert (again.outcome, again.reason, again.bytes) == (RestoreOutcome.SKIPPED, "already_present", 0)
        assert set(again.parts) == set(first.parts)

    def test_brings_only_what_is_new(self, filled: Store, key: Key, tree: Path, root: Path, soon: Deadline) -> None:
        restore(filled, key, {}, root, deadline=soon)
        making.tree(tree, "e3")
        new = publish(filled, key, {}, making.parts(tree, "e3"), deadline=soon)
        again = restore(filled, key, {}, root, deadline=soon)
        assert (again.outcome, set(again.parts)) == (RestoreOutcome.RESTORED, set(new.parts))

    def test_brings_a_completed_support(self, filled: Store, key: Key, tree: Path, root: Path, soon: Deadline) -> None:
        restore(filled, key, {}, root, deadline=soon)
        (tree / "inductor" / "e1" / "more").write_text("more")
        new = publish(filled, key, {}, making.parts(tree), deadline=soon)
        again = restore(filled, key, {}, root, deadline=soon)
        assert again.parts == new.parts
        assert not diff(scan(tree), scan(root))

    def test_brings_support_that_was_lost(
        self, filled: Store, key: Key, tree: Path, root: Path, soon: Deadline
    ) -> None:
        restore(filled, key, {}, root, deadline=soon)
        (root / "inductor" / "e1" / "kernel0").unlink()
        again = restore(filled, key, {}, root, deadline=soon)
        assert (again.outcome, len(again.parts)) == (RestoreOutcome.RESTORED, 1)
        assert not diff(scan(tree), scan(root))

    def test_with_damaged_notes_only_costs_a_fetch(
        self, filled: Store, key: Key, tree: Path, root: Path, soon: Deadline
    ) -> None:
        restore(filled, key, {}, root, deadline=soon)
        for note in (root / ".glowplug" / "parts").iterdir():
            note.write_bytes(b"{" * 100_000)
        again = restore(filled, key, {}, root, deadline=soon)
        assert (again.outcome, again.reason) == (RestoreOutcome.SKIPPED, "already_present")
        assert not diff(scan(tree), scan(root))


def test_an_entry_of_the_trees_own_making_is_not_laid_over(filled: Store, key: Key, root: Path, soon: Deadline) -> None:
    """The engine compiled here: its entry stays, and gets nothing of another compile's support."""
    making.tree(root, salt="own compile")
    before = scan(root)
    done = restore(filled, key, {}, root, deadline=soon)
    assert done.outcome is RestoreOutcome.RESTORED
    after = scan(root)
    assert all(after.files[path] == item for path, item in before.files.items())
    assert {path.split("/")[1] for path in after.files.keys() - before.files.keys()} == {"e2"}


def test_what_a_killed_compile_left_of_an_entry_is_replaced(
    filled: Store, key: Key, tree: Path, root: Path, soon: Deadline
) -> None:
    making.tree(root, salt="killed")
    (root / "vllm" / "e1" / "model").unlink()
    for place in (root / "inductor" / "e1").iterdir():
        place.unlink()
    restore(filled, key, {}, root, deadline=soon)
    assert not diff(scan(tree), scan(root))


class TestSetAside:
    def test_parts_are_not_offered(self, filled: Store, key: Key, root: Path, soon: Deadline) -> None:
        bad = next(part for part in parts_of(filled, key) if part.name == "e1")
        done = restore(filled, key, {}, root, deadline=soon, skip_parts=frozenset({bad.sha256}))
        assert done.outcome is RestoreOutcome.RESTORED
        assert {path.split("/")[1] for path in scan(root).files} == {"e2"}

    def test_parts_are_taken_out_of_a_tree_that_has_them(
        self, filled: Store, key: Key, root: Path, soon: Deadline
    ) -> None:
        """A container that crashes keeps its tree: a start without the part must not have it."""
        first = restore(filled, key, {}, root, deadline=soon)
        again = restore(filled, key, {}, root, deadline=soon, skip_parts=frozenset(first.parts))
        assert (again.outcome, again.reason) == (RestoreOutcome.NONE, "quarantined")
        assert scan(root).files == {}
        assert receipts.in_tree(root) == frozenset()

    def test_an_entry_published_anew_is_offered_again(
        self, store: Store, key: Key, tree: Path, tmp_path: Path, root: Path, soon: Deadline
    ) -> None:
        first = publish(store, key, {}, making.parts(tree), deadline=soon)
        store.delete(layout.manifest_path(key), soon)
        publish(store, key, {}, making.parts(making.tree(tmp_path / "other", salt="new")), deadline=soon)
        done = restore(store, key, {}, root, deadline=soon, skip_parts=frozenset(first.parts))
        assert done.outcome is RestoreOutcome.RESTORED


def test_a_miss_carries_its_reason(filled: Store, root: Path, soon: Deadline) -> None:
    done = restore(filled, making.key(torch="2.12.0"), {}, root, deadline=soon)
    assert (done.outcome, done.reason) == (RestoreOutcome.NONE, "key:torch")
    assert not root.exists()


def test_a_refused_signature_policy_restores_nothing(filled: Store, key: Key, root: Path, soon: Deadline) -> None:
    def refuse(manifest: manifests.Manifest) -> None:
        raise IntegrityError("not signed", code="signature")

    done = restore(filled, key, {}, root, deadline=soon, verify=refuse)
    assert (done.outcome, done.reason) == (RestoreOutcome.FAILED, "signature")
    assert not root.exists()


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "first byte": lambda data: bytes([data[0] ^ 1]) + data[1:],
    "frame header": lambda data: data[:5] + bytes([data[5] ^ 0x10]) + data[6:],
    "last byte": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "cut by one": lambda data: data[:-1],
    "cut in half": lambda data: data[: len(data) // 2],
    "one more byte": lambda data: data + b"\0",
    "a second frame": lambda data: data + data,
    "another blob": lambda data: b"(\xb5/\xfd\x04\x00\x01\x00\x00\x99\xe9\xd8Q",
    **{f"at {tenth}/10": (lambda data, tenth=tenth: _flip(data, len(data) * tenth // 10)) for tenth in range(1, 10)},
}


def _flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x04]) + data[at + 1 :]


class TestDamage:
    """A flip or a cut anywhere: a recorded reason for a start, exit 4 for a person, and nothing in the cache root."""

    @pytest.mark.parametrize("kind", ["entry", "support"])
    @pytest.mark.parametrize("name", DAMAGE)
    def test_of_a_blob(
        self, store: Store, key: Key, tree: Path, root: Path, soon: Deadline, kind: str, name: str
    ) -> None:
        publish(store, key, {}, making.parts(tree), deadline=soon)
        (part,) = [part for part in parts_of(store, key) if part.kind == kind]
        path = layout.blob_path("default", part.sha256)
        spoil(store, path, DAMAGE[name](bytes_of(store, path)))
        done = restore(store, key, {}, root, deadline=soon)
        assert done.outcome is RestoreOutcome.FAILED
        # Where the flip makes the frame claim a larger size, that is what is seen first.
        assert done.reason in ("integrity", "archive_limit")
        assert scan(root).files == {}
        with pytest.raises(IntegrityError) as caught:
            restore_exact(store, key, {}, root, deadline=soon)
        assert caught.value.exit_status == 4
        assert scan(root).files == {}

    @pytest.mark.parametrize("name", DAMAGE)
    def test_of_a_manifest(self, filled: Store, key: Key, root: Path, soon: Deadline, name: str) -> None:
        path = layout.manifest_path(key)
        spoil(filled, path, DAMAGE[name](bytes_of(filled, path)))
        done = restore(filled, key, {}, root, deadline=soon)
        assert (done.outcome, done.reason) == (RestoreOutcome.FAILED, "integrity")
        assert not root.exists()
        with pytest.raises(IntegrityError):
            restore_exact(filled, key, {}, root, deadline=soon)

    def test_of_one_entry_leaves_the_others_usable(self, filled: Store, key: Key, root: Path, soon: Deadline) -> None:
        bad = next(part for part in parts_of(filled, key) if part.of == "e1")
        spoil(filled, layout.blob_path("default", bad.sha256), b"x" * bad.size)
        done = restore(filled, key, {}, root, deadline=soon)
        assert (done.outcome, done.reason) == (RestoreOutcome.RESTORED, "integrity")
        assert {path.split("/")[1] for path in scan(root).files} == {"e2"}

    @pytest.mark.parametrize("kind", ["entry", "support"])
    def test_a_blob_that_is_gone_is_a_miss(
        self, store: Store, key: Key, tree: Path, root: Path, soon: Deadline, kind: str
    ) -> None:
        publish(store, key, {}, making.parts(tree), deadline=soon)
        (part,) = [part for part in parts_of(store, key) if part.kind == kind]
        store.delete(layout.blob_path("default", part.sha256), soon)
        done = restore(store, key, {}, root, deadline=soon)
        assert (done.outcome, done.reason) == (RestoreOutcome.NONE, "blob_missing")
        assert scan(root).files == {}
        with pytest.raises(NotFoundError) as caught:
            restore_exact(store, key, {}, root, deadline=soon)
        assert (caught.value.code, caught.value.exit_status) == ("blob-missing", 1)

    @pytest.mark.parametrize("lie", ["size", "unpacked_bytes", "files"])
    @pytest.mark.parametrize("by", [-1, 1])
    def test_a_manifest_that_lies_is_believed_in_nothing(
        self, store: Store, key: Key, tree: Path, root: Path, soon: Deadline, lie: str, by: int
    ) -> None:
        publish(store, key, {}, making.parts(tree), deadline=soon)
        found = look_up(store, key, soon)
        assert isinstance(found, Found)
        parts = tuple(dataclasses.replace(part, **{lie: getattr(part, lie) + by}) for part in found.manifest.parts)
        spoil(store, found.path, manifests.encode(dataclasses.replace(found.manifest, parts=parts)))
        done = restore(store, key, {}, root, deadline=soon)
        assert done.outcome is RestoreOutcome.FAILED
        # Where the flip makes the frame claim a larger size, that is what is seen first.
        assert done.reason in ("integrity", "archive_limit")
        assert scan(root).files == {}

    def test_beyond_the_limits_nothing_is_fetched(self, filled: Store, key: Key, root: Path, soon: Deadline) -> None:
        for limits in (Limits(unpacked_bytes=100), Limits(files=1)):
            done = restore(filled, key, {}, root, deadline=soon, limits=limits)
            assert (done.outcome, done.reason) == (RestoreOutcome.FAILED, "archive_limit")
            assert scan(root).files == {}


class TestExactly:
    def test_restores_what_was_named(self, filled: Store, key: Key, tree: Path, root: Path, soon: Deadline) -> None:
        found = open_key(filled, "default", key.digest()[:12], soon)
        done = restore_exact(filled, found, {}, root, deadline=soon)
        assert done.outcome is RestoreOutcome.RESTORED
        assert not diff(scan(tree), scan(root))

    def test_nothing_for_that_key_is_exit_1_with_nothing_written(
        self, filled: Store, root: Path, soon: Deadline
    ) -> None:
        with pytest.raises(NotFoundError) as caught:
            restore_exact(filled, making.key(torch="9"), {}, root, deadline=soon)
        assert caught.value.exit_status == 1
        assert "key:torch" in caught.value.message
        assert not root.exists()

    def test_all_or_nothing(self, filled: Store, key: Key, root: Path, soon: Deadline) -> None:
        bad = next(part for part in parts_of(filled, key) if part.of == "e1")
        spoil(filled, layout.blob_path("default", bad.sha256), b"x" * bad.size)
        with pytest.raises(IntegrityError):
            restore_exact(filled, key, {}, root, deadline=soon)
        assert scan(root).files == {}


class TestTheDisk:
    @pytest.fixture
    def small(self, tmp_path: Path) -> Iterator[Path]:
        """A tmpfs of 256 KiB and 200 inodes."""
        place = tmp_path / "small"
        place.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,nr_inodes=200", "none", str(place)], check=True)
        try:
            yield place
        finally:
            subprocess.run(["umount", str(place)], check=True)

    @requires("root")
    @pytest.mark.parametrize(("files", "size"), [(4, 200_000), (200, 1)], ids=["bytes", "inodes"])
    def test_too_small_is_seen_before_anything_is_fetched(
        self, store: Store, key: Key, tmp_path: Path, small: Path, soon: Deadline, files: int, size: int
    ) -> None:
        big = making.tree(tmp_path / "big", files=files, size=size)
        publish(store, key, {}, making.parts(big), deadline=soon, scratch=tmp_path)
        done = restore(store, key, {}, small, deadline=soon)
        assert (done.outcome, done.reason) == (RestoreOutcome.FAILED, "no_space")
        assert scan(small).files == {}
        with pytest.raises(UnavailableError) as caught:
            restore_exact(store, key, {}, small, deadline=soon)
        assert caught.value.code == "no-space"

    @requires("root")
    def test_that_fills_up_meanwhile_leaves_nothing(
        self, store: Store, key: Key, tmp_path: Path, small: Path, soon: Deadline, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        big = making.tree(tmp_path / "big", size=200_000)
        publish(store, key, {}, making.parts(big), deadline=soon, scratch=tmp_path)
        monkeypatch.setattr(room, "check", lambda folder, size, files: None)
        done = restore(store, key, {}, small, deadline=soon)
        assert (done.outcome, done.reason) == (RestoreOutcome.FAILED, "no_space")
        assert scan(small).files == {}
        assert list((small / ".glowplug").iterdir()) == []

    @requires("root")
    def test_that_is_read_only_is_a_reason(self, filled: Store, key: Key, tmp_path: Path, soon: Deadline) -> None:
        place = tmp_path / "read-only"
        place.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", str(place)], check=True)
        try:
            done = restore(filled, key, {}, place, deadline=soon)
        finally:
            subprocess.run(["umount", str(place)], check=True)
        assert (done.outcome, done.reason) == (RestoreOutcome.FAILED, "cache_root_unwritable")

    @pytest.mark.parametrize("spot", ["vllm", "inductor", ".glowplug", ".glowplug/parts"])
    def test_a_link_planted_in_the_cache_root_leads_nowhere(
        self, filled: Store, key: Key, tmp_path: Path, root: Path, soon: Deadline, spot: str
    ) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (root / spot).parent.mkdir(parents=True)
        (root / spot).symlink_to(outside)
        restore(filled, key, {}, root, deadline=soon)
        assert list(outside.iterdir()) == []


@pytest.mark.slow
class TestKilledInTheMiddle:
    def test_no_entry_is_there_without_its_support(self, tmp_path: Path, key: Key, tree: Path, soon: Deadline) -> None:
        url = (tmp_path / "store").as_uri()
        store = open_store(url, os.environ)
        making.tree(tree, "e2", files=12)
        publish(store, key, {}, making.parts(tree) + making.parts(tree, "e2"), deadline=soon)
        wanted = scan(tree).files
        draw = random.Random(7)  # noqa: S311 - moments, not secrets
        for number in range(10):
            root = tmp_path / f"root{number}"
            process = subprocess.Popen(
                [sys.executable, str(_RESTORING), url, str(root)],
                env={"PYTHONPATH": f"{_REPOSITORY / 'src'}:{_REPOSITORY}"},
                stdout=subprocess.PIPE,
            )
            assert process.stdout is not None
            for _ in range(draw.randrange(0, len(wanted))):
                process.stdout.readline()
            process.kill()
            process.communicate()
            found = scan(root).files
            for name in ("e1", "e2"):
                if f"vllm/{name}/model" in found:
                    mine = {path for path in wanted if path.split("/")[1] == name}
                    assert mine <= found.keys()
            assert {path: (item.sha256, item.mtime_ns) for path, item in found.items()}.items() <= {
                path: (item.sha256, item.mtime_ns) for path, item in wanted.items()
            }.items()
            restore(store, key, {}, root, deadline=soon)
            assert not diff(scan(tree), scan(root))
            assert [path.name for path in (root / ".glowplug").iterdir()] == ["parts"]


def _named(value: object) -> str:
    """The same name in every process: workers of one run must agree on it, and a set has no order."""
    return "|".join(sorted(map(str, value))) if isinstance(value, (set, frozenset)) else str(value)[:40]


@pytest.mark.slow
@requires("s3")
class TestTheWire:
    """The start goes on within the deadline, and says why nothing was restored."""

    @pytest.fixture
    def wired(self, s3_place: Place, proxy: Proxy, key: Key, tree: Path, soon: Deadline) -> Store:
        publish(s3_place.open(), key, {}, making.parts(tree), deadline=soon)
        return Place(s3_place.url, proxy.server.env()).open()

    FAULTS: tuple[tuple[Fault, str, set[str]], ...] = (
        (Refuse(), "*", {"store_unavailable", "deadline"}),
        (Hang(), "*", {"deadline", "store_unavailable"}),
        (Hang(), "*/blobs/*", {"deadline", "store_unavailable"}),
        (Answer(503), "*", {"store_unavailable", "deadline"}),
        (Answer(500), "*/blobs/*", {"store_unavailable", "deadline"}),
        (Answer(403), "*", {"access_denied"}),
        (Answer(404), "*/blobs/*", {"blob_missing"}),
        (Slow(100), "*/blobs/*", {"deadline", "store_unavailable"}),
        (Truncate(100), "*/blobs/*", {"store_unavailable", "deadline", "integrity"}),
        (ShortLength(100), "*/blobs/*", {"integrity", "store_unavailable", "deadline"}),
        (ShortLength(100), "*/keys/*", {"integrity", "store_unavailable", "deadline"}),
        (FlipBit(100), "*/blobs/*", {"integrity"}),
        (FlipBit(100), "*/keys/*", {"integrity"}),
    )

    @pytest.mark.parametrize(("fault", "path", "reasons"), FAULTS, ids=_named)
    def test_faults_become_reasons_in_time(
        self, wired: Store, proxy: Proxy, key: Key, root: Path, fault: Fault, path: str, reasons: set[str]
    ) -> None:
        proxy.add(fault, method="GET", path=path, times=None)
        # What the store answers at once comes at once, so its deadline is one that must not be reached.
        done = restore(wired, key, {}, root, deadline=Deadline.after(2 if "deadline" in reasons else 120))
        assert done.outcome in {RestoreOutcome.FAILED, RestoreOutcome.NONE}
        assert done.reason in reasons
        assert done.seconds < 2 + SLACK
        assert scan(root).files == {}

    def test_one_bad_answer_is_asked_again(
        self, wired: Store, proxy: Proxy, key: Key, root: Path, soon: Deadline
    ) -> None:
        proxy.add(Answer(503), method="GET", path="*/blobs/*", times=2)
        assert restore(wired, key, {}, root, deadline=soon).outcome is RestoreOutcome.RESTORED


def test_paths_that_no_cache_of_the_engine_holds_are_not_restored(
    store: Store, key: Key, tree: Path, tmp_path: Path, soon: Deadline
) -> None:
    """Who may write the store decides what is compiled, not what else lies in a cache root."""
    publish(store, key, {}, making.parts(tree), deadline=soon)
    root = tmp_path / "root"
    done = restore(store, key, {}, root, deadline=soon, allowed=lambda path: path.startswith("vllm/"))
    assert (done.outcome, done.reason) == (RestoreOutcome.FAILED, "integrity")
    assert making.snapshot(root) == {}
