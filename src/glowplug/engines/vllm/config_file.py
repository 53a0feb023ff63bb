"""The `--config file.yaml` of vLLM, read without a YAML library.

These files are options written as `name: value`, sometimes with a list or a nested map for a JSON option. That part
of YAML 1.1 is read here as PyYAML reads it (vLLM uses `yaml.safe_load`); what is beyond it (anchors, tags, block
scalars) is refused, since a misread value would become a wrong key. The kernel has the standard library only, hence
no YAML library.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Union

from glowplug.core.errors import UsageError

Value = Union[None, bool, int, float, str, "list[Value]", "dict[str, Value]"]

_TRUE: Final = frozenset({"true", "yes", "on"})
_FALSE: Final = frozenset({"false", "no", "off"})
_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_INT: Final = re.compile(r"[-+]?(?:0x[0-9a-fA-F_]+|0b[01_]+|0[0-7_]*|[1-9][0-9_]*)")
_FLOAT: Final = re.compile(r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?)")
_DEEPEST: Final = 32
_LONGEST_NUMBER: Final = 400


@dataclass(frozen=True)
class _Line:
    """A line of the file with something on it; `number` counts from 1."""

    indent: int
    text: str
    number: int


def parse(text: str, name: str) -> dict[str, Value]:
    """The mapping that a configuration file holds. Raises UsageError naming the line."""
    lines = _significant(text, name)
    if not lines:
        return {}
    value, rest = _block(lines, 0, lines[0].indent, name, 0)
    if rest != len(lines):
        raise _refused(name, lines[rest], "an indentation that fits nothing")
    if not isinstance(value, dict):
        raise _refused(name, lines[0], "a list where options are expected")
    return value


def _refused(name: str, line: _Line, what: str) -> UsageError:
    return UsageError(f"{name}, line {line.number}: {what}")


def _significant(text: str, name: str) -> list[_Line]:
    lines: list[_Line] = []
    for number, raw in enumerate(text.lstrip("\ufeff").splitlines(), start=1):
        bare = _without_comment(raw).rstrip()
        if not bare or (bare == "---" and not lines):
            continue
        if bare == "...":
            break
        stripped = bare.lstrip(" ")
        line = _Line(len(bare) - len(stripped), stripped, number)
        if stripped.startswith("\t") or bare == "---":
            raise _refused(name, line, "a tab or a second document")
        lines.append(line)
    return lines


def _without_comment(line: str) -> str:
    quote = ""
    for at, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"" and (at == 0 or line[at - 1] in " \t[{,:-"):
            quote = character
        elif character == "#" and (at == 0 or line[at - 1] in " \t"):
            return line[:at]
    return line


def _block(lines: list[_Line], at: int, indent: int, name: str, depth: int) -> tuple[Value, int]:
    if depth > _DEEPEST:
        raise _refused(name, lines[at], "a structure that is too deep")
    if lines[at].text == "-" or lines[at].text.startswith("- "):
        return _sequence(lines, at, indent, name, depth)
    return _mapping(lines, at, indent, name, depth)


def _sequence(lines: list[_Line], at: int, indent: int, name: str, depth: int) -> tuple[Value, int]:
    items: list[Value] = []
    while at < len(lines) and lines[at].indent == indent and (lines[at].text + " ").startswith("- "):
        line = lines[at]
        text = line.text[1:].strip()
        if not text:
            if at + 1 >= len(lines) or lines[at + 1].indent <= indent:
                items.append(None)
                at += 1
                continue
            value, at = _block(lines, at + 1, lines[at + 1].indent, name, depth + 1)
            items.append(value)
        elif _key_of(text) is not None:
            raise _refused(name, line, "a map inside a list")
        else:
            items.append(_scalar(text, line, name))
            at += 1
    return items, at


def _mapping(lines: list[_Line], at: int, indent: int, name: str, depth: int) -> tuple[Value, int]:
    found: dict[str, Value] = {}
    while at < len(lines) and lines[at].indent == indent:
        line = lines[at]
        key = _key_of(line.text)
        if key is None:
            raise _refused(name, line, "not of the form `option: value`")
        label, text = key
        following = lines[at + 1] if at + 1 < len(lines) else None
        if text:
            found[label] = _scalar(text, line, name)
            at += 1
        elif following and (following.indent > indent or (following.indent == indent and following.text[:2] == "- ")):
            found[label], at = _block(lines, at + 1, following.indent, name, depth + 1)
        else:
            found[label] = None
            at += 1
    return found, at


def _key_of(text: str) -> tuple[str, str] | None:
    match = re.match(
        r"""(?:"([^"]*)"|'([^']*)'|([^\s'"\[\]{},#&*!|>%@`-][^:'"{}\[\]]*|-[^\s:]+))\s*:(?:\s+(.*))?\Z""", text
    )
    if match is None:
        return None
    label = next(group for group in match.groups()[:3] if group is not None)
    return label.strip(), (match.group(4) or "").strip()


def _scalar(text: str, line: _Line, name: str) -> Value:
    if text[0] in "&*!|>%@`":
        raise _refused(name, line, "YAML that glowplug does not read (anchor, tag or block text)")
    if text[0] in "[{":
        value, end = _flow(text, 0, line, name, 0)
        if text[end:].strip():
            raise _refused(name, line, "text after a closing bracket")
        return value
    if text[0] in "'\"":
        value, end = _quoted(text, 0, line, name)
        if text[end:].strip():
            raise _refused(name, line, "text after a closing quote")
        return value
    return _plain(text)


def _plain(text: str) -> Value:
    lower = text.lower()
    same_case = text in (lower, lower.capitalize(), lower.upper())
    if text in _NULL:
        return None
    if same_case and lower in _TRUE | _FALSE:
        return lower in _TRUE
    if _INT.fullmatch(text):
        return _integer(text.replace("_", ""))
    if _FLOAT.fullmatch(text):
        return float(text.replace("_", ""))
    return text


def _integer(text: str) -> Value:
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text.lstrip("+"))
    if len(digits) > _LONGEST_NUMBER:
        return text
    if digits[:2].lower() in ("0x", "0b"):
        return sign * int(digits, 0) if len(digits) > 2 else text
    return sign * (int(digits, 8) if digits[0] == "0" and len(digits) > 1 else int(digits))


def _quoted(text: str, at: int, line: _Line, name: str) -> tuple[str, int]:
    quote, at, value = text[at], at + 1, ""
    while at < len(text):
        character = text[at]
        if character == quote:
            if quote == "'" and text[at + 1 : at + 2] == "'":
                value, at = value + "'", at + 2
                continue
            return value, at + 1
        if character == "\\" and quote == '"':
            escape = text[at + 1 : at + 2]
            if escape not in ('"', "\\", "/", "n", "t"):
                raise _refused(name, line, f"the escape \\{escape}")
            value, at = value + {"n": "\n", "t": "\t"}.get(escape, escape), at + 2
            continue
        value, at = value + character, at + 1
    raise _refused(name, line, "an unbalanced quote")


def _flow(text: str, at: int, line: _Line, name: str, depth: int) -> tuple[Value, int]:
    if depth > _DEEPEST:
        raise _refused(name, line, "a structure that is too deep")
    at = _blank(text, at)
    opening = text[at : at + 1]
    if opening == "[":
        return _flow_list(text, at + 1, line, name, depth)
    if opening == "{":
        return _flow_map(text, at + 1, line, name, depth)
    if opening in ("'", '"') and opening:
        return _quoted(text, at, line, name)
    end = at
    while (
        end < len(text) and text[end] not in ",]}" and not (text[end] == ":" and text[end + 1 : end + 2] in (" ", ""))
    ):
        end += 1
    return _plain(text[at:end].strip()), end


def _blank(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t":
        at += 1
    return at


def _flow_list(text: str, at: int, line: _Line, name: str, depth: int) -> tuple[Value, int]:
    items: list[Value] = []
    while True:
        at = _blank(text, at)
        if text[at : at + 1] == "]":
            return items, at + 1
        value, at = _flow(text, at, line, name, depth + 1)
        items.append(value)
        at = _blank(text, at)
        if text[at : at + 1] == ",":
            at += 1
        elif text[at : at + 1] != "]":
            raise _refused(name, line, "a list that does not end on its line")


def _flow_map(text: str, at: int, line: _Line, name: str, depth: int) -> tuple[Value, int]:
    found: dict[str, Value] = {}
    while True:
        at = _blank(text, at)
        if text[at : at + 1] == "}":
            return found, at + 1
        key, at = _flow(text, at, line, name, depth + 1)
        at = _blank(text, at)
        if text[at : at + 1] != ":":
            raise _refused(name, line, "a map that does not end on its line")
        value, at = _flow(text, at + 1, line, name, depth + 1)
        found[str(key)] = value
        at = _blank(text, at)
        if text[at : at + 1] == ",":
            at += 1
        elif text[at : at + 1] != "}":
            raise _refused(name, line, "a map that does not end on its line")
