"""A node's store filled from the store: what is held, what pods are told, and that it recovers."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from glowplug.agent import bringing, wanting
from glowplug.agent import prewarm as module
from glowplug.agent.prewarm import Prewarm
from glowplug.agent.ranking import Wish
from glowplug.agent.stopping import StoppableClock
from glowplug.cache import control, layout
from glowplug.cache import format as manifests
from glowplug.cache.publish import block
from glowplug.core.clock import Deadline
from glowplug.core.documents.fingerprint import Key
from glowplug.core.errors import AccessDeniedError, IntegrityError, UnavailableError
from glowplug.nodestore import layout as nodes
from glowplug.nodestore import write
from glowplug.nodestore.read import NodeStore
from glowplug.store.contract import Meta, Store
from glowplug.store.retrying import Policy
from glowplug.store.schemes import open_store
from lab import faults
from tests.agent.hearing import DOMAIN, GPU, PROGRAM, Heard, entries, mount, prewarm, put, settings, waits
from tests.agent.meddling import Meddled
from tests.cache import making
from tests.parts import requires
from tests.store.conftest import Place, proxy, s3_place, s3_server

__all__ = ["proxy", "s3_place", "s3_server"]

real_s3 = requires("s3")


@dataclasses.dataclass
class _Moved:
    """The machine's clock, some seconds on."""

    ahead: float = 0.0

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class _Without(Meddled):
    """A store whose listings lack what has this in its path."""

    def __init__(self, store: Store, part: str) -> None:
        super().__init__(store)
        self.part = part

    def list(self, prefix: str, deadline: Deadline) -> Iterator[Meta]:
        yield from (meta for meta in super().list(prefix, deadline) if self.part not in meta.path)


def withheld(root: Path) -> str:
    """Why pods are given nothing, "" where they are."""
    node = NodeStore(mount(root)).node()
    assert node is not None
    assert node.restore is not bool(node.restore_reason)
    return node.restore_reason


def warm(one: Prewarm) -> bool:
    return one.begin() and one.round()


def until(holds: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def running(one: Prewarm, stop: threading.Event) -> Iterator[None]:
    """The loops of an agent, ended after the block."""
    threads = [threading.Thread(target=run, args=(stop,)) for run in (one.run, one.wanting.run, one.run_patience)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)


class TestANewNode:
    def test_holds_what_the_store_has_and_says_so(self, store: Store, key: Key, root: Path, heard: Heard) -> None:
        one = prewarm(settings(root), heard, store)
        assert one.unready() == "nothing is in place yet"
        assert warm(one)
        assert entries(root, key) == {"e1"}
        assert (mount(root) / nodes.PROGRAM).read_bytes() == PROGRAM
        assert not waits(root)
        assert NodeStore(mount(root)).ready()
        assert one.unready() == ""
        assert heard.of("fetched") == [(DOMAIN, key.digest(), 2)]
        assert heard.of("prewarmed") == [(DOMAIN, 1)]
        assert heard.of("held") == [(1,)]

    def test_says_that_it_fetches_before_it_asks_the_store(
        self, store: Store, key: Key, root: Path, heard: Heard
    ) -> None:
        seen: list[tuple[bool, bool]] = []

        def asked() -> Store:
            seen.append(((mount(root) / nodes.PROGRAM).exists(), waits(root)))
            return store

        assert warm(prewarm(settings(root), heard, asked))
        assert seen[0] == (True, True)

    def test_with_nothing_in_the_store_is_ready_at_once(self, store: Store, root: Path, heard: Heard) -> None:
        assert warm(prewarm(settings(root), heard, store))
        assert NodeStore(mount(root)).ready()
        assert heard.of("prewarmed") == [(DOMAIN, 0)]

    def test_holds_keys_of_every_gpu_that_it_may_have_and_of_no_other(
        self, store: Store, key: Key, root: Path, trees: Path, heard: Heard
    ) -> None:
        other = put(store, trees, making.key(gpu="NVIDIA H200"))
        never = put(store, trees, making.key(gpu="NVIDIA L4"))
        assert warm(prewarm(settings(root), heard, store, gpus=(GPU, "NVIDIA H200")))
        assert (entries(root, key), entries(root, other), entries(root, never)) == ({"e1"}, {"e1"}, None)

    def test_keeps_domains_apart(self, store: Store, key: Key, root: Path, trees: Path, heard: Heard) -> None:
        theirs = put(store, trees, making.key(domain="team-b"))
        foreign = put(store, trees, making.key(domain="team-c"))
        assert warm(prewarm(settings(root, domains=(DOMAIN, "team-b")), heard, store))
        assert entries(root, key) == entries(root, theirs) == {"e1"}
        assert not mount(root, foreign.domain).exists()

    def test_refuses_what_its_policy_refuses(self, store: Store, key: Key, root: Path, heard: Heard) -> None:
        assert warm(prewarm(settings(root), heard, store))

        def verify(_: manifests.Manifest) -> None:
            raise IntegrityError("unsigned", code="signature")

        assert warm(prewarm(settings(root), heard, store, verify=verify))
        assert entries(root, key) is None
        assert heard.of("removed") == [(DOMAIN, key.digest(), "signature")]


class TestWhatDoesNotFit:
    @pytest.fixture
    def keys(self, store: Store, trees: Path) -> list[Key]:
        """Three keys of equal size, the first used first."""
        found = []
        for number in range(3):
            found.append(put(store, trees, making.key(model=f"s3://bucket/m{number}"), size=100_000))
            time.sleep(0.01)
        return found

    def test_is_what_was_used_longest_ago(self, store: Store, keys: list[Key], root: Path, heard: Heard) -> None:
        assert warm(prewarm(settings(root, max_bytes=2_000_000), heard, store))
        assert [entries(root, key) for key in keys] == [None, {"e1"}, {"e1"}]

    def test_is_not_what_pods_ask_for(self, store: Store, keys: list[Key], root: Path, heard: Heard) -> None:
        wishes = {DOMAIN: [Wish("vllm", "s3://bucket/m0", 1)]}
        assert warm(prewarm(settings(root, max_bytes=1_000_000), heard, store, wishes=lambda: wishes))
        assert [entries(root, key) for key in keys] == [{"e1"}, None, None]

    def test_is_the_same_next_time(self, store: Store, keys: list[Key], root: Path, heard: Heard) -> None:
        one = prewarm(settings(root, max_bytes=2_000_000), heard, store)
        assert warm(one)
        heard.clear()
        for again in (one, prewarm(settings(root, max_bytes=2_000_000), heard, store)):
            assert warm(again)
        assert heard.of("fetched") == heard.of("removed") == []

    def test_makes_room_for_what_is_asked_for_now(
        self, store: Store, keys: list[Key], root: Path, heard: Heard
    ) -> None:
        wishes: dict[str, list[Wish]] = {}
        one = prewarm(settings(root, max_bytes=1_000_000), heard, store, wishes=lambda: wishes)
        assert warm(one)
        wishes[DOMAIN] = [Wish("vllm", "s3://bucket/m0", 1)]
        assert one.round()
        assert [entries(root, key) for key in keys] == [{"e1"}, None, None]
        assert heard.of("removed") == [(DOMAIN, keys[2].digest(), "space")]

    def test_asking_the_api_in_vain_costs_the_order_alone(
        self, store: Store, keys: list[Key], root: Path, heard: Heard
    ) -> None:
        def fails() -> dict[str, list[Wish]]:
            raise UnavailableError("no api")

        assert warm(prewarm(settings(root), heard, store, wishes=fails))
        assert [entries(root, key) for key in keys] == [{"e1"}] * 3
        assert ("api", "unavailable") in heard.of("failed")


class TestAChangeInTheStore:
    def test_comes_to_the_node(self, store: Store, key: Key, root: Path, trees: Path, heard: Heard) -> None:
        one = prewarm(settings(root), heard, store)
        assert warm(one)
        put(store, trees, key, "e2")
        assert one.round()
        assert entries(root, key) == {"e1", "e2"}
        assert heard.of("prewarmed") == [(DOMAIN, 1)], "the first fetch is told once"

    def test_removed_keys_go_when_they_were_missed_twice(
        self, store: Store, key: Key, root: Path, trees: Path, heard: Heard
    ) -> None:
        put(store, trees, making.key(model="another"))
        clock = _Moved()
        one = prewarm(settings(root, relist_seconds=300.0), heard, store, clock=clock)
        assert warm(one)
        store.delete(layout.manifest_path(key), Deadline.after(30))
        for ahead in (0.0, 299.0):
            clock.ahead = ahead
            assert one.round()
            assert entries(root, key) == {"e1"}
        clock.ahead = 310.0
        assert one.round()
        assert entries(root, key) is None
        assert heard.of("removed") == [(DOMAIN, key.digest(), "gone")]

    def test_a_listing_alone_takes_nothing_away(
        self, store: Store, key: Key, root: Path, trees: Path, heard: Heard
    ) -> None:
        """Half of a listing: the manifest is there when it is asked for."""
        put(store, trees, making.key(model="another"))
        one = prewarm(settings(root, relist_seconds=0.0), heard, store)
        assert warm(one)
        one._source = dataclasses.replace(one._source, store=lambda: cast("Store", _Without(store, key.digest())))
        for _ in range(3):
            assert one.round()
        assert entries(root, key) == {"e1"}

    @pytest.mark.parametrize("gone", [False, True])
    def test_a_store_that_lists_nothing_is_suspect(
        self, store: Store, key: Key, root: Path, heard: Heard, gone: bool
    ) -> None:
        """A proxy's page reads as an empty listing, and another bucket as one without the manifest, too."""
        one = prewarm(settings(root, relist_seconds=0.0), heard, store)
        assert warm(one)
        if gone:
            store.delete(layout.manifest_path(key), Deadline.after(30))
        one._source = dataclasses.replace(one._source, store=lambda: cast("Store", _Without(store, "")))
        for _ in range(3):
            assert one.round()
        assert entries(root, key) == {"e1"}
        assert heard.of("failed") == [("list", "unavailable")], "said once"
        control.change(store, Deadline.after(30), restore=True)
        for _ in range(2):
            assert one.round()
        assert (entries(root, key) is None) is gone, "where the store's switch is read, it is the store that answers"

    def test_a_block_takes_the_parts_away(self, store: Store, key: Key, root: Path, heard: Heard) -> None:
        one = prewarm(settings(root), heard, store)
        assert warm(one)
        block(store, layout.manifest_path(key), "it crashes", Deadline.after(30))
        assert one.round()
        held = NodeStore(mount(root)).held(key.digest())
        assert held is not None
        assert (held.blocked, held.parts) == ("it crashes", ())

    @pytest.mark.parametrize("how", ["restore_off", "min_version"])
    def test_the_switch_withholds_and_nobody_waits(
        self, store: Store, key: Key, root: Path, heard: Heard, how: str
    ) -> None:
        one = prewarm(settings(root), heard, store)
        assert warm(one)
        heard.clear()
        if how == "restore_off":
            control.change(store, Deadline.after(30), restore=False)
        else:
            store.put(layout.CONTROL, b'{"min_version": "999"}', Deadline.after(30))
        assert one.round()
        assert withheld(root) == how
        assert not waits(root)
        again = prewarm(settings(root), heard, lambda: (_ for _ in ()).throw(UnavailableError("away")))
        assert again.begin()
        assert not again.round()
        assert withheld(root) == how, "an agent that is started anew stands where the other stood"
        store.delete(layout.CONTROL, Deadline.after(30))
        assert one.round()
        assert withheld(root) == ""
        assert entries(root, key) == {"e1"}
        assert heard.of("removed") == heard.of("fetched") == [], "and nothing was downloaded again"

    def test_the_switch_is_asked_once_a_minute_and_what_came_meanwhile_is_fetched(
        self, store: Store, key: Key, root: Path, trees: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "_SWITCH_SECONDS", 0.05)
        monkeypatch.setattr(wanting, "_TICK_SECONDS", 0.05)
        stop = threading.Event()
        one = prewarm(settings(root), heard, store, clock=StoppableClock(stop))
        switch = threading.Thread(target=one.run_switch, args=(stop,))
        switch.start()
        with running(one, stop):
            until(lambda: entries(root, key) == {"e1"} and not waits(root))
            control.change(store, Deadline.after(30), restore=False)
            until(lambda: withheld(root) == "restore_off")
            block(store, layout.manifest_path(key), "it crashes", Deadline.after(30))
            other = put(store, trees, making.key(model="another"))
            control.change(store, Deadline.after(30), restore=True)
            until(lambda: withheld(root) == "")
            assert entries(root, key) == set(), "what was blocked meanwhile is not given for a moment"
            until(lambda: entries(root, other) == {"e1"})
        switch.join(60)

    def test_a_switch_that_cannot_be_asked_stands_as_it_was(
        self, store: Store, key: Key, root: Path, heard: Heard
    ) -> None:
        def refuse(what: str, path: str) -> None:
            if path == layout.CONTROL:
                raise UnavailableError("late")

        one = prewarm(settings(root), heard, store)
        assert warm(one)
        control.change(store, Deadline.after(30), restore=False)
        assert one.round()
        one._source = dataclasses.replace(one._source, store=lambda: cast("Store", Meddled(store, refuse)))
        assert one.round()
        assert withheld(root) == "restore_off"

    @real_s3
    def test_what_did_not_change_is_listed_and_no_more(
        self, s3_place: Place, proxy: faults.Proxy, root: Path, trees: Path, heard: Heard
    ) -> None:
        store = open_store(s3_place.url, proxy.server.env())
        put(store, trees, making.key())
        one = prewarm(settings(root), heard, store)
        assert warm(one)
        before = len(proxy.seen)
        assert one.round()
        asked = [(seen.method, "list-type" in seen.query) for seen in proxy.seen[before:]]
        assert asked.count(("GET", True)) == 2, "keys, and when they were used"
        assert len(asked) == 3, "and the switch"


class TestDamage:
    def test_in_the_store_keeps_no_pod_waiting_and_what_is_published_anew_is_fetched(
        self, store: Store, key: Key, root: Path, trees: Path, heard: Heard
    ) -> None:
        """What else becomes of it: test_damage.py."""
        manifest = manifests.decode(
            store.get(layout.manifest_path(key), Deadline.after(30)).data, path=layout.manifest_path(key)
        )
        store.put(layout.blob_path(DOMAIN, manifest.entries()[0].sha256), b"other bytes", Deadline.after(30))
        one = prewarm(settings(root), heard, store)
        for _ in range(5):
            assert warm(one)
        assert NodeStore(mount(root)).ready()
        assert (len(heard.of("failed")), len(heard.of("damaged"))) == (1, 1)
        put(store, trees, key, "e2")
        assert one.round()
        assert entries(root, key) == {"e2"}

    def test_of_a_manifest_leaves_the_others_alone(
        self, store: Store, key: Key, root: Path, trees: Path, heard: Heard
    ) -> None:
        other = put(store, trees, making.key(model="m2"))
        store.put(layout.manifest_path(key), b"{}", Deadline.after(30))
        assert warm(prewarm(settings(root), heard, store))
        assert (entries(root, key), entries(root, other)) == (None, {"e1"})

    @pytest.mark.parametrize("how", ["document", "table", "short", "missing", "no document"])
    def test_on_the_node_is_found_at_the_start_and_mended(
        self, store: Store, key: Key, root: Path, heard: Heard, how: str
    ) -> None:
        assert warm(prewarm(settings(root), heard, store))
        place = mount(root) / key.digest()
        part = next(item for item in place.iterdir() if item.is_dir())
        file = next(item for item in sorted((part / nodes.TREE).rglob("*")) if item.is_file())
        match how:
            case "document":
                (place / nodes.KEY).write_text("{")
            case "table":
                (part / nodes.FILES).write_bytes(b"")
            case "short":
                file.write_bytes(file.read_bytes()[:-1])
            case "missing":
                file.unlink()
            case _:
                (place / nodes.KEY).unlink()
        heard.clear()
        assert warm(prewarm(settings(root), heard, store))
        assert heard.of("removed") == [(DOMAIN, key.digest(), "damaged")]
        assert len(heard.of("fetched")) == 1
        assert entries(root, key) == {"e1"}

    def test_that_a_pod_reports_is_looked_at(self, store: Store, key: Key, root: Path, heard: Heard) -> None:
        one = prewarm(settings(root), heard, store)
        assert warm(one)
        file = next(item for item in sorted((mount(root) / key.digest()).rglob("tree/*/*/*")) if item.is_file())
        good = file.read_bytes()
        file.chmod(0o644)
        file.write_bytes(bytes([good[0] ^ 1]) + good[1:])
        one.wanting.suspect(DOMAIN, key.digest())
        assert one.wanting.serve()
        assert file.read_bytes() == good
        assert heard.of("removed") == [(DOMAIN, key.digest(), "damaged")]

    def test_that_a_pod_only_claims_changes_nothing(self, store: Store, key: Key, root: Path, heard: Heard) -> None:
        one = prewarm(settings(root), heard, store)
        assert warm(one)
        heard.clear()
        one.wanting.suspect(DOMAIN, key.digest())
        one.wanting.suspect(DOMAIN, "0" * 64)
        one.wanting.suspect("elsewhere", key.digest())
        assert one.wanting.serve()
        assert heard.told == []


class TestAStoreThatCannotBeAsked:
    def test_keeps_nobody_waiting_and_is_asked_again(self, store: Store, key: Key, root: Path, heard: Heard) -> None:
        there = threading.Event()

        def opened() -> Store:
            if there.is_set():
                return store
            raise AccessDeniedError("no credentials yet", code="no-credentials")

        stop = threading.Event()
        one = prewarm(settings(root), heard, opened, clock=StoppableClock(stop))
        with running(one, stop):
            until(lambda: heard.of("failed"))
            until(lambda: not waits(root))
            assert not NodeStore(mount(root)).ready(), "not waiting is not the same as being ready"
            there.set()
            until(lambda: NodeStore(mount(root)).ready())
            assert entries(root, key) == {"e1"}

    @real_s3
    def test_serves_what_the_node_has(
        self, s3_place: Place, proxy: faults.Proxy, root: Path, trees: Path, heard: Heard
    ) -> None:
        key = put(s3_place.open(), trees, making.key())
        assert warm(prewarm(settings(root), heard, s3_place.open()))
        nobody = open_store(s3_place.url, faults.nobody(proxy.server).env(), policy=Policy(attempts=1))
        one = prewarm(settings(root), heard, nobody)
        assert one.begin()
        assert not one.round()
        assert entries(root, key) == {"e1"}
        assert not waits(root)

    @real_s3
    def test_and_hangs_is_not_waited_for(
        self, s3_place: Place, proxy: faults.Proxy, root: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "_IMPATIENT_SECONDS", 0.3)
        met = proxy.add(faults.Hang(), times=None)
        stop = threading.Event()
        store = open_store(s3_place.url, proxy.server.env())
        with running(prewarm(settings(root), heard, store, clock=StoppableClock(stop)), stop):
            assert met.wait(60)
            until(lambda: not waits(root))
            assert heard.of("failed") == [], "the store may still answer"
            proxy.clear()
            proxy.__exit__(None, None, None)  # what hangs ends now

    @real_s3
    def test_in_the_middle_of_a_fetch_is_asked_again(
        self,
        s3_place: Place,
        proxy: faults.Proxy,
        root: Path,
        trees: Path,
        heard: Heard,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(bringing, "_FIRST_WAIT", 0.1)
        key = put(s3_place.open(), trees, making.key())
        proxy.add(faults.Answer(403), method="GET", path="*/blobs/*", times=2)
        stop = threading.Event()
        store = open_store(s3_place.url, proxy.server.env())
        with running(prewarm(settings(root), heard, store, clock=StoppableClock(stop)), stop):
            until(lambda: entries(root, key) == {"e1"})
        assert ("fetch", "access-denied") in heard.of("failed")

    def test_when_its_time_is_over_the_node_is_ready_all_the_same(
        self, root: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "_IMPATIENT_SECONDS", 0.01)

        def opened() -> Store:
            raise UnavailableError("away")

        stop = threading.Event()
        one = prewarm(settings(root, prewarm_seconds=0.5), heard, opened, clock=StoppableClock(stop))
        with running(one, stop):
            until(lambda: one.unready() == "")

    def test_an_api_that_does_not_name_the_gpu_is_asked_again(
        self, store: Store, key: Key, root: Path, heard: Heard
    ) -> None:
        answers: list[tuple[str, ...]] = []
        one = prewarm(settings(root), heard, store)

        def gpus() -> tuple[str, ...]:
            if answers:
                return answers[0]
            raise UnavailableError("no api")

        one._source = dataclasses.replace(one._source, gpus=gpus)
        assert one.begin()
        assert not one.round()
        assert not waits(root)
        answers.append((GPU,))
        assert one.round()
        assert entries(root, key) == {"e1"}


class TestAWantedKey:
    def test_is_fetched_without_a_listing(self, store: Store, root: Path, trees: Path, heard: Heard) -> None:
        one = prewarm(settings(root), heard, store)
        assert warm(one)
        key = put(store, trees, making.key())
        one.wanting.want(DOMAIN, key.digest(), layout.manifest_path(key))
        assert one.wanting.serve()
        assert entries(root, key) == {"e1"}

    def test_that_changed_is_fetched_again(self, store: Store, key: Key, root: Path, trees: Path, heard: Heard) -> None:
        one = prewarm(settings(root), heard, store)
        assert warm(one)
        put(store, trees, key, "e2")
        one.wanting.want(DOMAIN, key.digest(), layout.manifest_path(key))
        assert one.wanting.serve()
        assert entries(root, key) == {"e1", "e2"}

    def test_that_changes_while_it_is_fetched_is_fetched_once_more(
        self, store: Store, root: Path, trees: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A start with two entries is published in two steps, the second while the first is being fetched."""
        one = prewarm(settings(root), heard, store)
        assert warm(one)
        key = put(store, trees, making.key())
        true = heard.fetched

        def fetched(*of: Any) -> None:
            true(*of)
            monkeypatch.setattr(heard, "fetched", true)
            put(store, trees, key, "e2")
            one.wanting.want(DOMAIN, key.digest(), layout.manifest_path(key))

        monkeypatch.setattr(heard, "fetched", fetched)
        one.wanting.want(DOMAIN, key.digest(), layout.manifest_path(key))
        assert one.wanting.serve()
        assert one.wanting.serve()
        assert entries(root, key) == {"e1", "e2"}

    @real_s3
    def test_does_not_wait_for_what_is_being_fetched(
        self, s3_place: Place, proxy: faults.Proxy, root: Path, trees: Path, heard: Heard
    ) -> None:
        put(s3_place.open(), trees, making.key())
        slow = proxy.add(faults.Hang(), method="GET", path="*/blobs/*", times=2)
        stop = threading.Event()
        one = prewarm(settings(root), heard, open_store(s3_place.url, proxy.server.env()), clock=StoppableClock(stop))
        with running(one, stop):
            assert slow.wait(60)
            key = put(s3_place.open(), trees, making.key(model="m2"))
            one.wanting.want(DOMAIN, key.digest(), layout.manifest_path(key))
            until(lambda: entries(root, key) == {"e1"})
            assert not NodeStore(mount(root)).ready()
            proxy.__exit__(None, None, None)

    def test_stays_wanted_while_the_store_is_away(self, store: Store, key: Key, root: Path, heard: Heard) -> None:
        there: list[Store] = []

        def opened() -> Store:
            if not there:
                raise UnavailableError("away")
            return there[0]

        one = prewarm(settings(root), heard, opened)
        assert one.begin()
        one.wanting.want(DOMAIN, key.digest(), layout.manifest_path(key))
        assert not one.wanting.serve()
        there.append(store)
        assert one.wanting.serve()
        assert entries(root, key) == {"e1"}

    def test_of_a_domain_that_is_not_kept_is_nobody_s(
        self, store: Store, root: Path, trees: Path, heard: Heard
    ) -> None:
        one = prewarm(settings(root), heard, store)
        assert warm(one)
        key = put(store, trees, making.key(domain="team-b"))
        one.wanting.want("team-b", key.digest(), layout.manifest_path(key))
        assert one.wanting.serve()
        assert not mount(root, "team-b").exists()


class TestWhatIsKeptOtherwise:
    def test_observing_keeps_nothing_and_gives_pods_the_program(
        self, store: Store, key: Key, root: Path, heard: Heard
    ) -> None:
        assert warm(prewarm(settings(root), heard, store))
        one = prewarm(settings(root, observe=True), heard, store)
        assert warm(one)
        node = NodeStore(mount(root)).node()
        assert node is not None
        assert (entries(root, key), node.outbox, waits(root)) == (None, False, False)
        assert (mount(root) / nodes.PROGRAM).exists()
        assert one.unready() == ""

    def test_reading_only_says_that_nothing_need_be_sealed(
        self, store: Store, key: Key, root: Path, heard: Heard
    ) -> None:
        assert warm(prewarm(settings(root, read_only=True), heard, store))
        node = NodeStore(mount(root)).node()
        assert node is not None
        assert (entries(root, key), node.outbox) == ({"e1"}, False)

    def test_without_a_store_nobody_waits(self, root: Path, heard: Heard) -> None:
        def opened() -> Store:
            raise AssertionError("there is none to be opened")

        assert warm(prewarm(settings(root, store=""), heard, opened))
        assert NodeStore(mount(root)).ready()

    def test_without_an_instance_store_nothing_is_written(self, store: Store, root: Path, heard: Heard) -> None:
        one = prewarm(settings(root, kept=False), heard, store)
        assert warm(one)
        assert one.unready() == ""
        assert not root.exists()

    def test_a_domain_that_is_kept_no_more_is_emptied(
        self, store: Store, root: Path, trees: Path, heard: Heard
    ) -> None:
        key = put(store, trees, making.key(domain="team-b"))
        assert warm(prewarm(settings(root, domains=("team-b",)), heard, store))
        assert warm(prewarm(settings(root), heard, store))
        assert entries(root, key) is None
        assert heard.of("removed") == [("team-b", key.digest(), "domain")]


def test_a_used_key_outlives_one_that_was_not(store: Store, root: Path, trees: Path, heard: Heard) -> None:
    first, second = (put(store, trees, making.key(model=f"m{number}"), size=100_000) for number in range(2))
    one = prewarm(settings(root), heard, store)
    assert warm(one)
    for number, key in enumerate((second, first)):
        write.touch(root, DOMAIN, key.digest(), _At(float(number)))
    one.wanting.used(DOMAIN, second.digest())
    one.wanting.used(DOMAIN, "0" * 64)
    size = sum(found.bytes for found in write.usage(root))
    gone = write.lru(root, size - 1, 10**9)
    assert [found.key_digest for found in gone] == [first.digest()]


@dataclasses.dataclass
class _At:
    at: float

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


class TestListings:
    @pytest.fixture
    def waited(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        """Seconds between rounds; the third wait is the last."""
        found: list[float] = []

        def wait(stop: threading.Event, seconds: float, *_: object) -> None:
            found.append(seconds)
            if len(found) == 3:
                stop.set()

        monkeypatch.setattr(module, "wait", wait)
        return found

    @pytest.mark.parametrize(("drawn", "seconds"), [(0.0, 300.0), (0.5, 375.0), (0.99, 448.5)])
    def test_are_no_more_often_than_was_said_and_at_a_moment_of_one_s_own(
        self, store: Store, root: Path, heard: Heard, waited: list[float], drawn: float, seconds: float
    ) -> None:
        prewarm(settings(root), heard, store, draw=lambda: drawn).run(threading.Event())
        assert waited == pytest.approx([seconds] * 3, rel=0.01)

    def test_that_fail_are_tried_again_after_longer_and_longer_waits(
        self, root: Path, heard: Heard, waited: list[float]
    ) -> None:
        def opened() -> Store:
            raise UnavailableError("away")

        prewarm(settings(root), heard, opened, draw=lambda: 0.999).run(threading.Event())
        assert waited == pytest.approx([1, 2, 4], rel=0.01)


@real_s3
def test_the_end_breaks_off_a_fetch_and_is_no_failure(
    s3_place: Place, proxy: faults.Proxy, root: Path, trees: Path, heard: Heard
) -> None:
    put(s3_place.open(), trees, making.key(), size=200_000)
    slow = proxy.add(faults.Slow(2000), method="GET", path="*/blobs/*", times=None)
    stop = threading.Event()
    one = prewarm(settings(root), heard, open_store(s3_place.url, proxy.server.env()), clock=StoppableClock(stop))
    with running(one, stop):
        assert slow.wait(60)
    assert heard.of("failed") == []
    assert heard.of("fetched") == []
