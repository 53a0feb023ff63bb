"""Generated documents are what the code says now, and the schemas describe what the code writes."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from dev import docs
from glowplug.core.documents import codec
from glowplug.core.documents.start import Start
from tests.repo import tree

PAGES = docs.generate()


@pytest.mark.parametrize("name", sorted(PAGES))
def test_document_is_as_the_code_says(name: str) -> None:
    assert docs.stale(PAGES).get(name, "") == "", "run `make docs`"


def test_no_schema_of_a_document_that_does_not_exist() -> None:
    assert set(docs.stale(PAGES)) - set(PAGES) == set()


def test_a_stale_document_is_found(tmp_path: Path) -> None:
    (tmp_path / "docs" / "schema").mkdir(parents=True)
    (tmp_path / "docs" / "schema" / "gone-1.json").write_text("{}")
    (tmp_path / "docs" / "a.md").write_text("old\n")
    assert set(docs.stale({"docs/a.md": "new\n"}, tmp_path)) == {"docs/a.md", "docs/schema/gone-1.json"}


@pytest.mark.parametrize("name", [name for name in sorted(PAGES) if name.endswith(".json")])
def test_schema_is_one(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(PAGES[name]))


def test_a_start_obeys_its_schema_and_a_wrong_one_does_not() -> None:
    schema = jsonschema.Draft202012Validator(json.loads((tree.ROOT / "docs/schema/start-1.json").read_text()))
    document = codec.to_json(Start(id="s", source="run", started_at="2026-01-01T00:00:00Z"))
    assert list(schema.iter_errors(document)) == []
    assert list(schema.iter_errors(document | {"verdict": {"compile": "maybe"}})) != []
