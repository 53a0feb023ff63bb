"""manifests/source.py: places as people count them, and bytes that are no text."""

from __future__ import annotations

import pytest

from glowplug.core.errors import BadInputError
from glowplug.manifests.source import LARGEST, Place, Source, Span, read

POSITIONS = (
    ("a\nbc\n", 3, (2, 2)),
    ("a\r\nbc", 3, (2, 1)),
    ("a\rbc", 3, (2, 2)),
    ("a\n\n\nb", 4, (4, 1)),
    ("é😀x", 2, (1, 3)),
    ("\ufeffab", 1, (1, 1)),
    ("\ufeffab\ncd", 5, (2, 2)),
    ("a\u2028b\x85c", 4, (1, 5)),
    ("ab\n", 3, (2, 1)),
    ("", 0, (1, 1)),
)


@pytest.mark.parametrize(("text", "offset", "position"), POSITIONS)
def test_a_place_is_counted_as_an_editor_does(text: str, offset: int, position: tuple[int, int]) -> None:
    assert Source("t", text).position(offset) == position


def test_a_place_has_its_text() -> None:
    assert Place(Source("t", "k: value"), Span(3, 8)).text == "value"


def test_bytes_become_text_with_their_line_ends_and_mark() -> None:
    assert read("t", "\ufeffa: é\r\n".encode()) == Source("t", "\ufeffa: é\r\n")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a: 1\nb: \xff\n", "t, line 2, column 4: byte 0xff is no UTF-8"),
        ("é: ".encode() + b"\xe9", "t, line 1, column 4: byte 0xe9 is no UTF-8"),
        ("a: 1".encode("utf-16"), "t is UTF-16"),
        (b"\xed\xa0\x80", "t, line 1, column 1: byte 0xed is no UTF-8"),
    ],
)
def test_bytes_that_are_no_text_are_refused(data: bytes, said: str) -> None:
    with pytest.raises(BadInputError) as caught:
        read("t", data)
    assert caught.value.message == said
    assert caught.value.code == "bad-yaml"
    assert caught.value.hint == "save it as UTF-8"


def test_an_input_without_end_is_refused() -> None:
    with pytest.raises(BadInputError, match="are the most"):
        read("t", bytes(LARGEST + 1))
