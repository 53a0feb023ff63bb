"""What crashed an engine on a node is not given to that node's pods again, by this agent or the next one, until a day is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from glowplug.agent import quarantine
from glowplug.cache import layout
from glowplug.cache.format import decode
from glowplug.core.clock import SYSTEM, Deadline
from glowplug.core.documents.fingerprint import Key
from glowplug.store.contract import Store
from glowplug.store.schemes import open_store
from tests.agent.hearing import Heard, entries, prewarm, put, settings
from tests.agent.listening import Later
from tests.cache import making


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store((tmp_path / "store").as_uri(), {})


@pytest.fixture
def key(store: Store, tmp_path: Path) -> Key:
    """A key with two entries."""
    key = put(store, tmp_path / "trees", making.key())
    return put(store, tmp_path / "trees", key, "e2")


@pytest.fixture
def bad(store: Store, key: Key) -> str:
    """The first entry's support."""
    path = layout.manifest_path(key)
    manifest = decode(store.get(path, Deadline.after(60)).data, path=path)
    return next(part.sha256 for part in manifest.parts if part.of == "e1")


def test_a_part_that_was_convicted_stays_away_and_its_neighbours_stay(
    store: Store, key: Key, bad: str, root: Path
) -> None:
    one = prewarm(settings(root), Heard(), store)
    assert one.begin()
    assert one.round()
    assert entries(root, key) == {"e1", "e2"}
    quarantine.convict(root, key.digest(), [bad], SYSTEM)
    one.wanting.want(key.domain, key.digest(), layout.manifest_path(key))
    assert one.wanting.serve()
    assert entries(root, key) == {"e2"}

    another = prewarm(settings(root), Heard(), store)
    assert another.begin()
    assert another.round()
    assert entries(root, key) == {"e2"}
    assert store.head(layout.blob_path(key.domain, bad), Deadline.after(60)) is not None


class TestItEnds:
    @pytest.mark.parametrize("how", ["by itself after a day", "by hand"])
    def test_and_the_part_comes_back_without_a_new_agent(
        self, store: Store, key: Key, bad: str, root: Path, how: str
    ) -> None:
        began = Later(2 * 3600 - quarantine.KEPT_SECONDS)
        quarantine.convict(root, key.digest(), [bad], began)
        one = prewarm(settings(root), Heard(), store)
        assert one.begin()
        assert one.round()
        assert entries(root, key) == {"e2"}
        if how == "by hand":
            (root / ".glowplug" / "quarantine.json").unlink()
        else:
            quarantine.convict(root, key.digest(), [bad], Later(-1 - quarantine.KEPT_SECONDS))
        assert one.round()
        assert entries(root, key) == {"e1", "e2"}

    def test_but_not_before(self, key: Key, bad: str, root: Path) -> None:
        quarantine.convict(root, key.digest(), [bad], SYSTEM)
        assert quarantine.left_out(root, Later(quarantine.KEPT_SECONDS - 60)) == {bad}
        assert quarantine.left_out(root, Later(quarantine.KEPT_SECONDS + 60)) == frozenset()

    def test_and_counts_anew_where_it_crashes_again(self, key: Key, bad: str, root: Path) -> None:
        quarantine.convict(root, key.digest(), [bad], Later(-quarantine.KEPT_SECONDS - 60))
        assert quarantine.left_out(root) == frozenset()
        quarantine.convict(root, key.digest(), [bad], SYSTEM)
        assert quarantine.left_out(root) == {bad}


def test_it_is_said_until_when_and_how_it_is_lifted(tmp_path: Path) -> None:
    said = quarantine.described(tmp_path, ["ab" * 32], SYSTEM)
    assert "abababababab" in said
    assert str(tmp_path / ".glowplug" / "quarantine.json") in said
