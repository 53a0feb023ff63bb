"""Whatever lies in the agent's or a pod's directory: a value, or one of our errors, and in bounded time."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from glowplug.core.clock import Deadline
from glowplug.core.documents import codec
from glowplug.core.documents.fingerprint import Key
from glowplug.core.documents.node import ENTRY, OutboxPart
from glowplug.core.documents.start import RestoreOutcome, Start
from glowplug.core.errors import GlowplugError
from glowplug.nodestore import layout
from glowplug.nodestore.inbox import Inbox
from glowplug.nodestore.outbox import Outbox
from glowplug.nodestore.read import Held, NodeStore
from glowplug.nodestore.restore import restore
from glowplug.tree.index import scan

JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**25), 10**25),
        st.floats(),
        st.text(max_size=20),
        st.sampled_from(["", "..", "/", "\ud800", "\0", "entry", "support", "a" * 64, "glowplug.node-key/1"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=10), inner, max_size=3)),
    max_leaves=8,
)
_MANY = settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _places(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value at which another value could stand."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(place for name, item in inner for place in _places(item, (*here, name)))]


def _with(value: Any, place: tuple[Any, ...], other: Any) -> Any:
    if not place:
        return other
    changed = copy.deepcopy(value)
    inner = changed
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = other
    return changed


def _changed(value: Any, data: st.DataObject) -> bytes:
    """The document with another value at some place, or with other bytes somewhere."""
    if data.draw(st.booleans()):
        place = data.draw(st.sampled_from(_places(value)))
        return json.dumps(_with(value, place, data.draw(JSON))).encode("utf-8", "surrogatepass")
    text = bytearray(json.dumps(value).encode())
    begin = data.draw(st.integers(0, len(text) - 1))
    text[begin : begin + data.draw(st.integers(0, 10))] = data.draw(st.binary(max_size=10))
    return bytes(text)


@pytest.fixture
def cache_roots(tmp_path: Path) -> Any:
    return (tmp_path / f"cache{number}" for number in range(1_000_000))


@_MANY
@given(data=st.data())
def test_a_keys_document(node: NodeStore, key: Key, tree: Path, cache_roots: Any, data: st.DataObject) -> None:
    """A pod gets files of the tree that was verified, or none."""
    path = layout.key_document(node.mount, key.digest())
    before = path.read_bytes()
    cache_root: Path = next(cache_roots)
    try:
        path.write_bytes(_changed(json.loads(before), data))
        try:
            found = node.held(key.digest())
        except GlowplugError:
            found = None
        assert found is None or (isinstance(found, Held) and found.key == key)
        done = restore(node, key, {"triton": "3.5.0"}, cache_root, deadline=Deadline.after(60), wait_seconds=0.0)
        assert done.outcome in RestoreOutcome
        list(node.all(Deadline.after(60)))
        wanted = scan(tree).files
        assert all(wanted[name].sha256 == item.sha256 for name, item in scan(cache_root).files.items())
    finally:
        path.write_bytes(before)
        shutil.rmtree(cache_root, ignore_errors=True)


@_MANY
@given(data=st.data())
def test_the_agents_word(node: NodeStore, data: st.DataObject) -> None:
    word = {
        "schema": "glowplug.node/1",
        "min_reader": 1,
        "version": "",
        "domain": "",
        "updated_at": "",
        "prefetching": True,
        "outbox": True,
    }
    (node.mount / layout.NODE).write_bytes(_changed(word, data))
    found = node.node()
    assert found is None or (isinstance(found.prefetching, bool) and isinstance(found.outbox, bool))


@_MANY
@given(data=st.data())
def test_a_pods_words(root: Path, node: NodeStore, key: Key, tree: Path, data: st.DataObject) -> None:
    mount = layout.outbox(root, "pod")
    if not mount.exists():
        mount.mkdir()
        box = Outbox(mount)
        box.put_start(Start("1", "exec", "", workload={"args": {"x": 1}}, ready_seconds=1.5))
        files = [item for path, item in scan(tree).files.items() if path.startswith("vllm/e1/")]
        part = OutboxPart(key, ENTRY, "e1", index=("vllm/e1/model",), guards={"triton": "3"}, observed={"ready_ms": 1})
        box.put_part("1", part, tree, files, deadline=Deadline.after(60))
    path = mount / data.draw(st.sampled_from(["1.json", "1-1.json"]))
    before = path.read_bytes()
    try:
        path.write_bytes(_changed(json.loads(before), data))
        inbox = Inbox(root)
        starts = inbox.starts("pod")
        parts = [sealed.part for sealed in inbox.archives("pod", Deadline.after(60))]
        assert len(starts) + len(parts) + len(inbox.refused) == 2
        for document in (*starts, *parts):
            json.dumps(codec.to_json(document), ensure_ascii=False, allow_nan=False).encode("utf-8")
    finally:
        path.write_bytes(before)
