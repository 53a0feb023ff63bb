"""`glowplug check store`: text, document and exit status, on a directory and on a real S3 server."""

from __future__ import annotations

import json
import os
import time
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


def test_nothing_is_left_behind(call: Call, store: Path) -> None:
    (store / "v1" / "default").mkdir(parents=True)
    before = sorted(store.rglob("*"))
    assert call("check", "store").status == 0
    assert call("check", "store", "--domain", "other").status == 0
    assert sorted(store.rglob("*")) == before


@pytest.mark.parametrize("options", [(), ("--read-only",)], ids=["write", "read"])
def test_a_directory_that_is_still_to_be_made_is_told_and_not_made(
    call: Call, store: Path, options: tuple[str, ...]
) -> None:
    answer = call("check", "store", *options)
    assert (answer.status, answer.err) == (1, "")
    assert answer.out.replace(str(store), "<store>") == snapshot("""\
warn     file://<store> is not there yet: starts restore nothing, the first publisher makes it
         hint: mkdir <store>, or check the path

1 warn
""")
    assert not store.exists()


@pytest.mark.parametrize("closed", ["store/v1", "store/.glowplug-locks"])
def test_a_directory_that_is_closed_is_a_check_that_fails(
    call: Call, store: Path, closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("v1", ".glowplug-locks"):
        (store / name).mkdir(parents=True)
    place = store.parent / closed
    usual = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != place and usual(path, mode))
    answer = call("check", "store", "-o", "json")
    assert (answer.status, answer.err) == (1, "")
    said = {check["name"]: check for check in answer.json["checks"]}["write"]
    assert (said["status"], said["message"]) == ("fail", f"{place}: Permission denied")


def test_a_directory_that_cannot_be_looked_into_is_a_check_that_fails(call: Call, store: Path) -> None:
    call("check", "store")  # what is imported on the way is imported as ourselves
    store.parent.joinpath("closed", "store").mkdir(parents=True)
    store.parent.joinpath("closed").chmod(0)
    ourselves = os.geteuid()
    if ourselves == 0:
        os.seteuid(65534)  # root may look everywhere
    try:
        answer = call("check", "store", "--store", str(store.parent / "closed" / "store"))
    finally:
        os.seteuid(ourselves)
        store.parent.joinpath("closed").chmod(0o700)
    assert (answer.status, answer.err) == (1, "")
    assert answer.out.startswith("fail ")


@pytest.mark.parametrize("variable", ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE"])
def test_a_pipe_that_nobody_writes_to_is_given_up(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setenv(variable, str(tmp_path / "pipe"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/x")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    begin = time.monotonic()
    answer = call("check", "store", "--store", "s3://bucket/cache", "--timeout", "2s")
    assert time.monotonic() - begin < 20
    assert answer.status == 1
    assert answer.out.startswith("fail ")


@pytest.mark.parametrize("options", [("--domain", ""), ("--store", "")])
def test_empty_values_are_refused(call: Call, store: Path, options: tuple[str, str]) -> None:
    answer = call("check", "store", *options)
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith("error[usage]")


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
