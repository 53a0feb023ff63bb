"""Garbage is collected in two phases, and never under somebody's hands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from glowplug.cache import commit, layout, uses
from glowplug.cache.gc import Collected, collect
from glowplug.cache.publish import publish
from glowplug.core import canonical
from glowplug.core.clock import SYSTEM, Deadline
from glowplug.core.documents.fingerprint import Key
from glowplug.core.documents.start import PublishOutcome
from glowplug.core.errors import UnavailableError
from glowplug.store.contract import Meta, Store
from tests.cache import making

DAY = 86400.0
GRACE = 7 * DAY


@dataclass
class Later:
    """The machine's clock, some seconds on."""

    ahead: float = 0.0

    def now(self) -> float:
        return SYSTEM.now() + self.ahead

    def monotonic(self) -> float:
        return SYSTEM.monotonic()

    def sleep(self, seconds: float) -> None:
        SYSTEM.sleep(seconds)


@pytest.fixture
def clock() -> Later:
    return Later()


@pytest.fixture
def filled(store: Store, key: Key, tree: Path, soon: Deadline) -> Store:
    publish(store, key, {}, making.parts(tree), deadline=soon)
    return store


def blobs(store: Store) -> int:
    return sum(1 for _ in store.list(layout.blobs_prefix("default"), Deadline.after(30)))


def run(store: Store, clock: Later, **options: object) -> Collected:
    return collect(store, "default", Deadline.after(60), clock=clock, grace=GRACE, **options)  # type: ignore[arg-type]


def test_what_is_named_stays_however_old(filled: Store, clock: Later) -> None:
    for _ in range(4):
        clock.ahead += 30 * DAY
        assert run(filled, clock) == Collected()
    assert blobs(filled) == 2


def test_what_nobody_names_goes_in_the_second_phase(filled: Store, key: Key, clock: Later, soon: Deadline) -> None:
    filled.delete(layout.manifest_path(key), soon)
    clock.ahead = 30 * DAY
    first = run(filled, clock)
    assert (len(first.noted), first.blobs, blobs(filled)) == (2, (), 2)
    clock.ahead += GRACE / 2
    second = run(filled, clock)
    assert (len(second.noted), second.blobs, blobs(filled)) == (2, (), 2)
    clock.ahead += GRACE
    third = run(filled, clock)
    assert (third.noted, len(third.blobs), blobs(filled)) == ((), 2, 0)
    assert third.bytes > 0
    assert run(filled, clock) == Collected()


def test_a_blob_that_is_named_again_is_forgotten(
    filled: Store, key: Key, tree: Path, clock: Later, soon: Deadline
) -> None:
    filled.delete(layout.manifest_path(key), soon)
    clock.ahead = 30 * DAY
    run(filled, clock)
    assert publish(filled, key, {}, making.parts(tree), deadline=soon).outcome is PublishOutcome.PUBLISHED
    clock.ahead += 2 * GRACE
    assert run(filled, clock) == Collected()
    filled.delete(layout.manifest_path(key), soon)
    clock.ahead += GRACE
    assert len(run(filled, clock).noted) == 2
    assert blobs(filled) == 2


def test_a_young_blob_of_a_publisher_at_work_is_left(filled: Store, key: Key, clock: Later, soon: Deadline) -> None:
    filled.delete(layout.manifest_path(key), soon)
    for _ in range(3):
        assert run(filled, clock).blobs == ()
    assert blobs(filled) == 2


def test_a_blob_that_a_publisher_wrote_again_is_left_though_noted_long_ago(
    filled: Store, key: Key, clock: Later, soon: Deadline
) -> None:
    """It is about to be named: half the grace is the publisher's."""
    filled.delete(layout.manifest_path(key), soon)
    long_ago = int(clock.now() - 3 * GRACE)
    digests = [layout.parse_blob_path(meta.path) for meta in filled.list(layout.blobs_prefix("default"), soon)]
    notes = canonical.encode({"schema": "glowplug.gc/1", "unnamed": {str(digest): long_ago for digest in digests}})
    filled.put_new(layout.gc_path("default"), notes, soon)
    assert run(filled, clock).blobs == ()
    assert blobs(filled) == 2
    clock.ahead = 2 * GRACE
    assert len(run(filled, clock).blobs) == 2


@pytest.mark.parametrize("data", [b"{damaged", b""])
def test_one_manifest_that_cannot_be_read_keeps_every_blob(
    filled: Store, key: Key, clock: Later, soon: Deadline, data: bytes
) -> None:
    path = layout.manifest_path(key)
    filled.delete(path, soon)
    filled.put_new(path, data, soon)
    for _ in range(3):
        clock.ahead += 2 * GRACE
        done = run(filled, clock)
        assert (done.unreadable, done.blobs) == ((path,), ())
    assert blobs(filled) == 2


class TestKeys:
    def test_unused_ones_go(self, filled: Store, key: Key, clock: Later) -> None:
        assert run(filled, clock, older_than=30 * DAY).keys == ()
        clock.ahead = 31 * DAY
        assert run(filled, clock, older_than=30 * DAY).keys == (key.digest(),)
        assert commit.read(filled, layout.manifest_path(key), Deadline.after(30)).manifest is None
        assert uses.last_used(filled, "default", Deadline.after(30)) == {}

    def test_the_most_recent_ones_are_kept(self, filled: Store, tree: Path, clock: Later, soon: Deadline) -> None:
        for number in range(3):
            publish(filled, making.key(model=f"m{number}"), {}, making.parts(tree), deadline=soon)
        clock.ahead = 31 * DAY
        assert len(run(filled, clock, older_than=30 * DAY, keep=3).keys) == 1

    def test_a_dry_run_changes_nothing(self, filled: Store, key: Key, clock: Later) -> None:
        clock.ahead = 31 * DAY
        done = run(filled, clock, older_than=30 * DAY, dry_run=True)
        assert (done.keys, len(done.noted)) == ((key.digest(),), 2)
        assert run(filled, clock) == Collected()

    def test_a_key_that_is_written_meanwhile_stays(
        self, filled: Store, key: Key, tree: Path, clock: Later, soon: Deadline
    ) -> None:
        class Busy:
            def __getattr__(self, name: str) -> object:
                return getattr(filled, name)

            def head(self, path: str, deadline: Deadline) -> object:
                if path == layout.manifest_path(key):
                    making.tree(tree, "e2")
                    publish(filled, key, {}, making.parts(tree, "e2"), deadline=soon)
                return filled.head(path, deadline)

        clock.ahead = 31 * DAY
        assert run(Busy(), clock, older_than=30 * DAY).keys == ()  # type: ignore[arg-type]
        assert commit.read(filled, layout.manifest_path(key), soon).manifest is not None


def test_a_use_is_noted_once_a_day(store: Store, key: Key, soon: Deadline, clock: Later) -> None:
    assert uses.touch(store, key, soon, clock)
    assert not uses.touch(store, key, soon, clock)
    clock.ahead = DAY + 60
    assert uses.touch(store, key, soon, clock)
    assert set(uses.last_used(store, "default", soon)) == {key.digest()}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'{"unnamed": 1}',
        b'{"unnamed": {"%s": 1e400}}' % (b"a" * 64),
        b'{"unnamed": {"%s": -1e400}}' % (b"a" * 64),
        b'{"unnamed": {"%s": NaN}}' % (b"a" * 64),
        b'{"unnamed": {"%s": %s}}' % (b"a" * 64, b"9" * 5000),
        b'{"unnamed": {"%s": "%s"}}' % (b"a" * 64, b"9" * 5000),
        b'{"unnamed": {"%s": []}}' % (b"a" * 64),
        b'{"unnamed": ' + b"[" * 100_000,
        b"\xff\xfe",
    ],
    ids=range(13),
)
def test_damaged_notes_count_as_none(filled: Store, clock: Later, soon: Deadline, data: bytes) -> None:
    filled.put_new(layout.gc_path("default"), data, soon)
    clock.ahead = 100 * DAY
    assert run(filled, clock) == Collected()
    (meta,) = filled.list(layout.keys_prefix("default"), soon)
    filled.delete(meta.path, soon)
    first = run(filled, clock)
    assert (len(first.noted), first.blobs) == (2, ())
    clock.ahead += GRACE + 1
    assert len(run(filled, clock).blobs) == 2


class _Garbled:
    """A store before which a proxy answers listings of this prefix with a page of its own, which reads as an empty listing."""

    def __init__(self, store: Store, part: str, after: int = 0) -> None:
        self._store = store
        self._part = part
        self._after = after

    def list(self, prefix: str, deadline: Deadline) -> Iterator[Meta]:
        found = sorted(self._store.list(prefix, deadline), key=lambda meta: meta.path)
        yield from found[: self._after] if self._part in prefix else found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class TestAListingThatIsNone:
    def test_of_manifests_deletes_no_blob(self, filled: Store, clock: Later, soon: Deadline) -> None:
        """And nothing is left of how that was found out."""
        proxied = cast("Store", _Garbled(filled, "/keys"))
        clock.ahead = 30 * DAY
        run(proxied, clock)
        clock.ahead += 2 * GRACE
        with pytest.raises(UnavailableError, match="does not list"):
            run(proxied, clock)
        assert blobs(filled) == 2
        assert all(layout.parse_manifest_path(meta.path) for meta in filled.list(layout.keys_prefix("default"), soon))

    def test_that_breaks_off_deletes_no_blob(self, filled: Store, tree: Path, clock: Later, soon: Deadline) -> None:
        making.tree(tree, "e9")
        publish(filled, making.key(model="m9"), {}, making.parts(tree, "e9"), deadline=soon)
        proxied = cast("Store", _Garbled(filled, "/keys", after=1))
        clock.ahead = 30 * DAY
        assert run(proxied, clock).noted
        clock.ahead += 2 * GRACE
        with pytest.raises(UnavailableError, match="does not list"):
            run(proxied, clock)
        assert blobs(filled) == 4

    def test_that_was_whole_the_second_time_deletes_no_blob(self, filled: Store, clock: Later) -> None:
        class Once(_Garbled):
            def list(self, prefix: str, deadline: Deadline) -> Iterator[Meta]:
                yield from super().list(prefix, deadline)
                if self._part in prefix:
                    self._part = "nothing"

        clock.ahead = 30 * DAY
        run(cast("Store", Once(filled, "/keys")), clock)
        clock.ahead += 2 * GRACE
        assert run(cast("Store", Once(filled, "/keys")), clock).blobs == ()
        assert blobs(filled) == 2

    def test_of_marks_removes_no_key_that_is_used(self, filled: Store, key: Key, clock: Later, soon: Deadline) -> None:
        class Aged(_Garbled):
            """Where manifests were written long ago."""

            def list(self, prefix: str, deadline: Deadline) -> Iterator[Meta]:
                for meta in super().list(prefix, deadline):
                    yield replace(meta, modified=meta.modified - 40 * DAY)

        uses.touch(filled, key, soon, clock)
        assert run(cast("Store", Aged(filled, "/uses")), clock, older_than=30 * DAY).keys == ()
