"""`glowplug check store`: text, document and exit status, on a directory and on a real S3 server."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from inline_snapshot import snapshot

from dev import docs
from lab import s3
from tests.cli.conftest import Call
from tests.parts import requires
from tests.store.conftest import Place


def test_a_directory(call: Call, store: Path) -> None:
    store.mkdir()
    answer = call("check", "store")
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.replace(str(store), "<store>") == snapshot("""\
pass     file://<store> answers
pass     domain 'default' can be listed, and holds no key yet
pass     domain 'default' can be read
pass     restoring and publishing are on
pass     domain 'default' can be written
pass     of two writers one wins (If-None-Match and If-Match are honoured)
pass     what is written can be removed

7 pass
""")


def test_reading_alone_writes_nothing(call: Call, store: Path) -> None:
    store.mkdir()
    answer = call("check", "store", "--read-only", "--domain", "team-a")
    assert answer.status == 0
    assert "written" not in answer.out
    assert [path for path in store.rglob("*") if path.is_file()] == []


def test_a_store_that_is_switched_off(call: Call, store: Path) -> None:
    store.mkdir()
    assert call("cache", "control", "--publish", "off").status == 0
    answer = call("check", "store")
    assert answer.status == 1
    assert "warn     publishing is switched off for everyone" in answer.out


def test_a_directory_that_is_not_there(call: Call, tmp_path: Path) -> None:
    answer = call("check", "store", "--store", f"file://{tmp_path}/not/mounted")
    assert answer.status == 1
    assert answer.out.startswith("fail ")


@requires("s3")
@pytest.mark.parametrize(
    ("keys", "status"), [(s3.LAB, 0), (s3.READER, 1), (s3.WRONG, 1)], ids=["lab", "reader", "wrong"]
)
def test_s3(
    call: Call, monkeypatch: pytest.MonkeyPatch, s3_server: s3.Server, s3_place: Place, keys: s3.Keys, status: int
) -> None:
    for name, value in s3_server.with_keys(keys).env().items():
        monkeypatch.setenv(name, value)
    answer = call("check", "store", "--store", s3_place.url, "-o", "json")
    assert answer.status == status
    schema = json.loads(docs.schemas()["docs/schema/check-1.json"])
    jsonschema.Draft202012Validator(schema).validate(answer.json)
    found = {check["name"]: check["status"] for check in answer.json["checks"]}
    failing = {name: one for name, one in found.items() if one in ("warn", "fail")}
    assert (
        failing
        == {
            s3.LAB: {},
            s3.READER: {"write": "warn"},
            s3.WRONG: {"list": "fail", "read": "fail"},
        }[keys]
    )


def test_no_credentials(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    answer = call("check", "store", "--store", "s3://bucket/cache", "-o", "json")
    assert answer.status == 1
    assert [(check["name"], check["status"]) for check in answer.json["checks"]] == [("credentials", "fail")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no store is named"),
        (["--store", "https://host/bucket"], "not the address of a store"),
        (["--store", "/tmp", "--domain", ""], "not empty"),
        (["--store", "/tmp", "--timeout", "soon"], "not a duration"),
    ],
    ids=["no store", "no address", "no domain", "no duration"],
)
def test_wrong_questions(call: Call, arguments: list[str], words: str) -> None:
    answer = call("check", "store", *arguments)
    assert answer.status == 2
    assert words in answer.err


def test_help_names_both(call: Call) -> None:
    out = call("check", "--help").out
    assert "network" in out
    assert "store" in out
