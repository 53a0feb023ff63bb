"""What crashed an engine on a node is not given to that node's pods again, by this agent or the next one."""

from __future__ import annotations

from pathlib import Path

from glowplug.agent import quarantine
from glowplug.cache import layout
from glowplug.cache.format import decode
from glowplug.core.clock import SYSTEM, Deadline
from glowplug.store.schemes import open_store
from tests.agent.hearing import Heard, entries, prewarm, put, settings
from tests.cache import making


def test_a_part_that_was_convicted_stays_away_and_its_neighbours_stay(tmp_path: Path) -> None:
    store = open_store((tmp_path / "store").as_uri(), {})
    key = put(store, tmp_path / "trees", making.key())
    put(store, tmp_path / "trees", key, "e2")
    root = tmp_path / "root"
    one = prewarm(settings(root), Heard(), store)
    assert one.begin() and one.round()
    assert entries(root, key) == {"e1", "e2"}

    path = layout.manifest_path(key)
    manifest = decode(store.get(path, Deadline.after(60)).data, path=path)
    bad = next(part.sha256 for part in manifest.parts if part.of == "e1")
    quarantine.convict(root, key.digest(), [bad], SYSTEM)
    one.want(key.domain, key.digest())
    assert one.serve_wanted()
    assert entries(root, key) == {"e2"}

    another = prewarm(settings(root), Heard(), store)
    assert another.begin() and another.round()
    assert entries(root, key) == {"e2"}
    assert store.head(layout.blob_path(key.domain, bad), Deadline.after(60)) is not None
