"""Generated documents are what the code says now, and the schemas describe what the code writes."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from dev import docs
from glowplug.cache import format as format_
from glowplug.cli import main
from glowplug.core import errors
from glowplug.core.documents import codec
from glowplug.core.documents.fingerprint import Key, Layout
from glowplug.core.documents.start import Start


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return docs.generate()


def test_documents_are_as_the_code_says(pages: dict[str, str]) -> None:
    assert docs.stale(pages) == {}, "run `make docs`"


def test_a_stale_document_is_found(tmp_path: Path) -> None:
    (tmp_path / "docs" / "schema").mkdir(parents=True)
    (tmp_path / "docs" / "schema" / "gone-1.json").write_text("{}")
    (tmp_path / "docs" / "a.md").write_text("old\n")
    assert set(docs.stale({"docs/a.md": "new\n"}, tmp_path)) == {"docs/a.md", "docs/schema/gone-1.json"}


def test_every_code_of_an_error_is_explained(pages: dict[str, str]) -> None:
    assert [code for code in errors.CODES if f"| `{code}` |" not in pages["docs/errors.md"]] == []


def test_every_command_is_in_the_reference(pages: dict[str, str]) -> None:
    assert [name for name in main.COMMANDS if f"### glowplug {name}\n" not in pages["docs/reference/cli.md"]] == []


def _schema(pages: dict[str, str], name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads(pages[f"docs/schema/{name}.json"]))


def test_schemas_are_schemas(pages: dict[str, str]) -> None:
    schemas = [json.loads(text) for name, text in pages.items() if name.endswith(".json")]
    assert len(schemas) >= 3
    for schema in schemas:
        jsonschema.Draft202012Validator.check_schema(schema)


def test_a_start_obeys_its_schema_and_a_wrong_one_does_not(pages: dict[str, str]) -> None:
    schema = _schema(pages, "start-1")
    document = codec.to_json(Start(id="s", source="run", started_at="2026-01-01T00:00:00Z"))
    assert list(schema.iter_errors(document)) == []
    assert list(schema.iter_errors(document | {"verdict": {"compile": "maybe"}})) != []


def test_a_manifest_obeys_its_schema_and_a_wrong_one_does_not(pages: dict[str, str]) -> None:
    schema = _schema(pages, "manifest-1")
    key = Key(
        "d", "vllm", "0.21.0", "2.11.0", "NVIDIA H100", "x86_64", Layout(tp=2), "s3://b/m", {}, {}, "/compile-cache"
    )
    entry = format_.Part(format_.ENTRY, "abc", "0" * 64, 1, 2, 3, "2026-01-01T00:00:00Z", index=("a/model",))
    manifest = format_.Manifest(key, (entry,), (format_.Rejection("start", "abc", "why"),), blocked="rejected")
    document = json.loads(format_.encode(manifest))
    assert list(schema.iter_errors(document)) == []
    for wrong in ({"digest": "short"}, {"parts": [{}]}, {"blocked": "yes"}, {"schema": "glowplug.start/1"}):
        assert list(schema.iter_errors(document | wrong)) != []
