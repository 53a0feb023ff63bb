"""Keys into another store: verified on the way, merged by the same rule."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from glowplug.cache import commit, layout, sign
from glowplug.cache.copy import copy
from glowplug.cache.publish import block, publish
from glowplug.cache.restore import restore_exact
from glowplug.cache.verify import verify
from glowplug.core.clock import Deadline
from glowplug.core.documents.fingerprint import Key
from glowplug.core.errors import BadInputError, IntegrityError
from glowplug.store.contract import Store
from glowplug.store.schemes import open_store
from glowplug.tree.index import diff, scan
from tests.cache import making
from tests.cache.test_format import sample


@pytest.fixture
def target(tmp_path: Path) -> Store:
    return open_store((tmp_path / "target").as_uri(), {})


@pytest.fixture
def filled(store: Store, key: Key, tree: Path, soon: Deadline) -> Store:
    publish(store, key, {"triton": "3"}, making.parts(tree), deadline=soon)
    return store


def test_what_arrives_can_be_restored(
    filled: Store, target: Store, key: Key, tree: Path, tmp_path: Path, soon: Deadline
) -> None:
    done = copy(filled, target, "default", soon)
    assert (done.keys, done.blobs, done.left_out) == ((key.digest(),), 2, ())
    restore_exact(target, key, {}, tmp_path / "root", deadline=soon)
    assert not diff(scan(tree), scan(tmp_path / "root"))
    again = copy(filled, target, "default", soon)
    assert (again.keys, again.unchanged, again.blobs) == ((), (key.digest(),), 0)


def test_what_the_target_has_is_kept_whole(
    filled: Store, target: Store, key: Key, tree: Path, tmp_path: Path, soon: Deadline
) -> None:
    other = making.tree(tmp_path / "other", salt="own")
    publish(target, key, {"triton": "3"}, making.parts(other), deadline=soon)
    before = commit.read(target, layout.manifest_path(key), soon).manifest
    assert copy(filled, target, "default", soon).unchanged == (key.digest(),)
    making.tree(tree, "e2")
    publish(filled, key, {"triton": "3"}, making.parts(tree, "e2"), deadline=soon)
    assert copy(filled, target, "default", soon).blobs == 2
    after = commit.read(target, layout.manifest_path(key), soon).manifest
    assert before is not None
    assert after is not None
    assert all(part in after.parts for part in before.parts)
    assert sorted(part.name for part in after.entries()) == ["e1", "e2"]


def test_a_completed_support_follows(filled: Store, target: Store, key: Key, tree: Path, soon: Deadline) -> None:
    copy(filled, target, "default", soon)
    (tree / "inductor" / "e1" / "more").write_text("more")
    publish(filled, key, {"triton": "3"}, making.parts(tree), deadline=soon)
    assert copy(filled, target, "default", soon).blobs == 1
    manifest = commit.read(target, layout.manifest_path(key), soon).manifest
    assert manifest is not None
    assert [part.revision for part in manifest.parts if part.kind == "support"] == [1]


def test_damage_is_left_out_and_named(filled: Store, target: Store, key: Key, tree: Path, soon: Deadline) -> None:
    publish(filled, making.key(model="good"), {}, making.parts(making.tree(tree, "e9"), "e9"), deadline=soon)
    manifest = commit.read(filled, layout.manifest_path(key), soon).manifest
    assert manifest is not None
    path = layout.blob_path("default", manifest.parts[0].sha256)
    filled.delete(path, soon)
    filled.put(path, b"x" * manifest.parts[0].size, soon)
    done = copy(filled, target, "default", soon)
    assert done.keys == (making.key(model="good").digest(),)
    assert done.left_out == ((layout.manifest_path(key), "integrity"),)
    assert verify(target, "default", soon, deep=True).faults == ()


def test_a_blocked_target_stays_blocked(filled: Store, target: Store, key: Key, soon: Deadline) -> None:
    copy(filled, target, "default", soon)
    block(target, layout.manifest_path(key), "by a person", soon)
    assert copy(filled, target, "default", soon).unchanged == (key.digest(),)


class TestSignatures:
    def test_are_made_anew_by_the_one_who_copies(self, filled: Store, target: Store, key: Key, soon: Deadline) -> None:
        pair = sign.generate()
        copy(filled, target, "default", soon, sign=sign.signer(pair.private))
        manifest = commit.read(target, layout.manifest_path(key), soon).manifest
        assert manifest is not None
        sign.verifier(pair.public)(manifest)
        with pytest.raises(IntegrityError):
            sign.verifier(sign.generate().public)(manifest)

    def test_say_who_published(self, store: Store, key: Key, tree: Path, tmp_path: Path, soon: Deadline) -> None:
        pair = sign.generate()
        policy = sign.verifier(sign.generate().public, pair.public)
        publish(store, key, {}, making.parts(tree), deadline=soon, sign=sign.signer(pair.private))
        restore_exact(store, key, {}, tmp_path / "a", deadline=soon, verify=policy)
        making.tree(tree, "e2")
        publish(store, key, {}, making.parts(tree, "e2"), deadline=soon)  # by somebody without the key
        with pytest.raises(IntegrityError) as caught:
            restore_exact(store, key, {}, tmp_path / "b", deadline=soon, verify=policy)
        assert caught.value.code == "signature"
        assert not (tmp_path / "b").exists()
        assert [fault.code for fault in verify(store, "default", soon, policy=policy).faults] == ["signature"]

    @pytest.mark.parametrize(
        "text", ["", "ed25519", "ed25519::", "rsa:x:y", "ed25519:{name}:!!", "ed25519:{name}:AAAA"]
    )
    def test_that_are_none_are_refused(self, text: str) -> None:
        pair = sign.generate()
        name = sign.signer(pair.private)(sample()).split(":")[1]
        with pytest.raises(IntegrityError):
            sign.verifier(pair.public)(dataclasses.replace(sample(), signature=text.format(name=name)))

    def test_do_not_fit_another_manifest(self) -> None:
        pair = sign.generate()
        signature = sign.signer(pair.private)(sample())
        sign.verifier(pair.public)(dataclasses.replace(sample(), signature=signature))
        with pytest.raises(IntegrityError):
            sign.verifier(pair.public)(dataclasses.replace(sample(), signature=signature, blocked="x"))

    def test_a_signer_does_not_lend_its_name_to_what_others_published(
        self, store: Store, tmp_path: Path, soon: Deadline
    ) -> None:
        key = making.key()
        pair = sign.generate()
        publish(store, key, {}, making.parts(making.tree(tmp_path / "theirs", "theirs"), "theirs"), deadline=soon)
        mine = making.parts(making.tree(tmp_path / "mine", "mine"), "mine")
        publish(store, key, {}, mine, deadline=soon, sign=sign.signer(pair.private))
        manifest = commit.read(store, layout.manifest_path(key), soon).manifest
        assert manifest is not None
        sign.verifier(pair.public)(manifest)
        assert [part.name for part in manifest.entries()] == ["mine"]

    def test_a_signer_keeps_its_own_entries_and_a_persons_block(
        self, store: Store, tmp_path: Path, soon: Deadline
    ) -> None:
        key, path = making.key(), layout.manifest_path(making.key())
        signer = sign.signer(sign.generate().private)
        for name in ("one", "two"):
            parts = making.parts(making.tree(tmp_path / name, name), name)
            publish(store, key, {}, parts, deadline=soon, sign=signer)
        manifest = commit.read(store, path, soon).manifest
        assert manifest is not None
        assert {part.name for part in manifest.entries()} == {"one", "two"}
        block(store, path, "bad", soon)
        parts = making.parts(making.tree(tmp_path / "three", "three"), "three")
        assert publish(store, key, {}, parts, deadline=soon, sign=signer).reason == "key_blocked"

    def test_a_block_signed_by_another_hand_leaves_the_manifest_unsigned(
        self, store: Store, tmp_path: Path, soon: Deadline
    ) -> None:
        key, path = making.key(), layout.manifest_path(making.key())
        publish(store, key, {}, making.parts(making.tree(tmp_path / "t")), deadline=soon)
        blocked = block(store, path, "bad", soon, sign=sign.SameHand(sign.signer(sign.generate().private)))
        assert blocked is not None
        assert blocked.signature == ""
        assert len(blocked.entries()) == 1

    @pytest.mark.parametrize("pem", [b"", b"not a key", sign.generate().public])
    def test_need_a_real_key(self, pem: bytes) -> None:
        with pytest.raises(BadInputError):
            sign.signer(pem)
        with pytest.raises(BadInputError):
            sign.verifier(pem if b"PUBLIC" not in pem else sign.generate().private)
