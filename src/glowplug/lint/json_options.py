"""Options whose value is a JSON object, key by key: `--model-loader-extra-config '{"concurrency": 16}'`, or by dotted names.

Places include the quotes of keys and strings, since whether there are any is what some rules are about.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from glowplug.engines.vllm.arguments import json_or_text, merge
from glowplug.engines.written import Range
from glowplug.lint import places
from glowplug.lint.view import JsonPart, Option
from glowplug.manifests.source import Place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from glowplug.lint.view import Engine, Word
    from glowplug.manifests.values import Value

EXTRA_CONFIG: Final = "model-loader-extra-config"
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder()


@dataclass(frozen=True)
class Extra:
    """A JSON option. `error`: why it is no JSON object, "" where it is one."""

    option: Option
    parts: Mapping[str, JsonPart]
    error: str = ""


@dataclass(frozen=True)
class Member:
    """A key of a JSON object and its value, with where they stand in the text, quotes included."""

    key: str
    key_start: int
    key_end: int
    data: Any
    start: int
    end: int


def extra_config(engine: Engine) -> Extra | None:
    """What the loader is told, None where it is told nothing or where that cannot be known."""
    return json_option(engine, EXTRA_CONFIG)


def json_option(engine: Engine, name: str) -> Extra | None:
    """The JSON option of that name."""
    option = engine.options.get(name)
    if option is None or option.value is None:
        return None
    if option.dotted:
        return Extra(option, _dotted(engine, option))
    try:
        found = members(option.value)
    except ValueError as error:
        return Extra(option, {}, str(error))
    word, offset = value_in(engine, option)
    if word is None:
        within = option.within
        return Extra(option, {one.key: _elsewhere(one, option, within) for one in found} if within is not None else {})
    return Extra(option, {one.key: _part(one, word, offset) for one in found})


def value_in(engine: Engine, option: Option) -> tuple[Word | None, int]:
    """The word that an option's value stands in, and from which character on; None for one that is in no word."""
    place = option.first + option.count - 1
    if option.first < 0 or place >= len(engine.words) or option.value is None:
        return None, 0
    word = engine.words[place]
    return (word, len(word.text) - len(option.value)) if word.text.endswith(option.value) else (None, 0)


def members(text: str) -> list[Member]:
    """The keys of a JSON object. Raises ValueError with the reason for what is none."""
    at = _skip(text, 0)
    if text[at : at + 1] != "{":
        raise ValueError(_what(text))
    found: list[Member] = []
    at = _skip(text, at + 1)
    if text[at : at + 1] == "}":
        return _end(text, at + 1, found)
    while True:
        if text[at : at + 1] != '"':
            raise ValueError("it is no JSON: a key must be in double quotes")
        key, key_end = _decode(text, at)
        colon = _skip(text, key_end)
        if text[colon : colon + 1] != ":":
            raise ValueError(f"it is no JSON: no colon after the key {key!r}")
        start = _skip(text, colon + 1)
        data, end = _decode(text, start)
        found.append(Member(key, at, key_end, data, start, end))
        at = _skip(text, end)
        if text[at : at + 1] == "}":
            return _end(text, at + 1, found)
        if text[at : at + 1] != ",":
            raise ValueError(f"it is no JSON: no comma after the value of {key!r}")
        at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _decode(text: str, at: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        raise ValueError("it is no JSON") from None


def _end(text: str, at: int, found: list[Member]) -> list[Member]:
    if _skip(text, at) != len(text):
        raise ValueError("it is no JSON: text after the closing brace")
    return found


def _what(text: str) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return "it is no JSON" if text.strip() else "it is empty"
    names = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return f"it is {names.get(type(value), 'a number')}, no JSON object"


def _part(one: Member, word: Word, offset: int) -> JsonPart:
    own = range_in(word, offset + one.start, offset + one.end)
    key = range_in(word, offset + one.key_start, offset + one.key_end)
    return JsonPart(one.data, _place(own), _place(key), own.origin, own.start, own.end)


def range_in(word: Word, start: int, end: int) -> Range:
    """Where characters of a word stand: in one text, else the word itself."""
    return places.range_of(word.written, start, end) or Range(word.value, word.start, word.end)


def _place(range_: Range) -> Place:
    return Place(range_.origin.source, range_.origin.part(range_.start, range_.end))


def _elsewhere(one: Member, option: Option, within: Value) -> JsonPart:
    """For an option of a configuration file, which is one place."""
    at = option.at if isinstance(option.at, Place) else option.at.place
    key = option.option_at if isinstance(option.option_at, Place) else option.option_at.place
    return JsonPart(one.data, at, key, within, 0, 0)


def _dotted(engine: Engine, option: Option) -> dict[str, JsonPart]:
    document: dict[str, Any] = {}
    found: dict[str, JsonPart] = {}
    for one in option.dotted:
        keys = one.name.split(".")[1:]
        if one.value is None or not keys:
            continue
        merge(document, keys, json_or_text(one.value))
        word, offset = value_in(engine, one)
        if word is None:
            continue
        own = range_in(word, offset, len(word.text))
        name = engine.words[one.first]
        begin = name.text.index(".") + 1
        key = range_in(name, begin, begin + len(".".join(keys)))
        found[keys[0]] = JsonPart(document[keys[0]], _place(own), _place(key), own.origin, own.start, own.end)
    return found
