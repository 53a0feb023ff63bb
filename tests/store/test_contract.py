"""Every promise of store/contract.py, held by every back end: a new back end is a parameter in conftest.py."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from glowplug.core.clock import Deadline
from glowplug.core.errors import (
    BadInputError,
    ConflictError,
    GlowplugError,
    IntegrityError,
    NotFoundError,
    UnavailableError,
)
from glowplug.store.contract import Meta, Store
from tests.store.conftest import Place


def paths_in(store: Store, prefix: str, deadline: Deadline) -> set[str]:
    return {meta.path for meta in store.list(prefix, deadline)}


def test_what_was_put_is_read_back_whole(store: Store, soon: Deadline) -> None:
    before = time.time()
    store.put("v1/d/blobs/one", b"content", soon)
    found = store.get("v1/d/blobs/one", soon)
    assert found.data == b"content"
    assert (found.meta.path, found.meta.size) == ("v1/d/blobs/one", 7)
    assert found.meta.version
    assert before - 2 <= found.meta.modified <= time.time() + 2


def test_an_empty_object_is_an_object(store: Store, soon: Deadline) -> None:
    store.put("empty", b"", soon)
    assert store.get("empty", soon).data == b""
    assert list(store.stream("empty", soon)) == []
    meta = store.head("empty", soon)
    assert meta is not None
    assert meta.size == 0


def test_an_absent_object_is_not_found(store: Store, soon: Deadline) -> None:
    store.put("other", b"1", soon)
    for path in ("absent", "deep/down/absent"):
        assert store.head(path, soon) is None
        with pytest.raises(NotFoundError) as caught:
            store.get(path, soon)
        assert caught.value.code == "not-found"
        with pytest.raises(NotFoundError):
            list(store.stream(path, soon))
        store.delete(path, soon)


def test_an_empty_store_answers_that_nothing_is_there(store: Store, soon: Deadline) -> None:
    assert list(store.list("", soon)) == []
    assert list(store.list("v1/d", soon)) == []
    assert store.head("a", soon) is None
    with pytest.raises(NotFoundError):
        store.get("a", soon)
    store.delete("a", soon)


def test_get_head_and_list_tell_the_same(store: Store, soon: Deadline) -> None:
    store.put("a/b", b"12345", soon)
    meta = store.get("a/b", soon).meta
    assert store.head("a/b", soon) == meta
    listed = list(store.list("a", soon))
    assert [(item.path, item.size, item.version) for item in listed] == [(meta.path, meta.size, meta.version)]
    assert abs(listed[0].modified - meta.modified) <= 1


def test_get_refuses_more_than_it_was_allowed(store: Store, soon: Deadline) -> None:
    store.put("a", b"12345", soon)
    assert store.get("a", soon, max_bytes=5).data == b"12345"
    with pytest.raises(IntegrityError) as caught:
        store.get("a", soon, max_bytes=4)
    assert caught.value.code == "archive-limit"


@pytest.mark.parametrize("size", [1, (1 << 20) + 1, 8 << 20, (8 << 20) + 1, 41 << 20])
@pytest.mark.parametrize("from_file", [False, True], ids=["bytes", "path"])
def test_a_large_object_streams_in_order(
    store: Store, soon: Deadline, tmp_path: Path, size: int, from_file: bool
) -> None:
    data = secrets.token_bytes(size)
    source: bytes | Path = data
    if from_file:
        source = tmp_path / "source"
        source.write_bytes(data)
    store.put("large", source, soon)
    pieces = list(store.stream("large", soon, chunk_bytes=1 << 20))
    assert hashlib.sha256(b"".join(pieces)).digest() == hashlib.sha256(data).digest()
    assert max(map(len, pieces)) <= 16 << 20
    meta = store.head("large", soon)
    assert meta is not None
    assert meta.size == size


def test_a_stream_may_be_left_early(store: Store, soon: Deadline) -> None:
    store.put("large", bytes(20 << 20), soon)
    stream = store.stream("large", soon)
    assert next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert store.get("large", soon, max_bytes=20 << 20).meta.size == 20 << 20


def test_a_source_that_cannot_be_read_is_bad_input(store: Store, soon: Deadline, tmp_path: Path) -> None:
    with pytest.raises(BadInputError):
        store.put("a", tmp_path / "absent", soon)
    assert store.head("a", soon) is None


def test_put_replaces(store: Store, soon: Deadline) -> None:
    store.put("a", b"1", soon)
    store.put("a", b"22", soon)
    assert store.get("a", soon).data == b"22"


def test_list_goes_by_whole_path_parts(store: Store, soon: Deadline) -> None:
    for path in ("a/b/1", "a/b/c/2", "a/bb/3", "b/4"):
        store.put(path, b"x", soon)
    assert paths_in(store, "a/b", soon) == {"a/b/1", "a/b/c/2"}
    assert paths_in(store, "a/b/", soon) == {"a/b/1", "a/b/c/2"}
    assert paths_in(store, "a", soon) == {"a/b/1", "a/b/c/2", "a/bb/3"}
    assert paths_in(store, "", soon) == {"a/b/1", "a/b/c/2", "a/bb/3", "b/4"}
    assert paths_in(store, "c", soon) == set()
    assert paths_in(store, "b/4", soon) == set()


def test_list_has_more_than_a_page(store: Store, soon: Deadline) -> None:
    wanted = {f"many/{number:04}" for number in range(1100)}
    threads = [
        threading.Thread(target=lambda part=part: [store.put(path, b"", soon) for path in part])  # type: ignore[misc]
        for part in (sorted(wanted)[start::8] for start in range(8))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert paths_in(store, "many", soon) == wanted
    first = store.list("many", soon)
    assert isinstance(next(first), Meta)


def test_delete_removes(store: Store, soon: Deadline) -> None:
    store.put("a/b", b"1", soon)
    store.delete("a/b", soon)
    assert store.head("a/b", soon) is None
    assert list(store.list("", soon)) == []


def test_put_new_stores_only_where_nothing_was(store: Store, soon: Deadline) -> None:
    version = store.put_new("v1/d/keys/k.json", b"1", soon)
    assert store.get("v1/d/keys/k.json", soon).meta.version == version
    with pytest.raises(ConflictError):
        store.put_new("v1/d/keys/k.json", b"2", soon)
    with pytest.raises(ConflictError):
        store.put_new("v1/d/keys/k.json", b"1", soon)
    assert store.get("v1/d/keys/k.json", soon).data == b"1"


def test_put_if_replaces_exactly_one_version(store: Store, soon: Deadline) -> None:
    first = store.put_new("m", b"1", soon)
    second = store.put_if("m", b"2", first, soon)
    assert second != first
    with pytest.raises(ConflictError):
        store.put_if("m", b"3", first, soon)
    found = store.get("m", soon)
    assert (found.data, found.meta.version) == (b"2", second)


def test_put_if_takes_the_version_from_anywhere(store: Store, soon: Deadline) -> None:
    store.put("m", b"0", soon)
    for read in (
        lambda: store.get("m", soon).meta,
        lambda: store.head("m", soon),
        lambda: next(iter(store.list("", soon))),
    ):
        meta = read()
        assert meta is not None
        store.put_if("m", meta.version.encode(), meta.version, soon)


def test_put_if_of_what_is_gone_is_a_conflict(store: Store, soon: Deadline) -> None:
    version = store.put_new("m", b"1", soon)
    store.delete("m", soon)
    with pytest.raises(ConflictError):
        store.put_if("m", b"2", version, soon)
    with pytest.raises(ConflictError):
        store.put_if("never", b"2", version, soon)
    assert list(store.list("", soon)) == []


def test_equal_versions_mean_equal_content(store: Store, soon: Deadline) -> None:
    versions: dict[str, bytes] = {}
    for number in range(20):
        data = b"%d" % (number % 5)
        store.put("m", data, soon)
        version = store.get("m", soon).meta.version
        assert versions.setdefault(version, data) == data


def test_the_probe_leaves_nothing(store: Store, soon: Deadline) -> None:
    store.put_new("v1/d/keys/k.json", b"1", soon)
    assert paths_in(store, "", soon) == {"v1/d/keys/k.json"}


def test_the_address_is_shown_as_people_write_it(place: Place) -> None:
    assert place.open().url == place.url


def test_a_passed_deadline_ends_every_call(store: Store) -> None:
    late = Deadline.after(0)
    calls = (
        lambda: store.get("a", late),
        lambda: list(store.stream("a", late)),
        lambda: store.head("a", late),
        lambda: list(store.list("", late)),
        lambda: store.put("a", b"", late),
        lambda: store.put_new("a", b"", late),
        lambda: store.put_if("a", b"", "v", late),
        lambda: store.delete("a", late),
    )
    for call in calls:
        with pytest.raises(UnavailableError) as caught:
            call()
        assert caught.value.code == "timeout"


def test_readers_never_see_less_than_a_version(store: Store, soon: Deadline) -> None:
    """A writer replaces an object by others of other sizes; whoever reads sees one of them whole."""
    wanted = {bytes([65 + number]) * (1000 + 50_000 * number) for number in range(4)}
    store.put("m", b"A" * 1000, soon)
    ended = threading.Event()
    torn: list[bytes] = []

    def read() -> None:
        while not ended.is_set():
            seen = (store.get("m", soon).data, b"".join(store.stream("m", soon, chunk_bytes=4096)))
            torn.extend(data for data in seen if data not in wanted)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for _ in range(25):
        for data in wanted:
            store.put("m", data, soon)
    ended.set()
    for reader in readers:
        reader.join()
    assert torn == []


_part = st.from_regex(r"[A-Za-z0-9._-]{1,40}", fullmatch=True).filter(
    lambda part: part not in {".", ".."} and not part.startswith(".glowplug-")
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(_part, min_size=1, max_size=5), data=st.binary(max_size=5000))
def test_any_path_and_any_bytes(store: Store, parts: list[str], data: bytes) -> None:
    soon = Deadline.after(120)
    # A folder of its own: SeaweedFS removes a folder that became empty a moment later, with what was put there meanwhile.
    folder = secrets.token_hex(8)
    path = "/".join([folder, *parts])
    store.put(path, data, soon)
    assert store.get(path, soon).data == data
    assert b"".join(store.stream(path, soon, chunk_bytes=100)) == data
    assert paths_in(store, folder, soon) == {path}
    store.delete(path, soon)
    assert paths_in(store, folder, soon) == set()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.text(max_size=30) | st.text("./ab\0 é", max_size=8) | st.sampled_from(["a" * 256, "a/" * 600 + "a"]))
def test_a_path_outside_the_grammar_is_refused_everywhere(store: Store, path: str) -> None:
    soon = Deadline.after(120)
    try:
        found = store.head(path, soon)
    except BadInputError:
        for call in (
            lambda: store.get(path, soon),
            lambda: store.put(path, b"", soon),
            lambda: store.put_new(path, b"", soon),
            lambda: store.put_if(path, b"", "v", soon),
            lambda: store.delete(path, soon),
            lambda: list(store.stream(path, soon)),
        ):
            with pytest.raises(BadInputError):
                call()
    else:
        assert found is None
        assert path.isascii()
        assert not {"", ".", ".."} & set(path.split("/"))


@pytest.mark.parametrize(
    "path", [".glowplug-locks/00", "a/.glowplug-tmp-1", "../outside", "/etc/passwd", "a//b", "a/", ""]
)
def test_places_of_the_store_itself_and_outside_are_refused(store: Store, soon: Deadline, path: str) -> None:
    with pytest.raises(BadInputError):
        store.put(path, b"", soon)


def test_every_error_is_ours_and_has_a_code(store: Store, soon: Deadline) -> None:
    with pytest.raises(GlowplugError) as caught:
        store.get("absent", soon)
    assert caught.value.code
    assert "\n" not in str(caught.value)
