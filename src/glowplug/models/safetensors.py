"""The head of a safetensors file: which tensors lie in it, and where. Nothing is read or loaded here.

The format: 8 bytes, little-endian, with the length of a JSON object; the object, filled up with spaces; then the tensors' bytes
without a gap. The object maps names to `{"dtype": …, "shape": […], "data_offsets": [begin, end]}`, offsets counted from the end of
the header, and may hold `__metadata__`, strings by strings. What the reference implementation (safetensors 0.8) refuses is refused
here: other beginnings, doubled names, offsets that overlap, leave gaps or do not fit dtype and shape. A dtype that is not known
is none of that, since formats grow: its shape cannot be held against its offsets, and the caller is told by `bits_of`.

A header may have 100 MB and whoever wrote it may mean harm. `json.loads` makes 64 bytes of three (`[],`), so the object is
walked member by member and only one tensor's few words are ever parsed at a time.
"""

from __future__ import annotations

import codecs
import json
import re
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from glowplug.core.printable import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PREFIX_BYTES: Final = 8
LARGEST_HEADER: Final = 100_000_000
"""Bytes; the format's own limit."""

MOST_TENSORS: Final = 500_000
"""Of one file. The largest models have some 150,000 in all their files together."""

METADATA: Final = "__metadata__"

_BITS: Final[Mapping[str, int]] = {
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
}

_POINTER: Final = b"version https://git-lfs"

_MOST: Final = (1 << 63) - 1  # of a dimension, an offset, a number of elements
_LONGEST_NAME: Final = 4096
_LONGEST_ENTRY: Final = 16_384
_MOST_METADATA: Final = 100_000
_CHUNK: Final = 64 << 10
_SHOWN: Final = 80

_SPACE: Final = rb"[ \t\n\r]*+"
_STRING: Final = rb'"([^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^"\\\x00-\x1f]*+)*+)"'
_KEY: Final = re.compile(_SPACE + _STRING + _SPACE + b":" + _SPACE)
_TEXT: Final = re.compile(_STRING)
_ENTRY: Final = re.compile(rb'\{[^{}"]*+(?:"(?:[^"\\]|\\.)*+"[^{}"]*+)*+\}', re.DOTALL)
_BLANK: Final = re.compile(_SPACE)
_OPEN: Final = re.compile(rb"\{" + _SPACE)
_CLOSE: Final = re.compile(rb"\}")
_NEXT: Final = re.compile(_SPACE + rb"([,}])")
_DTYPE: Final = re.compile(r"[A-Za-z0-9_]{1,32}", re.ASCII)


class HeaderError(ValueError):
    """The bytes are no header of the format. The text is one line that names the fault."""


class TruncatedError(HeaderError):
    """The file ends before its header does."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor's place: bytes `begin` to `end` of the data, which begins after the header. `elements` by its shape."""

    name: str
    dtype: str
    elements: int
    begin: int
    end: int


def bits_of(dtype: str) -> int | None:
    """Bits of one element, None for a dtype that is not known here."""
    return _BITS.get(dtype)


def head_bytes(beginning: bytes) -> int:
    """Bytes of prefix and header together, of a file that begins so. Raises HeaderError; 8 bytes are enough."""
    if len(beginning) < PREFIX_BYTES:
        raise TruncatedError(f"it ends after {len(beginning)} bytes, before the length of its header")
    if beginning.startswith(_POINTER[:PREFIX_BYTES]) and _POINTER.startswith(beginning[: len(_POINTER)]):
        raise HeaderError("it is a pointer of Git LFS; the file itself was not fetched")
    length = int.from_bytes(beginning[:PREFIX_BYTES], "little")
    if length > LARGEST_HEADER:
        raise HeaderError(f"its header would have {length} bytes; the format allows {LARGEST_HEADER}")
    return PREFIX_BYTES + length


def tensors(header: bytes | memoryview) -> Iterator[Tensor]:
    """The tensors in the order in which the header names them. Raises HeaderError, also after some were given.

    Only when the iterator has ended without it do offsets, names and lengths hold. Memory: names and offsets.
    """
    _check_unicode(header)
    layout = _Layout()
    names: set[str] = set()
    position = _match(_OPEN, header, 0, "it does not begin with an object").end()
    if found := _CLOSE.match(header, position):
        position = found.end()
    else:
        while True:
            name, position = _name(header, position)
            if name in names:
                raise HeaderError(f"{_shown(name)} is named twice")
            names.add(name)
            if name == METADATA:
                position = _skip_metadata(header, position)
            else:
                if len(names) > MOST_TENSORS:
                    raise HeaderError(f"it names more than {MOST_TENSORS} tensors")
                tensor, position = _tensor(header, position, name)
                layout.add(tensor)
                yield tensor
            sign = _match(_NEXT, header, position, "a comma or the end is missing")
            position = sign.end()
            if sign[1] == b"}":
                break
    if _match(_BLANK, header, position, "").end() != len(header):
        raise HeaderError("something follows after the object")
    layout.check()


class _Layout:
    """Whether the tensors fill the data from its beginning without gap or overlap, in whatever order they were named."""

    def __init__(self) -> None:
        self._begins = array("q")
        self._ends = array("q")

    def add(self, tensor: Tensor) -> None:
        self._begins.append(tensor.begin)
        self._ends.append(tensor.end)

    def check(self) -> None:
        expected = 0
        for begin, end in sorted(zip(self._begins, self._ends, strict=True)):
            if begin != expected:
                what = "overlap" if begin < expected else "leave a gap"
                raise HeaderError(f"tensors {what} at byte {min(begin, expected)} of the data")
            expected = end


def _tensor(header: bytes | memoryview, position: int, name: str) -> tuple[Tensor, int]:
    found = _ENTRY.match(header, position, position + _LONGEST_ENTRY)
    if found is None:
        raise HeaderError(f"{_shown(name)} is not described by a small object")
    try:
        entry = _DECODER.decode(found[0].decode())
    except (ValueError, RecursionError) as error:
        raise HeaderError(f"{_shown(name)}: {one_line(str(error))[:_SHOWN]}") from error
    dtype, shape, offsets = (_member(entry, key, name) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype):
        raise HeaderError(f"{_shown(name)} has no dtype that is a word")
    if not isinstance(shape, list) or not all(map(_natural, shape)):
        raise HeaderError(f"{_shown(name)} has no shape of whole numbers")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_natural, offsets)):
        raise HeaderError(f"{_shown(name)} has no two offsets")
    begin, end = offsets
    if end < begin:
        raise HeaderError(f"{_shown(name)} ends before it begins")
    elements = 1
    for size in shape:
        elements *= size
        if elements > _MOST:
            raise HeaderError(f"{_shown(name)} has more elements than can be counted")
    bits = bits_of(dtype)
    if bits is not None and elements * bits != (end - begin) * 8:
        raise HeaderError(f"{_shown(name)} has {elements} elements of {dtype} in {end - begin} bytes")
    return Tensor(name, dtype, elements, begin, end), found.end()


def _member(entry: Any, key: str, name: str) -> Any:
    if key not in entry:
        raise HeaderError(f"{_shown(name)} has no {key}")
    return entry[key]


def _natural(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MOST


def _name(header: bytes | memoryview, position: int) -> tuple[str, int]:
    found = _match(_KEY, header, position, "a name is missing or no string")
    if len(found[1]) > _LONGEST_NAME:
        raise HeaderError(f"a name has {len(found[1])} bytes")
    name = found[1].decode() if b"\\" not in found[1] else str(json.loads(b'"%b"' % found[1]))
    if not _is_text(name):
        raise HeaderError(f"the name {_shown(name)} is not Unicode")
    return name, found.end()


def _skip_metadata(header: bytes | memoryview, position: int) -> int:
    """Strings by strings, which may be long and are nothing to a plan: looked at, not kept."""
    position = _match(_OPEN, header, position, f"{METADATA} is no object").end()
    if found := _CLOSE.match(header, position):
        return found.end()
    for _ in range(_MOST_METADATA):
        position = _match(_KEY, header, position, f"{METADATA} holds something without a name").end()
        position = _match(_TEXT, header, position, f"{METADATA} holds something that is no string").end()
        sign = _match(_NEXT, header, position, f"{METADATA} does not end")
        position = sign.end()
        if sign[1] == b"}":
            return position
    raise HeaderError(f"{METADATA} holds more than {_MOST_METADATA} strings")


def _match(pattern: re.Pattern[bytes], header: bytes | memoryview, position: int, otherwise: str) -> re.Match[bytes]:
    found = pattern.match(header, position)
    if found is None:
        raise HeaderError(otherwise if position < len(header) else "it ends in the middle")
    return found


def _check_unicode(header: bytes | memoryview) -> None:
    """Piece by piece: one character beyond ASCII makes four bytes of each byte of a whole text."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(header), _CHUNK):
            decoder.decode(header[start : start + _CHUNK])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise HeaderError("it is not UTF-8") from error


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(name: str) -> str:
    return repr(one_line(name[:_SHOWN]))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a field is named twice")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse)
