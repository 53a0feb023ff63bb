"""Samples of the node's documents that never change (tests/formats/v1) are read as they were meant when they were written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from glowplug.core import canonical
from glowplug.core.clock import Deadline
from glowplug.core.documents import codec
from glowplug.core.documents.node import KEY_SCHEMA, NODE_SCHEMA, PART_SCHEMA, Node, NodeKey, OutboxPart
from glowplug.nodestore import documents, layout
from glowplug.nodestore.inbox import Inbox
from glowplug.nodestore.outbox import Outbox
from glowplug.nodestore.read import NodeStore
from glowplug.tree.index import scan

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "tests" / "formats" / "v1"
DIGEST = "4b6d0ebf9acef2571f2f23bf55650d2f035d1c248bc7415ba8a8b1fb7365810a"
KINDS: dict[str, tuple[type, str]] = {
    "node": (Node, NODE_SCHEMA),
    "node-key": (NodeKey, KEY_SCHEMA),
    "outbox-part": (OutboxPart, PART_SCHEMA),
}


@pytest.mark.parametrize("name", ["node-from-a-withholding-agent", "node-key", "outbox-part"])
def test_a_sample_is_written_again_as_it_was(name: str) -> None:
    kind, schema = KINDS[name.partition("-from-")[0]]
    data = (SAMPLES / f"{name}.json").read_bytes()
    assert canonical.encode(codec.to_json(documents.parse(kind, schema, data, name))) == data


def test_a_sample_of_before_a_member_was_added_keeps_what_it_says(tmp_path: Path) -> None:
    for name in ("node", "node-from-a-read-only-agent"):
        said = json.loads((SAMPLES / f"{name}.json").read_text())
        shutil.copy(SAMPLES / f"{name}.json", tmp_path / "node.json")
        added = {"outbox": True, "restore": True, "restore_reason": ""}
        assert codec.to_json(NodeStore(tmp_path).node()) == {**added, **said}


@pytest.mark.parametrize(
    "path", sorted([*SAMPLES.glob("node*.json"), *SAMPLES.glob("outbox*.json")]), ids=lambda path: path.stem
)
def test_a_sample_fits_its_schema(path: Path) -> None:
    name = path.stem.partition("-from-")[0]
    schema = json.loads((ROOT / "docs" / "schema" / f"{name}-1.json").read_text())
    jsonschema.validate(json.loads(path.read_text()), schema)


def _store(tmp_path: Path, sample: str) -> NodeStore:
    place = layout.key_document(tmp_path, DIGEST)
    place.parent.mkdir()
    shutil.copy(SAMPLES / sample, place)
    return NodeStore(tmp_path)


def test_what_the_agent_says_of_a_key(tmp_path: Path) -> None:
    held = _store(tmp_path, "node-key.json").held(DIGEST)
    assert held is not None
    assert (held.key.domain, held.key.digest(), held.blocked) == ("team-a", DIGEST, "")
    (offer,) = held.offers({"triton": "3.5.0"})
    assert [part.sha256[:1] for part in offer.parts] == ["b", "a"]
    assert offer.entry.index == ("vllm/torch_compile_cache/0123456789/rank_0_0/model",)
    assert held.offers({"triton": "3.6.0"}) == ()


def test_what_a_newer_agent_adds_is_not_minded(tmp_path: Path) -> None:
    held = _store(tmp_path, "node-key-from-a-newer-writer.json").held(DIGEST)
    assert held is not None
    assert [part.kind for part in held.parts] == ["entry"]


def test_what_the_agent_says_of_itself(tmp_path: Path) -> None:
    shutil.copy(SAMPLES / "node.json", tmp_path)
    assert NodeStore(tmp_path).node() == Node("0.1.0", "team-a", "2026-11-30T12:00:00.250Z", prefetching=True)


def test_an_agent_can_say_that_archives_are_for_nobody(tmp_path: Path) -> None:
    shutil.copy(SAMPLES / "node-from-a-read-only-agent.json", tmp_path / layout.NODE)
    node = NodeStore(tmp_path).node()
    assert node is not None
    assert not node.outbox


def test_what_a_pod_says_of_an_archive(tmp_path: Path) -> None:
    folder = layout.outbox(tmp_path, "pod")
    folder.mkdir(parents=True)
    (tmp_path / "tree" / "vllm").mkdir(parents=True)
    (tmp_path / "tree" / "vllm" / "model").write_text("x")
    said = documents.parse(OutboxPart, PART_SCHEMA, (SAMPLES / "outbox-part.json").read_bytes(), "sample")
    sealed = Outbox(folder).put_part(
        "1", said, tmp_path / "tree", tuple(scan(tmp_path / "tree").files.values()), deadline=Deadline.after(60)
    )
    shutil.copy(SAMPLES / "outbox-part.json", layout.description(sealed))
    parts = [found.part for found in Inbox(tmp_path).archives("pod", Deadline.after(60))]
    assert parts == [said]
    assert (said.name, said.guards, said.observed) == ("0123456789", {"triton": "3.5.0"}, {"ready_ms": 52000})


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("reader", [2, 10**15])
def test_a_newer_form_is_as_good_as_absent(name: str, reader: int) -> None:
    kind, schema = KINDS[name]
    value: dict[str, Any] = json.loads((SAMPLES / f"{name}.json").read_text())
    data = json.dumps({"schema": schema, "min_reader": reader, "key": [value]}).encode()
    with pytest.raises(documents.NewerDocumentError):
        documents.parse(kind, schema, data, name)
