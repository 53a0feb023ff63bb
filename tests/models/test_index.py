"""`model.safetensors.index.json`: what it says, and that nothing in it can name what is not beside it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.models import index
from glowplug.models.index import Index
from glowplug.models.json_text import JsonError
from tests.models import folders


def parse(value: object) -> Index:
    return index.parse(value if isinstance(value, bytes) else json.dumps(value).encode())


def test_what_it_says() -> None:
    found = index.parse(folders.model(3)["model.safetensors.index.json"])
    assert found.shards == {folders.shard_name(number, 3) for number in (1, 2, 3)}
    assert found.shard_of["model.layers.1.mlp.up_proj.weight"] == folders.shard_name(2, 3)
    assert found.total_size == 3 * 6144
    assert found.outside == ()


def test_a_header_ends_where_the_index_lets_expect() -> None:
    """What is guessed is enough for the real header, and not much more."""
    tensors = {
        f"model.layers.{n}.mlp.experts.{n}.gate_up_proj.weight": ("BF16", (1 << 20, 1 << 14)) for n in range(300)
    }
    found = parse({"weight_map": dict.fromkeys(tensors, "model.safetensors")})
    really = len(folders.head(folders.described(tensors)))
    assert really <= found.head_bytes()["model.safetensors"] <= 2 * really


@pytest.mark.parametrize(
    ("total", "understood"),
    [(5, 5), (1.5e10, 15_000_000_000), (0, 0)]
    + [(odd, None) for odd in ("5", -1, 1.5, True, None, [], 1 << 63, float("nan"), float("inf"))],
)
def test_the_total_size(total: object, understood: int | None) -> None:
    assert parse({"metadata": {"total_size": total}, "weight_map": {}}).total_size == understood


@pytest.mark.parametrize("metadata", [None, 5, [], "x", {}])
def test_metadata_that_says_nothing(metadata: object) -> None:
    assert parse({"metadata": metadata, "weight_map": {"a": "m.safetensors"}}) == Index({"a": "m.safetensors"})


@pytest.mark.parametrize(
    "name",
    [
        "../model.safetensors",
        "/etc/model.safetensors",
        "a/model.safetensors",
        "..\\model.safetensors",
        "c:\\model.safetensors",
        ".hidden.safetensors",
        "",
        ".",
        "..",
        "model.bin",
        "s3://b/m.safetensors",
        "a\0.safetensors",
        "a\n.safetensors",
        "\x1b[2J.safetensors",
        "a" * 300 + ".safetensors",
    ],
)
def test_a_name_that_leads_elsewhere_is_set_apart(name: str) -> None:
    found = parse({"weight_map": {"a": name, "b": "model.safetensors"}})
    assert found.outside == (name,)
    assert found.shards == {"model.safetensors"}
    assert "a" not in found.shard_of


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"\xff",
        b"\xef\xbb\xbf{}",
        b"[" * 100_000,
        b'{"weight_map":' * 100_000,
        b"9" * 10_000,
        [],
        5,
        None,
        {},
        {"weight_map": []},
        {"weight_map": None},
        {"weight_map": {"a": 5}},
        {"weight_map": {"a": None}},
        {"weight_map": {"a": ["m.safetensors"]}},
        b'{"weight_map":{' + b'"a":"b",' * 2_000_000 + b'"a":"b"}}',
        b"[" + b"[]," * 2_000_000 + b"1]",
    ],
    ids=range(18),
)
def test_what_is_no_index(value: object) -> None:
    with pytest.raises(JsonError) as caught:
        parse(value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 200


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)


@given(st.fixed_dictionaries({"weight_map": _json}, optional={"metadata": _json}) | _json)
def test_any_json_is_an_index_or_an_error(value: object) -> None:
    try:
        found = parse(value)
    except JsonError:
        return
    assert all(index.is_beside(name) for name in found.shards)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_index_or_an_error(data: bytes) -> None:
    try:
        index.parse(data)
    except JsonError as error:
        assert str(error).isprintable()
