"""What publishing decides, on every back end: kept whole, completed at most twice, merged, blocked, refused with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from glowplug.cache import bundle, commit, control, layout
from glowplug.cache import format as manifests
from glowplug.cache.bundle import Cleaning
from glowplug.cache.format import Manifest, Rejection
from glowplug.cache.publish import Caps, block, publish, unblock
from glowplug.cache.verify import verify
from glowplug.core import canonical
from glowplug.core.clock import Deadline
from glowplug.core.documents.fingerprint import Key
from glowplug.core.documents.start import PublishOutcome, PublishResult
from glowplug.core.errors import ConflictError, UnavailableError
from glowplug.store.contract import Store
from glowplug.store.readonly import ReadOnly
from lab import s3
from lab.faults import Answer, Fault, Hang, LoseAnswer, Proxy
from tests.cache import making
from tests.cache.conftest import Place
from tests.clocks import SLACK
from tests.parts import requires


def manifest_of(store: Store, key: Key) -> Manifest:
    found = commit.read(store, layout.manifest_path(key), Deadline.after(60)).manifest
    assert found is not None
    return found


def blobs(store: Store) -> set[str]:
    return {meta.path for meta in store.list("v1/default/blobs", Deadline.after(60))}


def test_the_first_start_publishes_an_entry_and_its_support(store: Store, key: Key, tree: Path, soon: Deadline) -> None:
    done = publish(store, key, {"triton": "3.6.0"}, making.parts(tree), deadline=soon)
    assert done.outcome is PublishOutcome.PUBLISHED
    entry, support = sorted(manifest_of(store, key).parts, key=lambda part: part.kind)
    assert (entry.kind, entry.name, entry.files, entry.index) == ("entry", "e1", 5, ("vllm/e1/model",))
    assert (support.kind, support.of, support.files, support.revision) == ("support", "e1", 4, 0)
    assert entry.guards == support.guards == {"triton": "3.6.0"}
    assert entry.observed == {"compile_ms": 38700}
    assert set(done.parts) == {entry.sha256, support.sha256}
    assert done.bytes == entry.size + support.size
    assert blobs(store) == {layout.blob_path("default", digest) for digest in done.parts}
    assert not (tree / ".glowplug").exists() or not list((tree / ".glowplug").iterdir())


def test_five_hits_publish_nothing(store: Store, key: Key, tree: Path, soon: Deadline) -> None:
    publish(store, key, {}, making.parts(tree), deadline=soon)
    before = manifest_of(store, key)
    for _ in range(5):
        assert publish(store, key, {}, making.parts(tree), deadline=soon).outcome is PublishOutcome.UNCHANGED
    assert manifest_of(store, key) == before


def test_an_entry_that_is_there_is_kept_whole(
    store: Store, key: Key, tree: Path, tmp_path: Path, soon: Deadline
) -> None:
    """Two cold compiles never give the same files: the later one's are not laid over, nor mixed in."""
    publish(store, key, {}, making.parts(tree), deadline=soon)
    before = manifest_of(store, key)
    other = making.tree(tmp_path / "other", salt="other compile", files=9)
    assert publish(store, key, {}, making.parts(other), deadline=soon).outcome is PublishOutcome.UNCHANGED
    assert manifest_of(store, key) == before
    assert len(blobs(store)) == 2


def test_another_entry_joins_the_list(store: Store, key: Key, tree: Path, soon: Deadline) -> None:
    publish(store, key, {}, making.parts(tree), deadline=soon)
    making.tree(tree, "e2")
    done = publish(store, key, {}, making.parts(tree) + making.parts(tree, "e2"), deadline=soon)
    assert done.outcome is PublishOutcome.PUBLISHED
    assert len(done.parts) == 2
    assert sorted(part.name for part in manifest_of(store, key).entries()) == ["e1", "e2"]


class TestCompletingTheSupport:
    """Some engines write the rest on the first hit (mega AOT: 27 files)."""

    def test_happens_twice_at_most(self, store: Store, key: Key, tree: Path, soon: Deadline) -> None:
        outcomes = []
        for number in range(5):
            outcomes.append(publish(store, key, {}, making.parts(tree), deadline=soon).outcome.value)
            (tree / "inductor" / "e1" / f"more{number}").write_text("more")
        assert outcomes == ["published", "published", "published", "unchanged", "unchanged"]
        (support,) = [part for part in manifest_of(store, key).parts if part.kind == "support"]
        assert (support.revision, support.files) == (2, 6)

    @pytest.mark.parametrize("change", ["one file fewer", "one other file", "other index", "no index"])
    def test_needs_the_published_entry_and_a_superset(
        self, store: Store, key: Key, tree: Path, soon: Deadline, change: str
    ) -> None:
        publish(store, key, {}, making.parts(tree), deadline=soon)
        support = tree / "inductor" / "e1"
        (support / "more").write_text("more")
        (support / "more2").write_text("more")
        if change == "one file fewer":
            (support / "kernel0").unlink()
        elif change == "one other file":
            (support / "kernel0").rename(support / "kernel0b")
        elif change == "other index":
            (tree / "vllm" / "e1" / "model").write_text("another compile of the same name")
        else:
            (tree / "vllm" / "e1" / "model").unlink()
        assert publish(store, key, {}, making.parts(tree), deadline=soon).outcome is PublishOutcome.UNCHANGED

    def test_adds_one_where_the_entry_had_none(self, store: Store, key: Key, tree: Path, soon: Deadline) -> None:
        entry, support = making.parts(tree)
        publish(store, key, {}, [entry], deadline=soon)
        assert publish(store, key, {}, [entry, support], deadline=soon).outcome is PublishOutcome.PUBLISHED
        (part,) = [part for part in manifest_of(store, key).parts if part.kind == "support"]
        assert part.revision == 0

    def test_keeps_the_guards_of_the_entry(self, store: Store, key: Key, tree: Path, soon: Deadline) -> None:
        publish(store, key, {"triton": "3"}, making.parts(tree), deadline=soon)
        (tree / "inductor" / "e1" / "more").write_text("more")
        publish(store, key, {"triton": "3", "image_digest": "sha256:1"}, making.parts(tree), deadline=soon)
        assert {str(part.guards) for part in manifest_of(store, key).parts} == {"{'triton': '3'}"}


def test_a_support_part_alone_is_not_published(store: Store, key: Key, tree: Path, soon: Deadline) -> None:
    assert publish(store, key, {}, making.parts(tree)[1:], deadline=soon).outcome is PublishOutcome.UNCHANGED
    assert blobs(store) == set()


def test_one_name_under_other_guards_is_another_entry(
    store: Store, key: Key, tree: Path, tmp_path: Path, soon: Deadline
) -> None:
    """vLLM on torch 2.10 names its AOT directory without triton: a new image must not stay cold for ever."""
    publish(store, key, {"triton": "3.5"}, making.parts(tree), deadline=soon)
    other = making.tree(tmp_path / "other", salt="triton 3.6")
    assert (
        publish(store, key, {"triton": "3.6"}, making.parts(other), deadline=soon).outcome is PublishOutcome.PUBLISHED
    )
    entries = manifest_of(store, key).entries()
    assert sorted(entry.guards["triton"] for entry in entries) == ["3.5", "3.6"]
    assert publish(store, key, {}, making.parts(other), deadline=soon).outcome is PublishOutcome.UNCHANGED


def test_an_entry_whose_blob_is_gone_is_published_anew(
    store: Store, key: Key, tree: Path, tmp_path: Path, soon: Deadline
) -> None:
    publish(store, key, {}, making.parts(tree), deadline=soon)
    old = manifest_of(store, key).entries()[0]
    store.delete(layout.blob_path("default", old.sha256), soon)
    other = making.tree(tmp_path / "other", salt="later")
    assert publish(store, key, {}, making.parts(other), deadline=soon).outcome is PublishOutcome.PUBLISHED
    (new,) = manifest_of(store, key).entries()
    assert new.sha256 != old.sha256
    assert len(manifest_of(store, key).parts) == 2


def test_damage_that_was_seen_is_mended_by_the_next_publisher(
    store: Store, key: Key, tree: Path, soon: Deadline
) -> None:
    parts = making.parts(tree)
    publish(store, key, {}, parts, deadline=soon)
    for part in manifest_of(store, key).parts:
        path = layout.blob_path(key.domain, part.sha256)
        data = bytearray(store.get(path, soon, max_bytes=1 << 24).data)
        data[len(data) // 2] ^= 1
        store.put(path, bytes(data), soon)
    assert publish(store, key, {}, parts, deadline=soon).outcome is PublishOutcome.UNCHANGED
    publish(store, key, {}, parts, deadline=soon, doubt=True)
    assert not verify(store, key.domain, soon, deep=True).faults


def test_caps_send_the_oldest_entry_out(store: Store, key: Key, tree: Path, soon: Deadline) -> None:
    for number in range(4):
        making.tree(tree, f"n{number}")
        done = publish(store, key, {}, making.parts(tree, f"n{number}"), deadline=soon, caps=Caps(entries=2))
        assert done.outcome is PublishOutcome.PUBLISHED
    manifest = manifest_of(store, key)
    assert sorted(part.name for part in manifest.entries()) == ["n2", "n3"]
    assert {part.of for part in manifest.parts if part.kind == "support"} == {"n2", "n3"}


def test_a_cap_on_bytes_keeps_what_came_last(store: Store, key: Key, tree: Path, soon: Deadline) -> None:
    publish(store, key, {}, making.parts(tree), deadline=soon, caps=Caps(bytes=1))
    making.tree(tree, "e2")
    publish(store, key, {}, making.parts(tree, "e2"), deadline=soon, caps=Caps(bytes=1))
    assert [part.name for part in manifest_of(store, key).entries()] == ["e2"]


class TestRejections:
    def test_two_by_different_starts_block_the_key(self, store: Store, key: Key, tree: Path, soon: Deadline) -> None:
        publish(store, key, {}, making.parts(tree), deadline=soon)

        def reject(start: str) -> PublishResult:
            return publish(store, key, {}, [], rejections=[Rejection(start, "e1", "guards failed")], deadline=soon)

        assert reject("s1").outcome is PublishOutcome.UNCHANGED
        assert reject("s1").outcome is PublishOutcome.UNCHANGED
        assert len(manifest_of(store, key).rejections) == 1
        assert manifest_of(store, key).blocked is None
        assert (reject("s2").reason, reject("s3").reason) == ("key_blocked", "key_blocked")
        blocked = manifest_of(store, key)
        assert blocked.blocked is not None
        assert "guards failed" in blocked.blocked
        making.tree(tree, "e2")
        done = publish(store, key, {}, making.parts(tree, "e2"), deadline=soon)
        assert (done.outcome, done.reason) == (PublishOutcome.SKIPPED, "key_blocked")
        assert manifest_of(store, key) == blocked
        assert unblock(store, layout.manifest_path(key), soon) is not None
        assert unblock(store, layout.manifest_path(key), soon) is None
        assert manifest_of(store, key).rejections == ()
        assert publish(store, key, {}, making.parts(tree, "e2"), deadline=soon).outcome is PublishOutcome.PUBLISHED

    def test_of_entries_that_the_key_does_not_have_count_for_nothing(
        self, store: Store, key: Key, tree: Path, soon: Deadline
    ) -> None:
        publish(store, key, {}, making.parts(tree), deadline=soon)
        for start in ("s1", "s2"):
            publish(store, key, {}, [], rejections=[Rejection(start, "other", "r")], deadline=soon)
        assert manifest_of(store, key).rejections == ()

    def test_do_not_make_a_manifest(self, store: Store, key: Key, soon: Deadline) -> None:
        publish(store, key, {}, [], rejections=[Rejection("s1", "e1", "r")], deadline=soon)
        assert store.head(layout.manifest_path(key), soon) is None

    def test_a_person_may_block_and_lift(self, store: Store, key: Key, tree: Path, soon: Deadline) -> None:
        publish(store, key, {}, making.parts(tree), deadline=soon)
        assert block(store, layout.manifest_path(key), "crashes on L4", soon) is not None
        assert manifest_of(store, key).blocked == "crashes on L4"
        assert unblock(store, layout.manifest_path(key), soon) is not None


class TestReasonsNotTo:
    def test_the_store_is_switched_off(self, store: Store, key: Key, tree: Path, soon: Deadline) -> None:
        control.change(store, soon, publish=False)
        done = publish(store, key, {}, making.parts(tree), deadline=soon)
        assert (done.outcome, done.reason) == (PublishOutcome.SKIPPED, "publish_off")
        assert blobs(store) == set()

    def test_the_store_asks_for_a_newer_glowplug(self, store: Store, key: Key, tree: Path, soon: Deadline) -> None:
        store.put_new(layout.CONTROL, canonical.encode({"min_version": "99.0"}), soon)
        done = publish(store, key, {}, making.parts(tree), deadline=soon)
        assert (done.outcome, done.reason) == (PublishOutcome.SKIPPED, "min_version")

    def test_the_manifest_is_of_a_newer_format(self, store: Store, key: Key, tree: Path, soon: Deadline) -> None:
        value = {**manifests.body(Manifest(key)), "min_reader": 2}
        data = canonical.encode({**value, "digest": canonical.digest(value), "signature": None})
        store.put_new(layout.manifest_path(key), data, soon)
        done = publish(store, key, {}, making.parts(tree), deadline=soon)
        assert (done.outcome, done.reason) == (PublishOutcome.SKIPPED, "newer_format")
        assert store.get(layout.manifest_path(key), soon).data == data

    def test_the_store_is_read_only(self, store: Store, key: Key, tree: Path, soon: Deadline) -> None:
        done = publish(ReadOnly(store), key, {}, making.parts(tree), deadline=soon)
        assert (done.outcome, done.reason) == (PublishOutcome.SKIPPED, "read_only_store")

    def test_a_secret_is_in_it(self, store: Store, key: Key, tree: Path, soon: Deadline) -> None:
        (tree / "inductor" / "e1" / "kernel0").write_text("token=abcdefgh12")
        cleaning = Cleaning(secrets={"VLLM_API_KEY": b"abcdefgh12"})
        done = publish(store, key, {}, making.parts(tree), deadline=soon, cleaning=cleaning)
        assert (done.outcome, done.reason.split(":")[0]) == (PublishOutcome.FAILED, "secret_found")
        assert "abcdefgh12" not in done.reason
        assert store.head(layout.manifest_path(key), soon) is None

    def test_the_time_is_over(self, store: Store, key: Key, tree: Path) -> None:
        done = publish(store, key, {}, making.parts(tree), deadline=Deadline.after(0))
        assert done.outcome is PublishOutcome.FAILED
        assert done.reason == "deadline"


class TestATreeThatChanges:
    def test_is_packed_again(self, store: Store, key: Key, tree: Path, soon: Deadline) -> None:
        parts = making.parts(tree)
        (tree / "inductor" / "e1" / "kernel0").write_text("changed since it was indexed")
        assert publish(store, key, {}, parts, deadline=soon).outcome is PublishOutcome.PUBLISHED

    def test_that_lost_a_file_is_given_up(self, store: Store, key: Key, tree: Path, soon: Deadline) -> None:
        parts = making.parts(tree)
        (tree / "inductor" / "e1" / "kernel0").unlink()
        done = publish(store, key, {}, parts, deadline=soon)
        assert (done.outcome, done.reason) == (PublishOutcome.FAILED, "tree_changing")
        assert store.head(layout.manifest_path(key), soon) is None

    def test_that_never_holds_still_is_given_up_after_three(self, tree: Path, tmp_path: Path, soon: Deadline) -> None:
        packings = 0

        def rewrite(path: str, data: bytes) -> bytes:
            nonlocal packings
            if path.endswith("kernel0"):
                packings += 1
                (tree / path).write_bytes(data + b"!")
            return data

        with pytest.raises(ConflictError) as caught:
            bundle.pack(making.parts(tree)[1], tmp_path, soon, cleaning=Cleaning(rewrite))
        assert caught.value.code == "tree-changing"
        assert packings == 3
        assert list(tmp_path.glob("*.tar.zst")) == []


def test_a_damaged_manifest_is_replaced_by_the_next_publisher(
    store: Store, key: Key, tree: Path, soon: Deadline
) -> None:
    store.put_new(layout.manifest_path(key), b"{damaged", soon)
    assert publish(store, key, {}, making.parts(tree), deadline=soon).outcome is PublishOutcome.PUBLISHED
    assert len(manifest_of(store, key).parts) == 2


def test_what_a_newer_glowplug_wrote_survives(store: Store, key: Key, tree: Path, soon: Deadline) -> None:
    newer = Manifest(key, foreign_parts=({"kind": "overlay", "sha256": "3" * 64},), extra={"channel": "stable"})
    store.put_new(layout.manifest_path(key), manifests.encode(newer), soon)
    assert publish(store, key, {}, making.parts(tree), deadline=soon).outcome is PublishOutcome.PUBLISHED
    found = manifest_of(store, key)
    assert (found.extra, found.foreign_parts) == (newer.extra, newer.foreign_parts)


def test_blobs_that_are_young_are_kept_and_old_ones_written_again(
    store: Store, key: Key, tree: Path, soon: Deadline
) -> None:
    publish(store, key, {}, making.parts(tree), deadline=soon)
    store.delete(layout.manifest_path(key), soon)
    puts: list[str] = []

    class Watched:
        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        def put(self, path: str, source: bytes | Path, deadline: Deadline) -> None:
            puts.append(path)
            store.put(path, source, deadline)

    def again(grace: float) -> int:
        puts.clear()
        store.delete(layout.manifest_path(key), soon)
        publish(Watched(), key, {}, making.parts(tree), deadline=soon, gc_grace=grace)  # type: ignore[arg-type]
        return sum("/blobs/" in path for path in puts)

    assert again(7 * 86400) == 0
    assert again(-10.0) == 2


@requires("s3")
class TestFaultsOfTheWire:
    @pytest.fixture
    def wired(self, s3_place: Place, proxy: Proxy) -> Store:
        return Place(s3_place.url, proxy.server.env()).open()

    @pytest.mark.parametrize("fault", [LoseAnswer(), Answer(503), Answer(409), Answer(412)], ids=repr)
    def test_a_manifest_that_was_written_unseen_or_refused_for_nothing_is_a_success(
        self, wired: Store, proxy: Proxy, key: Key, tree: Path, soon: Deadline, fault: Fault
    ) -> None:
        proxy.add(fault, method="PUT", path="*/keys/*", times=2)
        done = publish(wired, key, {}, making.parts(tree), deadline=soon)
        assert done.outcome is PublishOutcome.PUBLISHED
        assert len(done.parts) == len(manifest_of(wired, key).parts) == 2

    def test_a_lost_answer_that_others_built_upon_is_a_success_too(
        self, wired: Store, s3_place: Place, proxy: Proxy, key: Key, tree: Path, tmp_path: Path, soon: Deadline
    ) -> None:
        direct = s3_place.open()
        other = making.tree(tmp_path / "other", "e2")
        original = wired.put_new

        def put_new(path: str, data: bytes, deadline: Deadline) -> str:
            original(path, data, deadline)
            publish(direct, key, {}, making.parts(other, "e2"), deadline=soon)
            raise UnavailableError("the answer was lost")

        wired.put_new = put_new  # type: ignore[method-assign]
        done = publish(wired, key, {}, making.parts(tree), deadline=soon)
        assert done.outcome is PublishOutcome.PUBLISHED
        assert sorted(part.name for part in manifest_of(direct, key).entries()) == ["e1", "e2"]

    @pytest.mark.parametrize("fault", [Answer(503), Hang()], ids=repr)
    def test_a_store_that_never_answers_ends_by_the_deadline(
        self, wired: Store, proxy: Proxy, key: Key, tree: Path, fault: Fault
    ) -> None:
        proxy.add(fault, times=None)
        done = publish(wired, key, {}, making.parts(tree), deadline=Deadline.after(2))
        assert done.outcome is PublishOutcome.FAILED
        assert done.reason in {"deadline", "store_unavailable"}
        assert done.seconds < 2 + SLACK

    def test_a_reader_who_may_not_write_is_told_so(
        self, s3_place: Place, s3_server: s3.Server, key: Key, tree: Path, soon: Deadline
    ) -> None:
        store = Place(s3_place.url, s3_server.with_keys(s3.READER).env()).open()
        done = publish(store, key, {}, making.parts(tree), deadline=soon)
        assert done.outcome is PublishOutcome.SKIPPED
        assert done.reason in {"read_only_store", "access_denied"}
