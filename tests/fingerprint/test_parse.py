"""F of the command line: three forms, and clear words for everything else."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.core.documents import codec
from glowplug.core.documents.fingerprint import Fact, Fingerprint, Key, Layout
from glowplug.core.documents.start import Start
from glowplug.core.errors import BadInputError
from glowplug.fingerprint.parse import from_json, parse

FLAT: dict[str, Any] = {
    "domain": "default",
    "engine": "vllm",
    "engine_version": "0.21.0",
    "torch": "2.11.0",
    "gpu": "NVIDIA H200",
    "tp": 1,
    "model": "s3://b/m",
    "cache_root": "/compile-cache",
}
KEY = Key(
    "default",
    "vllm",
    "0.21.0",
    "2.11.0",
    "NVIDIA H200",
    os.uname().machine,
    Layout(),
    "s3://b/m",
    {},
    {},
    "/compile-cache",
)


def test_the_flat_form() -> None:
    key, guards = from_json({**FLAT, "triton": "3.6.0", "note": "ignored"})
    assert key == KEY
    assert guards == {"triton": "3.6.0"}


def test_the_flat_form_with_everything() -> None:
    whole = {
        **FLAT,
        "tp": 2,
        "pp": 2,
        "dp": 3,
        "ep": 6,
        "machine": "aarch64",
        "args": {"max_model_len": 8192, "enable_lora": True, "dtype": "half"},
        "env": {"VLLM_PLUGINS": "x"},
    }
    key, guards = from_json(whole)
    assert key.layout == Layout(2, 2, 3, 6)
    assert key.machine == "aarch64"
    assert key.args == {"max_model_len": "8192", "enable_lora": "true", "dtype": "half"}
    assert guards == {}


def test_our_own_documents() -> None:
    key = dataclasses.replace(KEY, layout=Layout(tp=4, ep=4), args={"a": "b"})
    guards = {"triton": "3.6.0", "python": "3.12.3"}
    document = codec.to_json(Fingerprint({"gpu": Fact("x", "y")}, guards, key, key.digest()))
    assert from_json(document) == (key, guards)
    facts: dict[str, Fact] = {
        name: Fact(value, "observed:x")
        for name, value in {**codec.to_json(key), **codec.to_json(key.layout), **guards}.items()
        if name != "layout"
    }
    start = codec.to_json(Start("id", "run", "2026-01-01T00:00:00Z", fingerprint=facts))
    assert parse(json.dumps(start)) == (key, guards)


def test_an_edited_document_is_taken_as_it_is() -> None:
    document = codec.to_json(Fingerprint({}, {}, KEY, KEY.digest()))
    document["key"]["gpu"] = "NVIDIA L4"
    assert from_json(document)[0].gpu == "NVIDIA L4"


@pytest.mark.parametrize("name", sorted(FLAT))
def test_a_missing_field_is_named(name: str) -> None:
    with pytest.raises(BadInputError, match=name) as caught:
        from_json({key: value for key, value in FLAT.items() if key != name})
    assert caught.value.code == "bad-fingerprint"
    assert "glowplug fingerprint" in caught.value.hint


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tp": "2"}, "tp must be a number"),
        ({"tp": 0}, "tp must be a number"),
        ({"pp": True}, "pp must be a number"),
        ({"gpu": 5}, "gpu must be text"),
        ({"machine": 5}, "machine must be text"),
        ({"args": []}, "args must be an object"),
        ({"args": {"a": 1.5}}, "args.a must be text"),
        ({"env": {"a": None}}, "env.a must be text"),
        ({"triton": 3}, "triton must be text"),
        ({"model": "\udcff"}, "model is not Unicode"),
        ({"schema": "glowplug.plan/1"}, "glowplug.plan/1"),
    ],
)
def test_wrong_types_are_named(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        from_json({**FLAT, **changed})


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"schema": "glowplug.fingerprint/1", "key": None, "unknown": ["gpu", "torch"]}, "unknown: gpu, torch"),
        ({"schema": "glowplug.fingerprint/1", "key": [], "guards": {}}, "objects"),
        ({"schema": "glowplug.start/1", "fingerprint": {}}, "no fingerprint"),
        ([], "not an object"),
        (None, "not an object"),
    ],
)
def test_documents_without_a_key(document: object, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        from_json(document)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"a": 1}', "nul"])
def test_texts_that_are_none(text: str) -> None:
    with pytest.raises(BadInputError):
        parse(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
SCHEMAS = st.sampled_from(["glowplug.fingerprint/1", "glowplug.start/1", "x"])


@given(
    st.fixed_dictionaries(
        {},
        optional={
            **{name: st.one_of(st.just(value), JSON) for name, value in FLAT.items()},
            "schema": st.one_of(SCHEMAS, JSON),
            "key": JSON,
            "fingerprint": JSON,
            "guards": JSON,
            "args": JSON,
            "env": JSON,
        },
    )
)
def test_any_json(value: dict[str, Any]) -> None:
    try:
        key, _ = from_json(value)
    except BadInputError:
        return
    assert len(key.digest()) == 64
