"""`verify` finds what is wrong, all of it, and says which exit status that is."""

from __future__ import annotations

from pathlib import Path

import pytest

from glowplug.cache import commit, layout
from glowplug.cache.publish import publish
from glowplug.cache.verify import verify
from glowplug.core.clock import Deadline
from glowplug.core.documents.fingerprint import Key
from glowplug.core.errors import NotFoundError
from glowplug.store.contract import Store
from tests.cache import making


@pytest.fixture
def filled(store: Store, key: Key, tree: Path, soon: Deadline) -> Store:
    for model in ("m1", "m2"):
        publish(store, making.key(model=model), {}, making.parts(making.tree(tree, model), model), deadline=soon)
    publish(store, key, {}, making.parts(tree), deadline=soon)
    return store


def blob_of(store: Store, key: Key, place: int = 0) -> tuple[str, int]:
    manifest = commit.read(store, layout.manifest_path(key), Deadline.after(30)).manifest
    assert manifest is not None
    return layout.blob_path(key.domain, manifest.parts[place].sha256), manifest.parts[place].size


@pytest.mark.parametrize("deep", [False, True])
def test_a_whole_store(filled: Store, soon: Deadline, deep: bool) -> None:
    done = verify(filled, "default", soon, deep=deep)
    assert (done.keys, done.parts, done.faults, done.error()) == (3, 6, (), None)


def test_a_missing_blob_is_exit_1(filled: Store, key: Key, soon: Deadline) -> None:
    filled.delete(blob_of(filled, key)[0], soon)
    done = verify(filled, "default", soon)
    assert [fault.code for fault in done.faults] == ["blob-missing"]
    error = done.error()
    assert error is not None
    assert error.exit_status == 1


def test_other_bytes_of_the_same_length_are_seen_by_deep_only(filled: Store, key: Key, soon: Deadline) -> None:
    path, size = blob_of(filled, key)
    filled.delete(path, soon)
    filled.put(path, b"x" * size, soon)
    assert verify(filled, "default", soon).faults == ()
    error = verify(filled, "default", soon, deep=True).error()
    assert error is not None
    assert error.exit_status == 4


def test_another_length_is_seen_at_once(filled: Store, key: Key, soon: Deadline) -> None:
    path, size = blob_of(filled, key)
    filled.delete(path, soon)
    filled.put(path, b"x" * (size + 1), soon)
    error = verify(filled, "default", soon).error()
    assert error is not None
    assert error.exit_status == 4


def test_every_fault_is_named_and_damage_outweighs_absence(filled: Store, key: Key, soon: Deadline) -> None:
    filled.delete(blob_of(filled, key)[0], soon)
    path = layout.manifest_path(making.key(model="m1"))
    filled.delete(path, soon)
    filled.put_new(path, b"{", soon)
    done = verify(filled, "default", soon)
    assert sorted(fault.code for fault in done.faults) == ["bad-manifest", "blob-missing"]
    error = done.error()
    assert error is not None
    assert error.exit_status == 4


def test_one_key(filled: Store, key: Key, soon: Deadline) -> None:
    filled.delete(blob_of(filled, making.key(model="m1"))[0], soon)
    assert verify(filled, "default", soon, digits=key.digest()[:10]).faults == ()
    with pytest.raises(NotFoundError):
        verify(filled, "other", soon, digits=key.digest()[:10])
