"""The head of a safetensors file: what the format allows is read, anything else is a HeaderError, in bounded time and memory."""

from __future__ import annotations

import contextlib
import json
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.models import safetensors
from glowplug.models.safetensors import HeaderError, Tensor, TruncatedError
from tests.models import folders


def read(header: object | bytes) -> list[Tensor]:
    """Of a header without its prefix."""
    return list(safetensors.tensors(header if isinstance(header, bytes) else json.dumps(header).encode()))


def entry(begin: Any = 0, end: Any = 4, dtype: Any = "F32", shape: Any = (1,)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape) if isinstance(shape, tuple) else shape, "data_offsets": [begin, end]}


def test_tensors_with_their_places() -> None:
    found = read(folders.described({"a": ("BF16", (2, 3)), "b": ("F32", ()), "c": ("I64", (0, 5))}))
    assert found == [Tensor("a", "BF16", 6, 0, 12), Tensor("b", "F32", 1, 12, 16), Tensor("c", "I64", 0, 16, 16)]


@pytest.mark.parametrize(
    ("dtype", "shape", "nbytes"),
    [
        *((dtype, (3, 8), 24) for dtype in ("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0")),
        *((dtype, (3, 8), 48) for dtype in ("I16", "U16", "F16", "BF16")),
        *((dtype, (3, 8), 96) for dtype in ("I32", "U32", "F32")),
        *((dtype, (3, 8), 192) for dtype in ("I64", "U64", "F64", "C64")),
        ("F4", (3, 8), 12),
        ("F6_E2M3", (3, 8), 18),
        ("F6_E3M2", (4,), 3),
    ],
)
def test_types_have_their_sizes(dtype: str, shape: tuple[int, ...], nbytes: int) -> None:
    assert len(read({"a": entry(0, nbytes, dtype, shape)})) == 1
    for wrong in (nbytes - 1, nbytes + 1):
        with pytest.raises(HeaderError, match=dtype):
            read({"a": entry(0, wrong, dtype, shape)})


@pytest.mark.parametrize(
    "header",
    [
        b"{}",
        b"{ }      ",
        b'{"__metadata__":{}}',
        b'{"__metadata__":{"format":"pt","k":"{\\"a\\": [1, \\"}\\"]}"},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
        b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"__metadata__":{"x":""}}',
        b' \t{ "a" : { "shape" : [ 1 ] , "data_offsets" : [ 0 , 1 ] , "dtype" : "U8" } , "b": {"dtype":"U8","shape":[0],'
        b'"data_offsets":[1,1]}}'.lstrip(),
        '{"Gewicht ü 重み":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'.encode(),
        b'{"a\\u00fc\\"\\\\b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
        b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"more":{}}}'.replace(b',"more":{}', b',"more":"{}"'),
        b'{"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
        json.dumps({"z": entry(4, 4, shape=(0,)), "a": entry(0, 4), "b": entry(4, 8)}).encode(),
    ],
    ids=range(11),
)
def test_what_the_format_allows(header: bytes) -> None:
    names = [name for name in json.loads(header) if name != "__metadata__"]
    assert [tensor.name for tensor in read(header)] == names
    assert [tensor.name for tensor in read(header + b" " * 100)] == names


def test_a_type_of_tomorrow_is_no_fault() -> None:
    found = read({"a": entry(0, 5, "F3_E1M1", (13,)), "b": entry(5, 9)})
    assert [tensor.end for tensor in found] == [5, 9]
    assert safetensors.bits_of("F3_E1M1") is None
    assert safetensors.bits_of("BF16") == 16


HOSTILE: dict[str, object] = {
    "nothing": b"",
    "spaces": b"    ",
    "an array": b"[]",
    "a space first": b' {"a":1}',
    "a mark first": b"\xef\xbb\xbf{}",
    "a value alone": b"1",
    "cut in a name": b'{"a',
    "cut after a name": b'{"a":',
    "cut in an entry": b'{"a":{"dtype":"U8"',
    "cut after an entry": b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}',
    "cut in metadata": b'{"__metadata__":{"a":"b"',
    "something behind": b"{}x",
    "another object behind": b"{}{}",
    "a zero behind": b"{}\0",
    "a comma too many": b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},}',
    "no comma": b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"b":1}',
    "a name that is none": b"{1:{}}",
    "an entry that is none": {"a": 5},
    "an entry that is a list": {"a": [1]},
    "an empty entry": {"a": {}},
    "a nested entry": {"a": {"dtype": {"dtype": "U8"}, "shape": [1], "data_offsets": [0, 1]}},
    "twice": b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}',
    "twice by escapes": json.dumps({"a": entry(0, 4), "b": entry(4, 8)}).replace('"b"', '"\\u0061"').encode(),
    "metadata twice": b'{"__metadata__":{},"__metadata__":{}}',
    "a field twice": b'{"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
    "metadata of numbers": {"__metadata__": {"a": 1}},
    "metadata nested": {"__metadata__": {"a": {"b": "c"}}},
    "metadata null": {"__metadata__": None},
    "metadata with a list": {"__metadata__": ["a"]},
    "a number for a type": {"a": entry(dtype=4)},
    "no type": {"a": {"shape": [1], "data_offsets": [0, 1]}},
    "no shape": {"a": {"dtype": "U8", "data_offsets": [0, 1]}},
    "no offsets": {"a": {"dtype": "U8", "shape": [1]}},
    "a type with a line end": {"a": entry(dtype="F32\n")},
    "an empty type": {"a": entry(dtype="")},
    "a shape that is none": {"a": entry(shape="1")},
    "a shape of texts": {"a": entry(shape=["1"])},
    "a shape of truth": {"a": entry(shape=[True])},
    "a shape of fractions": {"a": entry(shape=[1.0])},
    "a negative shape": {"a": entry(shape=[-1, -1])},
    "a nested shape": {"a": entry(shape=[[1]])},
    "one offset": {"a": {"dtype": "U8", "shape": [1], "data_offsets": [0]}},
    "three offsets": {"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1, 2]}},
    "offsets that are texts": {"a": entry("0", "4")},
    "negative offsets": {"a": entry(-4, 0)},
    "offsets the other way round": {"a": entry(4, 0, shape=(0,))},
    "offsets of fractions": {"a": entry(0.0, 4.0)},
    "a gap at the beginning": {"a": entry(4, 8)},
    "a gap": {"a": entry(0, 4), "b": entry(8, 12)},
    "an overlap": {"a": entry(0, 4), "b": entry(2, 6)},
    "the same place": {"a": entry(0, 4), "b": entry(0, 4)},
    "an overlap out of order": {"b": entry(2, 6), "a": entry(0, 4)},
    "offsets that do not fit": {"a": entry(0, 8)},
    "not a number": b'{"a":{"dtype":"U8","shape":[NaN],"data_offsets":[0,1]}}',
    "infinity": b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,Infinity]}}',
    "a huge number": {"a": entry(0, 1 << 63, "U8", (1 << 63,))},
    "a number of 4,000 digits": b'{"a":{"dtype":"U8","shape":[%b],"data_offsets":[0,1]}}' % (b"9" * 4000),
    "a number of 40,000 digits": b'{"a":{"dtype":"U8","shape":[%b],"data_offsets":[0,1]}}' % (b"9" * 40_000),
    "a product that is huge": {"a": entry(0, 0, "U8", (1 << 40, 1 << 40, 0))},
    "ten thousand dimensions": {"a": entry(0, 4, "F32", tuple([1] * 10_000))},
    "no UTF-8": b'{"\xff":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
    "half a character": b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}\xc3',
    "half a pair": b'{"\\ud800":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
    "an escape that is none": b'{"\\x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
    "a control character": b'{"a\nb":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
    "a name of 5,000 bytes": b'{"%b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}' % (b"a" * 5000),
    "nested lists": b'{"a":' + b"[" * 100_000,
    "nested objects": b'{"a":' * 100_000,
    "a nested shape, deep": b'{"a":{"dtype":"U8","shape":' + b"[" * 5000 + b"]" * 5000 + b',"data_offsets":[0,1]}}',
    "nested metadata": b'{"__metadata__":' * 100_000,
    "another encoding": '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'.encode("utf-16"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_the_format_forbids(name: str) -> None:
    began = time.process_time()
    with pytest.raises(HeaderError) as caught:
        read(HOSTILE[name])
    assert time.process_time() - began < 3
    text = str(caught.value)
    assert text
    assert text.isprintable()
    assert len(text) < 250


def test_the_length_of_the_header() -> None:
    assert safetensors.head_bytes(folders.head({})) == 16
    assert safetensors.head_bytes((100_000_000).to_bytes(8, "little")) == 100_000_008
    for number in (100_000_001, 1 << 63, (1 << 64) - 1):
        with pytest.raises(HeaderError, match="100000000"):
            safetensors.head_bytes(number.to_bytes(8, "little") + b"{}")
    for short in range(8):
        with pytest.raises(TruncatedError):
            safetensors.head_bytes(bytes(short))


@given(st.binary(max_size=300) | st.text('{}[]":,0a \\', max_size=60).map(str.encode))
def test_any_bytes_are_a_header_or_an_error(data: bytes) -> None:
    try:
        found = read(data)
    except HeaderError as error:
        assert str(error).isprintable()
    else:
        assert [tensor.name for tensor in found] == [name for name in json.loads(data) if name != "__metadata__"]


_sound = st.dictionaries(
    st.text(max_size=12).filter(lambda name: name != "__metadata__"),
    st.tuples(st.sampled_from(sorted(set(folders.BITS) - {"F4"})), st.lists(st.integers(0, 9), max_size=4).map(tuple)),
    max_size=6,
)


@given(tensors=_sound, ascii_only=st.booleans(), order=st.randoms(use_true_random=False))
def test_any_sound_header_is_read(tensors: folders.Tensors, ascii_only: bool, order: Any) -> None:
    described = list(folders.described(tensors).items())
    order.shuffle(described)
    found = read(json.dumps(dict(described), ensure_ascii=ascii_only).encode())
    assert [(tensor.name, tensor.dtype) for tensor in found] == [(name, one["dtype"]) for name, one in described]
    assert sum(tensor.end - tensor.begin for tensor in found) == folders.data_bytes(tensors)


@given(tensors=_sound.filter(bool), data=st.data())
def test_a_spoiled_header_is_never_a_traceback(tensors: folders.Tensors, data: st.DataObject) -> None:
    header = bytearray(json.dumps(folders.described(tensors)).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        header[data.draw(st.integers(0, len(header) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = read(bytes(header))
    except HeaderError:
        return
    assert sum(tensor.end - tensor.begin for tensor in found) == max((tensor.end for tensor in found), default=0)


_LONG = 1 << 20


def _long(piece: bytes, first: bytes, last: bytes) -> bytes:
    """A header of about 1 MB: `piece` again and again, `%d` in it counted up."""
    if b"%d" in piece:
        return first + b"".join(piece % number for number in range(_LONG // (len(piece) + 3))) + last
    return first + piece * (_LONG // len(piece)) + last


@pytest.mark.slow
@pytest.mark.parametrize(
    ("piece", "first", "last"),
    [
        (b"[],", b'{"a":[', b"1]}"),
        (b"[", b'{"a":', b""),
        (b'{"":', b"", b""),
        (b" ", b"{", b"}"),
        (b" ", b"{}", b""),
        (b"a", b'{"', b'":1}'),
        (b"\\u00fc", b'{"', b'":1}'),
        (b"\\u00fc", b'{"__metadata__":{"a":"', b'"}}'),
        ("😀".encode(), b'{"__metadata__":{"a":"', b'"}}'),
        (b'"%d":"",', b'{"__metadata__":{', b'"x":""}}'),
        (b'"%d":1,', b"{", b'"x":1}'),
        (b'"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},', b"{", b'"x":1}'),
        (b'"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},', b"{", b'"x":1}'),
        (b"1,", b'{"a":{"dtype":"U8","data_offsets":[0,1],"shape":[', b"1]}}"),
    ],
    ids=range(14),
)
def test_memory_is_a_few_times_the_header(piece: bytes, first: bytes, last: bytes) -> None:
    """Names and offsets of tensors at the most, beside the bytes themselves. (`json.loads` takes 22 times.)"""
    header = _long(piece, first, last)
    tracemalloc.start()
    try:
        with contextlib.suppress(HeaderError):
            read_nothing(header)
        assert tracemalloc.get_traced_memory()[1] < 6 * len(header)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("piece", [b"[],", b"[", b'{"":', b"  ", b'"a":1,', b"\\u00fc", b"\x00", b"\xff"])
@pytest.mark.parametrize("first", [b"{", b'{"a":', b'{"a', b'{"__metadata__":{"a":"', b'{"__metadata__":', b"{}"])
def test_many_megabytes_are_seen_through_at_once(piece: bytes, first: bytes) -> None:
    header = first + piece * (20_000_000 // len(piece))
    began = time.process_time()
    with pytest.raises(HeaderError):
        read_nothing(header + b"x")
    assert time.process_time() - began < 10


@pytest.mark.slow
def test_two_million_names_are_too_many() -> None:
    header = b"{" + b",".join(
        b'"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}' % number for number in range(2_000_000)
    )
    with pytest.raises(HeaderError, match="500000"):
        read_nothing(header + b"}")


def read_nothing(header: bytes) -> None:
    for _ in safetensors.tensors(header):
        pass
