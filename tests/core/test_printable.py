"""Text of others on a terminal."""

from __future__ import annotations

import json

import pytest

from glowplug.core import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain äöü ✓ 日本", "plain äöü ✓ 日本"),
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("over\rwritten", "over\\x0dwritten"),
        ("\x7f\x00", "\\x7f\\x00"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\udc9b", "\\udc9b"),
    ],
)
def test_control_characters_are_escapes(text: str, shown: str) -> None:
    assert printable.printable(text) == shown
    assert printable.printable(shown) == shown


def test_one_line_has_no_line_end() -> None:
    assert printable.one_line("a\tb\nc\x1b") == "a\\tb\\nc\\x1b"


def test_json_text_is_the_same_value() -> None:
    value = {"a\x9b": "\x1b[2J\x7f\u202e\udc9b ü"}
    text = printable.json_text(json.dumps(value, ensure_ascii=False))
    assert json.loads(text) == value
    assert not set(text) & set("\x1b\x7f\x9b\u202e\udc9b")
    assert "ü" in text
