"""A part that is damaged in the store itself: told, left alone, and replaced by what the next pod of the node compiles."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest

from glowplug.agent.bringing import Bringing
from glowplug.agent.damage import Damage
from glowplug.agent.reading import Places, Reading
from glowplug.cache import format as manifests
from glowplug.cache import layout
from glowplug.core.clock import Deadline
from glowplug.core.documents.fingerprint import Key
from glowplug.core.documents.node import ENTRY, SUPPORT
from glowplug.core.errors import UnavailableError
from glowplug.nodestore.read import NodeStore
from glowplug.store.contract import Store
from glowplug.store.schemes import open_store
from tests.agent.hearing import DOMAIN, Heard, entries, mount, put, settings
from tests.agent.meddling import Meddled
from tests.agent.outboxes import ENTRY_NAME, Node, claim, pod, tree
from tests.clocks import Held
from tests.parts import requires
from tests.store.conftest import Place, s3_place, s3_server

__all__ = ["s3_place", "s3_server"]


def blob(store: Store, key: Key, kind: str = ENTRY, name: str = "e1") -> str:
    """The path of an entry's blob, or of its support's."""
    path = layout.manifest_path(key)
    manifest = manifests.decode(store.get(path, Deadline.after(30)).data, path=path)
    (digest,) = (part.sha256 for part in manifest.parts if part.kind == kind and name in (part.name, part.of))
    return layout.blob_path(key.domain, digest)


def spoil(store: Store, path: str) -> bytes:
    """One bit of an object is another one; returns what it was."""
    good = b"".join(store.stream(path, Deadline.after(30)))
    middle = len(good) // 2
    store.put(path, good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :], Deadline.after(30))
    return good


class Fetching:
    """One agent's way to bring a key, an hour or a day later."""

    def __init__(self, root: Path, store: Store, key: Key) -> None:
        self.heard, self.clock = Heard(), Held(1.0)
        self.between = Meddled(store)
        self.damage = Damage(self.clock)
        self.key = key
        self.bringing = Bringing(settings(root), self.heard, verify=None, clock=self.clock, damage=self.damage)

    def again(self, seconds: float = 300.0) -> int:
        """How many blobs a relist downloads so much later."""
        self.clock.at += seconds
        before = self.between.of("stream", "blobs")
        assert self.bringing.bring(cast("Store", self.between), DOMAIN, layout.manifest_path(self.key))
        return self.between.of("stream", "blobs") - before


@pytest.fixture
def fetching(root: Path, store: Store, key: Key) -> Fetching:
    return Fetching(root, store, key)


@pytest.mark.parametrize("kind", [ENTRY, SUPPORT])
def test_it_is_told_once_and_neither_it_nor_its_other_half_is_downloaded_again_and_again(
    fetching: Fetching, store: Store, key: Key, trees: Path, root: Path, kind: str
) -> None:
    put(store, trees, key, "e2")
    spoil(store, blob(store, key, kind))
    assert fetching.again() == 6, "four parts, and both halves of what did not come once more"
    assert entries(root, key) == {"e2"}, "what is whole is here"
    digest = Path(blob(store, key, kind)).name.partition(".")[0]
    assert fetching.heard.of("damaged") == [(DOMAIN, key.digest(), digest)]
    assert [what for what, _ in fetching.heard.of("failed")] == ["fetch"]
    assert [fetching.again() for _ in range(2)] == [0, 0], "the same object, within a quarter of an hour"
    looks = sum(fetching.again() > 0 for _ in range(12 * 24))
    assert 4 <= looks <= 10, "a day of relists: its disk may have been mended"
    assert len(fetching.heard.of("damaged")) == 1
    assert len(fetching.heard.of("failed")) == looks + 1, "each look is told, and nothing between"


def test_other_bytes_under_its_name_are_fetched_at_once(fetching: Fetching, store: Store, key: Key, root: Path) -> None:
    """The manifest is the same then: somebody published the very part again."""
    path = blob(store, key)
    good = spoil(store, path)
    fetching.again()
    assert fetching.again() == 0
    store.put(path, good, Deadline.after(30))
    assert fetching.again() == 2
    assert entries(root, key) == {"e1"}
    assert not fetching.damage.is_any(DOMAIN)
    assert fetching.again() == 0


def test_what_is_damaged_on_the_way_is_no_damage_of_the_store(
    fetching: Fetching, store: Store, key: Key, root: Path
) -> None:
    stream = store.stream
    path, left = blob(store, key), [1]

    def once(asked: str, deadline: Deadline, *, chunk_bytes: int = 1 << 20) -> Iterator[bytes]:
        for piece in stream(asked, deadline, chunk_bytes=chunk_bytes):
            flip = asked == path and left and left.pop()
            yield bytes([piece[0] ^ 1]) + piece[1:] if flip else piece

    fetching.between.stream = once  # type: ignore[attr-defined]
    fetching.again()
    assert (entries(root, key), fetching.heard.of("damaged")) == (None, [])
    fetching.again()
    assert entries(root, key) == {"e1"}


def test_new_support_that_is_damaged_leaves_the_old_one(
    fetching: Fetching, store: Store, key: Key, root: Path, trees: Path
) -> None:
    """An entry was completed after its first hit; the node keeps what it had."""
    fetching.again()
    before = NodeStore(mount(root)).held(key.digest())
    put(store, trees / "more", key, "e1", files=6)
    spoil(store, blob(store, key, SUPPORT))
    fetching.bringing.bring(store, DOMAIN, layout.manifest_path(key), anew=True)
    after = NodeStore(mount(root)).held(key.digest())
    assert before is not None and after is not None
    assert after.parts == before.parts
    assert len(fetching.heard.of("damaged")) == 1
    assert [fetching.again() for _ in range(2)] == [0, 0]
    after = NodeStore(mount(root)).held(key.digest())
    assert after is not None and after.parts == before.parts


@requires("s3")
class TestWhatAPodCompilesInstead:
    """On a real S3 server: nodes, their agents, and one store."""

    def test_takes_its_place_for_every_node(self, s3_place: Place, tmp_path: Path) -> None:
        first = Node(tmp_path / "one", pod(), url=s3_place.url, environ=s3_place.environ)
        first.hand_over(pod(), tree(tmp_path / "made"))
        assert first.round().publishes() == ["published"]
        key, store = claim().key, open_store(s3_place.url, s3_place.environ)
        spoilt = blob(store, key, ENTRY, ENTRY_NAME)
        spoil(store, spoilt)

        heard, damage = Heard(), Damage()
        second = Node(tmp_path / "two", pod(2), url=s3_place.url, environ=s3_place.environ, damage=damage)
        bringing = Bringing(settings(second.root), heard, verify=None, clock=second.clock, damage=damage)
        path = layout.manifest_path(key)
        assert bringing.bring(store, key.domain, path)
        assert (entries(second.root, key), len(heard.of("damaged"))) == (None, 1)

        second.hand_over(pod(2), tree(tmp_path / "again", salt="another compile"))
        assert second.round().publishes() == ["published"]
        assert spoilt not in {layout.blob_path(key.domain, part.sha256) for part in second.published().parts}
        assert bringing.bring(store, key.domain, path, anew=True)
        assert entries(second.root, key) == {ENTRY_NAME}

    def test_is_nothing_new_where_the_agent_knows_of_no_damage(self, s3_place: Place, tmp_path: Path) -> None:
        node = Node(tmp_path, pod(), pod(2), url=s3_place.url, environ=s3_place.environ)
        for number in (1, 2):
            node.hand_over(pod(number), tree(tmp_path / f"made{number}", salt=f"{number}"))
        assert node.round().publishes() == ["published", "unchanged"]


class TestReading:
    @pytest.fixture
    def blobs(self, store: Store) -> Store:
        for name in "abc":
            store.put(f"blobs/{name}", os.urandom(3 << 20), Deadline.after(30))
        return store

    def test_only_so_many_blobs_at_once_and_who_waits_ends_by_its_deadline(self, blobs: Store) -> None:
        threads = [ThreadPoolExecutor(1) for _ in range(3)]
        with Reading(blobs, DOMAIN, Places(2), Damage()) as reading:
            first, second = (threads[number].submit(begun, reading, "blobs/a").result() for number in range(2))
            with pytest.raises(UnavailableError, match="other downloads"):
                threads[2].submit(begun, reading, "blobs/b", 0.1).result()
            assert sum(map(len, first)) == 2 << 20, "the first of three pieces was read"
            third = threads[2].submit(begun, reading, "blobs/b").result()
            assert sum(map(len, second)) == sum(map(len, third)) == 2 << 20
        for thread in threads:
            thread.shutdown()

    def test_what_a_reader_gave_up_is_closed_by_its_thread_s_next_and_at_the_end(self, blobs: Store) -> None:
        """Errors hold the frames that they came through, and these hold the stream."""
        places, held = Places(1), []
        for _ in range(2):
            with Reading(blobs, DOMAIN, places, Damage()) as reading:
                for _ in range(3):
                    held.append(reading.stream("blobs/a", Deadline.after(5)))
                    assert next(iter(held[-1]))


def begun(reading: Reading, path: str, seconds: float = 30.0) -> Iterator[bytes]:
    """A stream of this thread's, of which the first piece was read."""
    stream = iter(reading.stream(path, Deadline.after(seconds)))
    assert next(stream)
    return stream


def test_what_is_remembered_is_bounded() -> None:
    damage = Damage(Held(1.0))
    for number in range(3000):
        damage.judge((DOMAIN, f"{number:064x}"), "v", [b"x"])
    assert len(damage._found) == 1000
    assert damage.is_known((DOMAIN, f"{2999:064x}"))
