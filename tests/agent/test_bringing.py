"""What is wrong about one key is that key's alone: the node gets ready, the other keys come, the store is not asked for ever."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import pytest

from glowplug.agent import bringing as module
from glowplug.agent import prewarm as rounds
from glowplug.agent.bringing import Bringing
from glowplug.agent.prewarm import Prewarm
from glowplug.agent.ranking import Wish
from glowplug.cache import format as manifests
from glowplug.cache import layout
from glowplug.core.clock import SYSTEM, Deadline
from glowplug.core.documents.fingerprint import Key
from glowplug.core.errors import AccessDeniedError, UnavailableError
from glowplug.nodestore import write
from glowplug.nodestore.read import NodeStore
from glowplug.store.contract import Store
from tests.agent.hearing import DOMAIN, Heard, entries, mount, prewarm, put, settings
from tests.agent.meddling import Meddled
from tests.cache import making
from tests.clocks import Held


def warm(one: Prewarm) -> bool:
    return one.begin() and one.round()


def blob(store: Store, key: Key, entry: str = "e1") -> str:
    """The path of an entry's blob."""
    path = layout.manifest_path(key)
    manifest = manifests.decode(store.get(path, Deadline.after(30)).data, path=path)
    (digest,) = (part.sha256 for part in manifest.entries() if part.name == entry)
    return layout.blob_path(key.domain, digest)


def agent(told: Any, heard: Heard, store: Meddled, **options: Any) -> Prewarm:
    return prewarm(told, heard, cast("Store", store), **options)


class TestABlob:
    def test_that_is_missing_leaves_out_its_entry_and_the_node_is_ready(
        self, store: Store, root: Path, trees: Path, heard: Heard
    ) -> None:
        key = put(store, trees, making.key())
        put(store, trees, key, "e2")
        other = put(store, trees, making.key(model="m2"))
        store.delete(blob(store, key), Deadline.after(30))
        assert warm(prewarm(settings(root), heard, store))
        assert (entries(root, key), entries(root, other)) == ({"e2"}, {"e1"})
        assert NodeStore(mount(root)).ready()
        assert heard.of("failed") == [("fetch", "blob-missing")]

    @pytest.mark.parametrize("how", ["missing", "refused"])
    def test_is_asked_for_again_more_and_more_rarely_and_comes_when_it_is_there(
        self, store: Store, root: Path, trees: Path, heard: Heard, how: str
    ) -> None:
        key = put(store, trees, making.key())
        lost = blob(store, key)
        data = store.get(lost, Deadline.after(30)).data

        def refuse(what: str, path: str) -> None:
            if how == "refused" and path == lost:
                raise AccessDeniedError("this one")

        between, clock = Meddled(store, refuse), Held()
        if how == "missing":
            store.delete(lost, Deadline.after(30))
        one = agent(settings(root), heard, between, clock=clock)
        assert warm(one)
        tries = []
        for _ in range(200):
            asked = between.of("list", "keys")
            assert one.go_on(), "it is no reason to ask for all of it again"
            assert between.of("list", "keys") == asked
            tries.append(len(heard.of("failed")))
            clock.at += 20
        assert tries[0] == 1
        assert 4 <= tries[-1] <= 10, "in more than an hour"
        assert heard.of("fetched") == [], "what came and was thrown away is not told"
        between.before = lambda _what, _path: None
        if how == "missing":
            store.put(lost, data, Deadline.after(30))
        clock.at += one._bringing.pause()
        assert one.go_on()
        assert entries(root, key) == {"e1"}
        assert one._bringing.pause() == float("inf")


class TestAManifest:
    def test_that_cannot_be_read_now_is_no_reason_to_be_ready_or_to_throw_the_key_away(
        self, store: Store, root: Path, trees: Path, heard: Heard
    ) -> None:
        key = put(store, trees, making.key(), size=100_000)
        assert warm(prewarm(settings(root), heard, store))
        put(store, trees, making.key(model="m2"), size=100_000)
        away = True

        def fail(what: str, path: str) -> None:
            if away and what == "get" and path == layout.manifest_path(key):
                raise UnavailableError("503")

        size = sum(one.bytes for one in write.usage(root))
        between = Meddled(store, fail)
        one = agent(settings(root, max_bytes=size + 50_000), heard, between)
        assert not warm(one)
        assert entries(root, key) == {"e1"}
        assert not NodeStore(mount(root)).ready()
        away = False
        assert one.go_on()
        assert NodeStore(mount(root)).ready()
        assert between.of("list", "keys") == 1, "what was listed is known"

    def test_that_cannot_be_read_now_is_not_what_makes_room(
        self, store: Store, root: Path, trees: Path, heard: Heard
    ) -> None:
        """Two keys fit: one cannot be asked, one is here, and one is what pods ask for now."""
        unasked, here = (put(store, trees, making.key(model=name), size=100_000) for name in ("m1", "m2"))
        assert warm(prewarm(settings(root), heard, store))
        write.touch(root, DOMAIN, unasked.digest(), Held(1.0))
        new = put(store, trees, making.key(model="m3"), size=100_000)

        def fail(what: str, path: str) -> None:
            if what == "get" and path == layout.manifest_path(unasked):
                raise UnavailableError("503")

        room = sum(one.bytes for one in write.usage(root)) + 100_000
        wishes = {DOMAIN: [Wish("vllm", "m3", 1)]}
        one = agent(settings(root, max_bytes=room), heard, Meddled(store, fail), wishes=lambda: wishes)
        assert not warm(one)
        assert [entries(root, key) for key in (unasked, here, new)] == [{"e1"}, None, {"e1"}]

    def test_that_is_refused_is_that_key_s_alone(self, store: Store, root: Path, trees: Path, heard: Heard) -> None:
        key, other = put(store, trees, making.key()), put(store, trees, making.key(model="m2"))

        def refuse(what: str, path: str) -> None:
            if what == "get" and path == layout.manifest_path(key):
                raise AccessDeniedError("this one")

        assert warm(agent(settings(root), heard, Meddled(store, refuse)))
        assert (entries(root, key), entries(root, other)) == (None, {"e1"})
        assert NodeStore(mount(root)).ready()

    def test_of_another_domain_with_the_same_digest_says_nothing_of_this_one(
        self, store: Store, root: Path, trees: Path, heard: Heard
    ) -> None:
        """Whoever writes to a domain names files there as he likes."""
        mine = put(store, trees, making.key(domain="aaa"))
        store.put(layout.manifest_path(mine).replace("/aaa/", "/bbb/"), b"{}", Deadline.after(30))
        one = prewarm(settings(root, domains=("aaa", "bbb")), heard, store)
        assert warm(one)
        assert entries(root, mine) == {"e1"}
        put(store, trees, mine, "e2")
        assert one.round()
        assert entries(root, mine) == {"e1", "e2"}


class TestAKeyThatIsBeingBrought:
    def test_is_not_waited_for(
        self, store: Store, root: Path, trees: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whoever waited would have no pulse; it is tried again."""
        monkeypatch.setattr(module, "_BUSY_SECONDS", 0.05)
        key = put(store, trees, making.key())
        write.prepare(root, DOMAIN)
        one = Bringing(settings(root), heard, verify=None, clock=SYSTEM)
        with one._alone_with((DOMAIN, key.digest())):
            assert not one.bring(store, DOMAIN, layout.manifest_path(key))
            assert one.examine(DOMAIN, key.digest()) == ""
        assert one.bring(store, DOMAIN, layout.manifest_path(key))
        assert entries(root, key) == {"e1"}
        assert one._busy == set()


class TestTheListing:
    def test_is_not_made_again_for_a_fetch_that_failed(
        self, store: Store, root: Path, trees: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(store, trees, making.key())

        def fail(what: str, path: str) -> None:
            if "/blobs/" in path:
                raise UnavailableError("503")

        waits: list[float] = []

        def wait(stop: threading.Event, seconds: float, *_others: object) -> None:
            waits.append(seconds)
            if len(waits) == 10:
                stop.set()

        monkeypatch.setattr(rounds, "wait", wait)
        between = Meddled(store, fail)
        agent(settings(root), heard, between).run(threading.Event())
        assert between.of("list", "keys") == 1
        assert len(heard.of("failed")) >= 10
        assert max(waits) <= 60

    def test_takes_away_nothing_that_came_after_it_began(
        self, store: Store, root: Path, trees: Path, heard: Heard
    ) -> None:
        """The list is read, then when keys were used: somebody publishes in between, and the key is fetched at once."""
        put(store, trees, making.key(model="m2"))
        new = making.key()

        def publish(what: str, path: str) -> None:
            if what == "list" and path == layout.uses_prefix(DOMAIN) and not heard.of("fetched"):
                put(store, trees, new)
                one.wanting.want(DOMAIN, new.digest(), layout.manifest_path(new))
                assert one.wanting.serve()

        between = Meddled(store, publish)
        one = agent(settings(root, relist_seconds=0.0), heard, between)
        assert warm(one)
        assert entries(root, new) == {"e1"}
        assert heard.of("removed") == []
        store.delete(layout.manifest_path(new), Deadline.after(30))
        assert one.round()
        assert one.round()
        assert entries(root, new) is None, "but what was removed later goes when two more have missed it"

    def test_ends_what_is_remembered_of_keys_that_are_gone(
        self, store: Store, root: Path, trees: Path, heard: Heard
    ) -> None:
        key, other = put(store, trees, making.key()), put(store, trees, making.key(model="m2"))
        one = prewarm(settings(root, relist_seconds=0.0), heard, store)
        assert warm(one)
        assert set(one._bringing._tried) == {(DOMAIN, key.digest()), (DOMAIN, other.digest())}
        store.delete(layout.manifest_path(key), Deadline.after(30))
        assert one.round()
        assert one.round()
        assert set(one._bringing._tried) == {(DOMAIN, other.digest())}
