"""check/store.py on a real S3 server and a directory: what a start needs, what a publisher needs, and what is in the way."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from glowplug.cache import control, layout
from glowplug.check import store as checking
from glowplug.check.results import Check
from glowplug.core.clock import Deadline
from glowplug.core.errors import AccessDeniedError
from glowplug.store.schemes import open_store
from lab import s3
from lab.faults import Answer, OtherRegion, Proxy, Refuse
from tests.parts import requires
from tests.store.conftest import Place, place, proxy, s3_place, s3_server, shared_place

__all__ = ["place", "proxy", "s3_place", "s3_server", "shared_place"]

USABLE = {"reach": "pass", "list": "pass", "read": "pass", "control": "pass"}
WRITABLE = {"write": "pass", "conditional-writes": "pass", "delete": "pass"}


def _statuses(checks: tuple[Check, ...]) -> dict[str, str]:
    return {check.name: check.status for check in checks}


def _all(url: str, environ: Mapping[str, str], seconds: float = 60) -> dict[str, Check]:
    store, deadline = open_store(url, environ), Deadline.after(seconds)
    checks = checking.readable(store, "default", deadline) + checking.writable(store, "default", deadline)
    return {check.name: check for check in checks}


def test_a_store_that_works(place: Place) -> None:
    store, soon = place.open(), Deadline.after(20)
    assert _statuses(checking.readable(store, "default", soon)) == USABLE
    assert _statuses(checking.writable(store, "default", soon)) == WRITABLE
    assert list(store.list("", soon)) == []


def test_an_empty_domain_is_told_from_one_with_keys(shared_place: Place) -> None:
    store, soon = shared_place.open(), Deadline.after(20)
    before = {check.name: check for check in checking.readable(store, "team-a", soon)}
    store.put(f"{layout.keys_prefix('team-a')}/x.json", b"{}", soon)
    after = {check.name: check for check in checking.readable(store, "team-a", soon)}
    assert [one["list"].evidence["empty"] for one in (before, after)] == [True, False]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"restore": False}, "restoring is switched off for everyone"),
        ({"publish": False}, "publishing is switched off for everyone"),
        ({"restore": False, "publish": False}, "restoring and publishing is switched off for everyone"),
    ],
)
def test_a_store_that_is_switched_off(shared_place: Place, change: dict[str, bool], words: str) -> None:
    store, soon = shared_place.open(), Deadline.after(20)
    control.change(store, soon, **change)
    found = {check.name: check for check in checking.readable(store, "default", soon)}["control"]
    assert (found.status, found.message) == ("warn", words)


def test_a_damaged_switch(shared_place: Place) -> None:
    store, soon = shared_place.open(), Deadline.after(20)
    store.put(layout.CONTROL, b"{", soon)
    assert _statuses(checking.readable(store, "default", soon))["control"] == "warn"


@requires("s3")
def test_keys_that_only_read(s3_place: Place, s3_server: s3.Server) -> None:
    found = _all(s3_place.url, s3_server.with_keys(s3.READER).env())
    assert {name: check.status for name, check in found.items()} == {**USABLE, "write": "warn"}
    assert "nothing is published" in found["write"].message


@requires("s3")
def test_wrong_keys(s3_place: Place, s3_server: s3.Server) -> None:
    found = _all(s3_place.url, s3_server.with_keys(s3.WRONG).env())
    assert (found["list"].status, found["read"].status) == ("fail", "fail")
    assert "the keys are wrong" in found["list"].hint


@requires("s3")
def test_another_region(s3_place: Place, proxy: Proxy) -> None:
    proxy.add(OtherRegion("eu-central-1"), times=None)
    store = open_store(s3_place.url, proxy.server.env())
    (found,) = checking.readable(store, "default", Deadline.after(10))
    assert (found.name, found.status, found.evidence["code"]) == ("region", "fail", "wrong-region")
    assert "eu-central-1" in found.message


@requires("s3")
def test_a_bucket_that_is_not_there(s3_server: s3.Server) -> None:
    store = open_store("s3://nowhere-at-all/x", s3_server.env())
    (found,) = checking.readable(store, "default", Deadline.after(10))
    assert (found.name, found.status, found.evidence["code"]) == ("reach", "fail", "no-bucket")


@requires("s3")
def test_a_server_that_is_no_s3(s3_place: Place, proxy: Proxy) -> None:
    proxy.add(Answer(404, code="NotFound"), times=None)
    (found,) = checking.readable(open_store(s3_place.url, proxy.server.env()), "default", Deadline.after(10))
    assert (found.name, found.status) == ("reach", "fail")
    assert found.message.endswith("what answers is no S3")
    assert "AWS_ENDPOINT_URL" in found.hint


@requires("s3")
def test_a_server_that_ignores_conditions(s3_place: Place, proxy: Proxy) -> None:
    proxy.add(Answer(501, code="NotImplemented"), method="PUT", times=None)
    store = open_store(s3_place.url, proxy.server.env())
    (found,) = checking.writable(store, "default", Deadline.after(10))
    assert (found.name, found.status) == ("conditional-writes", "fail")


@requires("s3")
def test_keys_that_may_not_delete(s3_place: Place, proxy: Proxy) -> None:
    proxy.add(Answer(403), method="DELETE", times=None)
    store = open_store(s3_place.url, proxy.server.env())
    assert _statuses(checking.writable(store, "default", Deadline.after(60))) == {**WRITABLE, "delete": "warn"}


@requires("s3")
def test_a_server_that_does_not_answer(s3_place: Place, proxy: Proxy) -> None:
    proxy.add(Refuse(), times=None)
    store = open_store(s3_place.url, proxy.server.env())
    (found,) = checking.readable(store, "default", Deadline.after(8))
    assert (found.name, found.status) == ("reach", "fail")


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    found = _all(f"file://{tmp_path}/not/mounted", {})
    assert found["reach"].status == "fail"


def test_no_credentials_are_about_credentials() -> None:
    (found,) = checking.unopened(AccessDeniedError("none", code="no-credentials"))
    assert (found.name, found.status) == ("credentials", "fail")


@pytest.mark.parametrize(
    ("found", "told", "status"),
    [
        ("us-west-2", "us-west-2", "pass"),
        ("us-west-2", "", "warn"),
        ("us-west-2", "us-east-1", "fail"),
        ("", "us-east-1", "unknown"),
    ],
)
def test_the_region_that_clients_are_told(found: str, told: str, status: str) -> None:
    assert [check.status for check in checking.place("s3://bucket/x", lambda _: found, told)] == [status]
    assert list(checking.place("file:///x", _never, told)) == []


_never: Callable[[str], str] = lambda _: pytest.fail("asked")  # noqa: E731 - one line says it


def test_a_check_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Check("a", "pass", "b").name = "c"  # type: ignore[misc]
