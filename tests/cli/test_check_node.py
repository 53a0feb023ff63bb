"""`glowplug check node`: text, document and exit status, on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from dev import docs
from tests.cli.conftest import Call

SCHEMA = json.loads((docs.ROOT / "docs" / "schema" / "check-1.json").read_text())


def test_text_and_document_say_the_same(call: Call, tmp_path: Path) -> None:
    text, document = call("check", "node", "--root", tmp_path), call("check", "node", "--root", tmp_path, "-o", "json")
    jsonschema.validate(document.json, SCHEMA)
    lines = [line for line in text.out.splitlines() if line[:1].strip()]
    assert [line.split()[0] for line in lines[:-1]] == [check["status"] for check in document.json["checks"]]
    assert (
        text.status == document.status == int(any(one["status"] in ("warn", "fail") for one in document.json["checks"]))
    )


def test_without_a_root_it_is_that_of_the_agent(call: Call) -> None:
    nvme = call("check", "node", "-o", "json").json["checks"][0]
    assert nvme["name"] == "nvme"
    assert nvme["evidence"]["root"] in ("/mnt/k8s-disks/0/glowplug", "/mnt/.ephemeral/glowplug")


@pytest.mark.parametrize("root", ["glowplug", "", "./x"])
def test_a_root_is_an_absolute_path(call: Call, root: str) -> None:
    answer = call("check", "node", "--root", root)
    assert answer.status == 2
    assert "is not an absolute path" in answer.err


def test_nothing_is_made(call: Call, tmp_path: Path) -> None:
    call("check", "node", "--root", tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) in ([], [tmp_path / "home"])
