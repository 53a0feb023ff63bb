"""A miss says by what it was missed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from glowplug.cache import control, layout
from glowplug.cache import format as manifests
from glowplug.cache.format import Manifest
from glowplug.cache.lookup import Found, Missing, look_up, open_key
from glowplug.cache.publish import block, publish
from glowplug.cache.why import compare_parts, why
from glowplug.core import canonical
from glowplug.core.clock import Deadline
from glowplug.core.documents.fingerprint import Key, Layout
from glowplug.core.errors import GlowplugError, IntegrityError, NotFoundError, UnavailableError, UsageError
from glowplug.store.contract import Store
from tests.cache import making


@pytest.fixture
def filled(store: Store, key: Key, tree: Path, soon: Deadline) -> Store:
    publish(store, key, {"triton": "3.6.0", "cuda": "13.0"}, making.parts(tree), deadline=soon)
    return store


def test_what_is_there_is_found_with_its_support(filled: Store, key: Key, soon: Deadline) -> None:
    found = look_up(filled, key, soon)
    assert isinstance(found, Found)
    (offer,) = found.offers
    assert [part.kind for part in offer.parts] == ["support", "entry"]


DIFFERENCES: dict[str, tuple[dict[str, Any], str]] = {
    "tp": ({"layout": Layout(tp=2)}, "key:tp"),
    "pp": ({"layout": Layout(pp=2)}, "key:pp"),
    "gpu": ({"gpu": "NVIDIA A100-SXM4-40GB"}, "key:gpu"),
    "torch": ({"torch": "2.12.0"}, "key:torch"),
    "engine version": ({"engine_version": "0.22.0"}, "key:engine_version"),
    "model": ({"model": "s3://bucket/other"}, "key:model"),
    "machine": ({"machine": "aarch64"}, "key:machine"),
    "cache root": ({"cache_root": "/other"}, "key:cache_root"),
    "argument": ({"args": {"max_model_len": "4096"}}, "key:args.max_model_len"),
    "argument that is not there": ({"args": {}}, "key:args.max_model_len"),
    "variable": ({"env": {"VLLM_USE_AOT_COMPILE": "0"}}, "key:env.VLLM_USE_AOT_COMPILE"),
    "several": ({"torch": "2.12.0", "layout": Layout(tp=4)}, "key:torch,tp"),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_miss_names_the_field(filled: Store, soon: Deadline, name: str) -> None:
    changes, reason = DIFFERENCES[name]
    missing = look_up(filled, making.key(**changes), soon)
    assert isinstance(missing, Missing)
    assert (missing.reason, missing.nearest) == (reason, making.key())


def test_the_nearest_of_many_is_named(filled: Store, tree: Path, soon: Deadline) -> None:
    for number in range(12):
        far = making.key(gpu=f"GPU {number}", torch="1.0", model=f"other {number}")
        publish(filled, far, {}, making.parts(tree), deadline=soon)
    missing = look_up(filled, making.key(args={"max_model_len": "1"}), soon)
    assert isinstance(missing, Missing)
    assert missing.reason == "key:args.max_model_len"


def test_another_domains_keys_are_not_even_listed(filled: Store, soon: Deadline) -> None:
    listed: list[str] = []

    class Watched:
        def __getattr__(self, name: str) -> object:
            return getattr(filled, name)

        def list(self, prefix: str, deadline: Deadline) -> object:
            listed.append(prefix)
            return filled.list(prefix, deadline)

    missing = look_up(Watched(), making.key(domain="team-b"), soon)  # type: ignore[arg-type]
    assert missing == Missing("no_keys")
    assert listed == ["v1/team-b/keys"]


class TestGuards:
    @pytest.mark.parametrize(
        "guards", [{}, {"triton": "3.6.0"}, {"python": "3.12"}, {"triton": ""}], ids=["none", "equal", "new", "empty"]
    )
    def test_are_compared_only_where_both_know_them(
        self, filled: Store, key: Key, soon: Deadline, guards: dict[str, str]
    ) -> None:
        assert isinstance(look_up(filled, key, soon, guards=guards), Found)

    def test_that_differ_are_a_miss_with_their_name(self, filled: Store, key: Key, soon: Deadline) -> None:
        missing = look_up(filled, key, soon, guards={"triton": "3.5.0", "cuda": "12.8"})
        assert isinstance(missing, Missing)
        assert missing.reason == "guard:cuda,triton"

    def test_of_two_entries_with_one_name_one_is_offered(
        self, filled: Store, key: Key, tmp_path: Path, soon: Deadline
    ) -> None:
        other = making.tree(tmp_path / "other", salt="3.7")
        publish(filled, key, {"triton": "3.7.0"}, making.parts(other), deadline=soon)
        for guards in ({}, {"triton": "3.6.0"}, {"triton": "3.7.0"}):
            found = look_up(filled, key, soon, guards=guards)
            assert isinstance(found, Found)
            (offer,) = found.offers
            assert offer.support is not None
            assert offer.support.guards == offer.entry.guards
            assert not guards or offer.entry.guards["triton"] == guards["triton"]


class TestReasons:
    def test_restore_off(self, filled: Store, key: Key, soon: Deadline) -> None:
        control.change(filled, soon, restore=False)
        assert look_up(filled, key, soon) == Missing("restore_off")
        control.change(filled, soon, restore=True)
        assert isinstance(look_up(filled, key, soon), Found)

    def test_min_version(self, filled: Store, key: Key, soon: Deadline) -> None:
        filled.put_new(layout.CONTROL, canonical.encode({"min_version": "99.1"}), soon)
        assert look_up(filled, key, soon) == Missing("min_version")

    @pytest.mark.parametrize(
        "version",
        [
            "9" * 5000,
            "1." * 3000,
            "9" * 9,
            "\u0669\u0669",
            "\u00b2",
            "latest",
            "-1",
            "99.1\n",
            "99 1",
            99,
            9.5,
            ["99"],
            {},
            True,
        ],
        ids=lambda version: repr(version)[:12],
    )
    def test_a_min_version_that_is_none_is_on(self, filled: Store, key: Key, soon: Deadline, version: object) -> None:
        filled.put_new(layout.CONTROL, json.dumps({"min_version": version, "publish": False}).encode(), soon)
        assert isinstance(look_up(filled, key, soon), Found)
        assert control.read(filled, soon) == control.Control(publish=False)
        said, damage = control.inspect(filled, soon)
        assert (said.min_version, said.publish) == ("", False)
        assert "min_version" in damage

    @pytest.mark.parametrize(
        ("version", "admitted"),
        [("0.0.1", True), ("v0.0", True), ("99", False), ("99.1rc1", False), ("99.1.dev3+g12", False), ("", True)],
    )
    def test_versions(self, filled: Store, key: Key, soon: Deadline, version: str, admitted: bool) -> None:
        filled.put_new(layout.CONTROL, canonical.encode({"min_version": version}), soon)
        assert isinstance(look_up(filled, key, soon), Found) == admitted
        assert control.inspect(filled, soon)[1] == ""

    @pytest.mark.parametrize("data", [b'{"a": ' + b"9" * 5000 + b"}", b'{"a":' * 100_000, b'{"restore": 1e400}'])
    def test_a_switch_that_python_refuses_is_on(self, filled: Store, key: Key, soon: Deadline, data: bytes) -> None:
        filled.put_new(layout.CONTROL, data, soon)
        assert isinstance(look_up(filled, key, soon), Found)

    @pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b'{"restore": "no"}', b"\xff"])
    def test_a_damaged_switch_is_on(self, filled: Store, key: Key, soon: Deadline, data: bytes) -> None:
        filled.put_new(layout.CONTROL, data, soon)
        assert isinstance(look_up(filled, key, soon), Found)

    def test_key_blocked(self, filled: Store, key: Key, soon: Deadline) -> None:
        block(filled, layout.manifest_path(key), "why", soon)
        assert look_up(filled, key, soon) == Missing("key_blocked", key)

    def test_integrity(self, store: Store, key: Key, soon: Deadline) -> None:
        store.put_new(layout.manifest_path(key), b"{}", soon)
        assert look_up(store, key, soon) == Missing("integrity")

    def test_a_manifest_of_three_mebibytes(self, store: Store, key: Key, soon: Deadline) -> None:
        store.put_new(layout.manifest_path(key), b" " * (3 << 20), soon)
        assert look_up(store, key, soon) == Missing("integrity")

    def test_newer_format(self, store: Store, key: Key, soon: Deadline) -> None:
        value = {**manifests.body(Manifest(key)), "min_reader": 2}
        data = canonical.encode({**value, "digest": canonical.digest(value), "signature": None})
        store.put_new(layout.manifest_path(key), data, soon)
        assert look_up(store, key, soon) == Missing("newer_format")

    def test_no_parts(self, store: Store, key: Key, soon: Deadline) -> None:
        store.put_new(layout.manifest_path(key), manifests.encode(Manifest(key)), soon)
        assert look_up(store, key, soon) == Missing("no_parts", key)

    def test_a_store_that_cannot_be_listed_is_still_a_miss(self, filled: Store, soon: Deadline) -> None:
        class Unlistable:
            def __getattr__(self, name: str) -> object:
                return getattr(filled, name)

            def list(self, prefix: str, deadline: Deadline) -> object:
                raise UnavailableError("no")

        missing = look_up(Unlistable(), making.key(torch="0"), soon)  # type: ignore[arg-type]
        assert missing == Missing("key:unknown")


class TestNamingAKey:
    def test_by_eight_digits_or_more(self, filled: Store, key: Key, soon: Deadline) -> None:
        for digits in (key.digest()[:8], key.digest()[:20], key.digest()):
            assert open_key(filled, "default", digits, soon).manifest.key == key

    @pytest.mark.parametrize("digits", ["", "abc", "ABCDEF01", "zzzzzzzz", "0" * 65, "../../x1"])
    def test_other_digits_are_a_usage_error(self, filled: Store, soon: Deadline, digits: str) -> None:
        with pytest.raises(UsageError):
            open_key(filled, "default", digits, soon)

    def test_that_is_not_there(self, filled: Store, key: Key, soon: Deadline) -> None:
        wrong = "0" * 8 if not key.digest().startswith("0" * 8) else "1" * 8
        with pytest.raises(NotFoundError) as caught:
            open_key(filled, "default", wrong, soon)
        assert caught.value.code == "key-not-found"
        with pytest.raises(GlowplugError):
            open_key(filled, "other", key.digest(), soon)

    def test_that_is_damaged(self, store: Store, key: Key, soon: Deadline) -> None:
        store.put_new(layout.manifest_path(key), b"{}", soon)
        with pytest.raises(IntegrityError):
            open_key(store, "default", key.digest(), soon)


class TestWhy:
    def test_lists_the_closest_keys_with_both_values(self, filled: Store, tree: Path, key: Key, soon: Deadline) -> None:
        publish(filled, making.key(torch="1.0", gpu="other"), {}, making.parts(tree), deadline=soon)
        answer = why(filled, making.key(layout=Layout(tp=2)), soon)
        assert (answer.found, answer.reason) == (False, "key:tp")
        first, second = answer.neighbours
        assert first.key_digest == key.digest()
        (row,) = first.differences
        assert (row.field, row.mine, row.theirs) == ("tp", "2", "1")
        assert [row.field for row in second.differences] == ["gpu", "torch", "tp"]

    def test_of_a_hit(self, filled: Store, key: Key, soon: Deadline) -> None:
        answer = why(filled, key, soon)
        assert (answer.found, answer.reason, answer.neighbours) == (True, "", ())

    def test_parts_of_two_keys_compared(
        self, filled: Store, tree: Path, tmp_path: Path, key: Key, soon: Deadline
    ) -> None:
        other_key = making.key(torch="2.12.0")
        other = making.tree(making.tree(tmp_path / "other", salt="x"), "e2")
        publish(filled, other_key, {}, making.parts(other) + making.parts(other, "e2"), deadline=soon)
        one = open_key(filled, "default", key.digest(), soon).manifest
        two = open_key(filled, "default", other_key.digest(), soon).manifest
        rows = [(row.what, row.kind, row.name) for row in compare_parts(one, two)]
        assert rows == [
            ("changed", "entry", "e1"),
            ("added", "entry", "e2"),
            ("changed", "support", "e1/support"),
            ("added", "support", "e2/support"),
        ]
