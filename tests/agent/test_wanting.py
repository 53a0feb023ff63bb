"""Keys wanted by name: what the store's switch withholds, what they cost, and what pods can make up."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import cast

import pytest

from glowplug.cache import control, layout
from glowplug.cache.format import Manifest
from glowplug.core.clock import Deadline
from glowplug.core.documents.fingerprint import Key
from glowplug.core.errors import AccessDeniedError, UnavailableError
from glowplug.nodestore import layout as nodes
from glowplug.nodestore import write
from glowplug.nodestore.read import NodeStore
from glowplug.store.contract import Store
from tests.agent.hearing import DOMAIN, Heard, entries, mount, prewarm, put, settings
from tests.agent.meddling import Meddled
from tests.cache import making


def off(store: Store, how: str = "restore_off") -> None:
    if how == "restore_off":
        control.change(store, Deadline.after(30), restore=False)
    else:
        store.put(layout.CONTROL, b'{"min_version": "999"}', Deadline.after(30))


class TestTheSwitch:
    @pytest.mark.parametrize("how", ["restore_off", "min_version"])
    def test_holds_for_what_is_wanted(
        self, store: Store, key: Key, root: Path, trees: Path, heard: Heard, how: str
    ) -> None:
        one = prewarm(settings(root), heard, store)
        assert one.begin()
        assert one.round()
        put(store, trees, key, "e2")
        off(store, how)
        one.wanting.want(DOMAIN, key.digest(), layout.manifest_path(key))
        assert one.wanting.serve()
        assert entries(root, key) == {"e1"}, "what is here stays"
        store.delete(layout.CONTROL, Deadline.after(30))
        assert one.wanting.serve()
        assert one.round()
        assert entries(root, key) == {"e1", "e2"}

    def test_holds_for_what_is_under_way(self, store: Store, key: Key, root: Path, heard: Heard) -> None:
        def verify(_: Manifest) -> None:
            off(store)
            assert one._keeping.is_withheld(store), "as the other thread does meanwhile"

        one = prewarm(settings(root), heard, store, verify=verify)
        assert one.begin()
        assert one.round()
        node = NodeStore(mount(root)).node()
        assert node is not None
        assert (node.restore, node.prefetching) == (False, False)


def test_what_is_wanted_costs_no_listing_and_one_walk(
    store: Store, key: Key, root: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    between = Meddled(store)
    one = prewarm(settings(root), heard, cast("Store", between))
    assert one.begin()
    walks: list[Path] = []
    walk = write.usage

    def usage(root: Path) -> list[write.Usage]:
        walks.append(root)
        return walk(root)

    monkeypatch.setattr(write, "usage", usage)
    one.wanting.want(DOMAIN, key.digest(), layout.manifest_path(key))
    assert one.wanting.serve()
    assert entries(root, key) == {"e1"}
    assert (between.of("list", ""), len(walks)) == (0, 1)


def test_a_key_that_did_not_change_waits_for_its_time(store: Store, key: Key, root: Path, heard: Heard) -> None:
    """Each replica of a workload wants it, and its blob is refused."""

    def refuse(what: str, path: str) -> None:
        if "/blobs/" in path:
            raise AccessDeniedError("not this one")

    one = prewarm(settings(root), heard, cast("Store", Meddled(store, refuse)))
    assert one.begin()
    assert one.round()
    told = len(heard.of("failed"))
    for changed, tries in ((False, 0), (True, 1)):
        one.wanting.want(DOMAIN, key.digest(), layout.manifest_path(key), changed=changed)
        assert one.wanting.serve()
        assert (len(heard.of("failed")) > told) is bool(tries)


def test_it_shows_itself_before_each_key(store: Store, trees: Path, root: Path, heard: Heard) -> None:
    """One of them may take as long as a pulse allows."""
    keys = [put(store, trees, making.key(model=f"m{number}")) for number in range(3)]
    one = prewarm(settings(root), heard, store)
    assert one.begin()
    assert one.round()
    heard.clear()
    ticks: list[int] = []
    for key in keys:
        one.wanting.want(DOMAIN, key.digest(), layout.manifest_path(key))
        put(store, trees, key, "e2")
    one.wanting.suspect(DOMAIN, keys[0].digest())
    assert one.wanting.serve(lambda: ticks.append(len(heard.of("fetched"))))
    assert ticks == [0, 0, 1, 2]


def test_pods_make_up_digests_and_nothing_is_remembered_of_them(
    store: Store, key: Key, root: Path, heard: Heard
) -> None:
    one = prewarm(settings(root), heard, store)
    assert one.begin()
    assert one.round()
    for number in range(100):
        one.wanting.suspect(DOMAIN, f"{number:064x}")
    assert one.wanting.serve()
    assert (one.wanting._suspected, one._bringing._busy) == ({}, set())
    assert list(one._bringing._tried) == [(DOMAIN, key.digest())]


class TestTheBeginning:
    def test_that_comes_late_is_ready_at_once(
        self, store: Store, root: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The time of the first fetch is over, the store is away, and then the program can be put in place at last."""
        from glowplug.agent import prewarm as module

        monkeypatch.setattr(module, "_IMPATIENT_SECONDS", 0.0)
        late = iter([True, False])

        def opened() -> Store:
            raise UnavailableError("away")

        def program() -> bytes:
            if next(late):
                raise UnavailableError("not yet")
            return b"it"

        one = prewarm(settings(root, prewarm_seconds=0.0), heard, opened)
        one._source = module.Source(opened, one._source.gpus, one._source.wishes, program)
        assert not one.begin()
        one.run_patience(threading.Event())
        assert one.begin()
        assert not one.round()
        assert one.unready() == ""

    def test_that_is_tried_twice_marks_ready_after_the_second(
        self, store: Store, key: Key, root: Path, heard: Heard
    ) -> None:
        one = prewarm(settings(root), heard, store)
        one._saying.ready(DOMAIN)
        assert one.begin()
        assert one.unready() == f"domain {DOMAIN}: what its pods are likely to need is being fetched"
        assert one.round()
        assert one.unready() == ""

    def test_takes_the_program_from_domains_that_are_kept_no_more(
        self, store: Store, key: Key, root: Path, heard: Heard
    ) -> None:
        """Else their pods would run an old one for ever."""
        before = prewarm(settings(root), heard, store)
        assert before.begin()
        assert before.round()
        assert prewarm(settings(root, domains=("other",)), heard, store).begin()
        left = {item.name for item in mount(root).iterdir()} - {".glowplug"}
        assert left == set()
        assert (mount(root, "other") / nodes.PROGRAM).exists()
