"""From the store onto the node: verified, whole, once; and a pod of that node gets what the store would have given it."""

from __future__ import annotations

from pathlib import Path

import pytest

from glowplug.cache import format as manifests
from glowplug.cache import layout
from glowplug.cache.format import Rejection
from glowplug.cache.node import Fetched, fetch
from glowplug.cache.publish import block, publish
from glowplug.cache.restore import restore as restore_from_store
from glowplug.core.clock import Deadline
from glowplug.core.documents.fingerprint import Key
from glowplug.core.documents.start import RestoreOutcome
from glowplug.core.errors import BadInputError, IntegrityError, NotFoundError, UnavailableError
from glowplug.nodestore import layout as nodes
from glowplug.nodestore import write
from glowplug.nodestore.read import Held, NodeStore
from glowplug.nodestore.restore import restore
from glowplug.store.contract import Store
from glowplug.tree import room
from glowplug.tree.index import diff, scan
from tests.cache import making

DOMAIN = "default"


@pytest.fixture
def filled(store: Store, key: Key, tree: Path, soon: Deadline) -> Store:
    making.tree(tree, "e2")
    publish(store, key, {"triton": "3.5.0"}, making.parts(tree) + making.parts(tree, "e2"), deadline=soon)
    return store


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "glowplug"


def bring(store: Store, key: Key, root: Path) -> Fetched:
    return fetch(store, layout.manifest_path(key), DOMAIN, root, deadline=Deadline.after(120))


def held(root: Path, key: Key) -> Held:
    found = NodeStore(nodes.store(root, DOMAIN)).held(key.digest())
    assert found is not None
    return found


def manifest_of(store: Store, key: Key) -> manifests.Manifest:
    path = layout.manifest_path(key)
    return manifests.decode(store.get(path, Deadline.after(30)).data, path=path)


def spoil(store: Store, sha256: str, data: bytes | None) -> None:
    path = layout.blob_path(DOMAIN, sha256)
    store.delete(path, Deadline.after(30))
    if data is not None:
        store.put(path, data, Deadline.after(30))


def test_a_pod_gets_the_same_from_its_node_as_from_the_store(
    filled: Store, key: Key, root: Path, tmp_path: Path, soon: Deadline
) -> None:
    done = bring(filled, key, root)
    assert set(done.parts) == {part.sha256 for part in manifest_of(filled, key).parts}
    assert not done.faults
    write.mark_ready(root, DOMAIN)
    near = restore(NodeStore(nodes.store(root, DOMAIN)), key, {}, tmp_path / "near", deadline=soon)
    far = restore_from_store(filled, key, {}, tmp_path / "far", deadline=soon)
    assert (near.outcome, near.reason, set(near.parts), near.bytes) == (
        far.outcome,
        far.reason,
        set(far.parts),
        far.bytes,
    )
    one, other = scan(tmp_path / "near"), scan(tmp_path / "far")
    assert not diff(one, other)
    assert not diff(one, other).rewritten
    assert {item.mode for item in one.files.values()} == {item.mode for item in other.files.values()}


def test_parts_come_with_all_that_the_manifest_says(filled: Store, key: Key, root: Path) -> None:
    bring(filled, key, root)
    found = {part.sha256: part for part in held(root, key).parts}
    for part in manifest_of(filled, key).parts:
        mine = found[part.sha256]
        for name in ("kind", "name", "of", "size", "unpacked_bytes", "files", "guards", "observed", "index", "created"):
            assert getattr(mine, name) == getattr(part, name), name


def test_a_tree_that_came_from_the_store_is_not_brought_again_from_the_node(
    filled: Store, key: Key, root: Path, tmp_path: Path, soon: Deadline
) -> None:
    bring(filled, key, root)
    restore_from_store(filled, key, {}, tmp_path / "tree", deadline=soon)
    again = restore(NodeStore(nodes.store(root, DOMAIN)), key, {}, tmp_path / "tree", deadline=soon)
    assert (again.outcome, again.reason) == (RestoreOutcome.SKIPPED, "already_present")


def test_what_is_here_is_not_fetched_again(filled: Store, key: Key, tree: Path, root: Path, soon: Deadline) -> None:
    bring(filled, key, root)
    assert bring(filled, key, root).parts == ()
    making.tree(tree, "e3")
    new = publish(filled, key, {"triton": "3.5.0"}, making.parts(tree, "e3"), deadline=soon)
    assert set(bring(filled, key, root).parts) == set(new.parts)
    assert {part.name for part in held(root, key).entries()} == {"e1", "e2", "e3"}


def test_a_completed_support_takes_the_place_of_the_old(
    filled: Store, key: Key, tree: Path, root: Path, soon: Deadline
) -> None:
    bring(filled, key, root)
    (tree / "inductor" / "e1" / "more").write_text("more")
    new = publish(filled, key, {"triton": "3.5.0"}, making.parts(tree), deadline=soon)
    assert bring(filled, key, root).parts == new.parts
    assert {part.sha256 for part in held(root, key).parts} == {part.sha256 for part in manifest_of(filled, key).parts}


def test_a_blocked_key_has_nothing_but_its_reason(
    filled: Store, key: Key, root: Path, tmp_path: Path, soon: Deadline
) -> None:
    bring(filled, key, root)
    block(filled, layout.manifest_path(key), "it crashes", soon)
    bring(filled, key, root)
    assert (held(root, key).blocked, held(root, key).parts) == ("it crashes", ())
    done = restore(NodeStore(nodes.store(root, DOMAIN)), key, {}, tmp_path / "tree", deadline=soon)
    assert done.reason == "key_blocked"


class TestAnEntryThatCannotBeBrought:
    @pytest.mark.parametrize("data", [None, b"", b"other bytes"])
    def test_is_left_out(self, filled: Store, key: Key, root: Path, data: bytes | None) -> None:
        manifest = manifest_of(filled, key)
        spoil(filled, next(part.sha256 for part in manifest.parts if part.name == "e1/support"), data)
        done = bring(filled, key, root)
        assert len(done.faults) == 1
        assert isinstance(done.faults[0], NotFoundError if data is None else IntegrityError)
        assert {part.name for part in held(root, key).parts} == {"e2", "e2/support"}
        assert set(done.parts) == {part.sha256 for part in held(root, key).parts}

    def test_stays_as_the_node_has_it(self, filled: Store, key: Key, tree: Path, root: Path, soon: Deadline) -> None:
        bring(filled, key, root)
        before = held(root, key).parts
        (tree / "inductor" / "e1" / "more").write_text("more")
        new = publish(filled, key, {"triton": "3.5.0"}, making.parts(tree), deadline=soon)
        spoil(filled, new.parts[0], b"other bytes")
        assert len(bring(filled, key, root).faults) == 1
        assert {part.sha256 for part in held(root, key).parts} == {part.sha256 for part in before}

    def test_and_the_next_fetch_brings_it(self, filled: Store, key: Key, root: Path) -> None:
        missing = next(part.sha256 for part in manifest_of(filled, key).parts if part.name == "e1")
        blob = b"".join(filled.stream(layout.blob_path(DOMAIN, missing), Deadline.after(30)))
        spoil(filled, missing, None)
        bring(filled, key, root)
        spoil(filled, missing, blob)
        assert missing in bring(filled, key, root).parts
        assert {part.name for part in held(root, key).entries()} == {"e1", "e2"}

    def test_leaves_no_key_where_it_was_the_only_one(self, filled: Store, key: Key, root: Path) -> None:
        for part in manifest_of(filled, key).parts:
            spoil(filled, part.sha256, None)
        assert len(bring(filled, key, root).faults) == 4
        assert NodeStore(nodes.store(root, DOMAIN)).held(key.digest()) is None


class TestRefused:
    def test_another_domain(self, filled: Store, key: Key, root: Path, soon: Deadline) -> None:
        with pytest.raises(BadInputError):
            fetch(filled, layout.manifest_path(key), "other", root, deadline=soon)

    def test_an_unsigned_manifest_where_signatures_are_asked_for(
        self, filled: Store, key: Key, root: Path, soon: Deadline
    ) -> None:
        def verify(_: manifests.Manifest) -> None:
            raise IntegrityError("unsigned", code="signature")

        with pytest.raises(IntegrityError):
            fetch(filled, layout.manifest_path(key), DOMAIN, root, deadline=soon, verify=verify)
        assert not root.exists()

    def test_a_disk_without_room(self, filled: Store, key: Key, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def check(*_: object) -> None:
            raise UnavailableError("full", code="no-space")

        monkeypatch.setattr(room, "check", check)
        with pytest.raises(UnavailableError):
            bring(filled, key, root)
        assert NodeStore(nodes.store(root, DOMAIN)).held(key.digest()) is None

    def test_a_key_that_is_not_there(self, store: Store, key: Key, root: Path) -> None:
        with pytest.raises(NotFoundError):
            bring(store, key, root)


def test_rejections_alone_change_nothing_on_the_node(filled: Store, key: Key, root: Path, soon: Deadline) -> None:
    bring(filled, key, root)
    before = held(root, key)
    publish(filled, key, {}, (), rejections=(Rejection("s1", "e1", "thrown away"),), deadline=soon)
    bring(filled, key, root)
    assert held(root, key) == before
