"""YAML as a person would have written it: key order kept, comments where a value has a reason, quotes only where needed.

PyYAML's own emitter sorts, knows no comments, and quotes by YAML 1.1 alone. What is printed here is read by at least two
parsers that disagree (PyYAML; kubectl's sigs.k8s.io/yaml, for which `y`, `1e3` and `0o17` are no strings), so a string stays
plain only when both read a string. Whether a plain scalar is possible at all is PyYAML's analysis, not a rule of ours. A
comment can never become data: its reason is flattened to printable words first. Characters that no argument, variable or name
of Kubernetes can have (NUL and its like, half of a surrogate pair, a byte order mark) are refused, whoever gave them.
"""

from __future__ import annotations

import functools
import io
import json
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml
from yaml.emitter import Emitter

from glowplug.core.errors import BadInputError
from glowplug.core.printable import json_text, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

_COLUMNS: Final = 100
_NARROWEST: Final = 40
_STEP: Final = "  "
_LONGEST_SIMPLE_KEY: Final = 120
# What some YAML reader takes for a number, a boolean, null, a date, a merge key or a default value.
_NO_STRING: Final = re.compile(
    r"[-+]?[0-9_]*\.?[0-9_]*(?:[eE][-+]?[0-9_]*)?|[-+]?0[xXoObB][0-9a-fA-F_]*|[-+]?[0-9][0-9_]*(?::[0-9_.]+)+"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*|y|n|yes|no|on|off|true|false|null|~|<<|=|[-+]?\.(?:inf|nan)|",
    re.IGNORECASE,
)
# Beyond core/printable, in comments: a byte order mark, and what YAML readers refuse.
_REFUSED: Final = re.compile("[\ufeff\ufffe\uffff]")
_UNWRITABLE: Final = re.compile("[\x00-\x08\x0b-\x1f\ufeff\ufffe\uffff\ud800-\udfff]")
# Line ends for YAML 1.1 and none for YAML 1.2: in a block readers disagree where its lines end.
_LINE_ENDS: Final = re.compile("[\x85\u2028\u2029]")


@dataclass(frozen=True)
class Noted:
    """A value with the reason for it, printed as a comment above its key or list item. An empty reason prints nothing."""

    value: Any
    why: str


def noted(value: Any, why: str) -> Noted:
    """A value with its reason."""
    return Noted(value, why)


def plain(value: Any) -> Any:
    """The same value without notes: what a parser gives back, and what JSON prints."""
    if isinstance(value, Noted):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    return value


def stream(documents: Sequence[Mapping[str, Any]], header: str = "") -> str:
    """Block YAML of several documents, `---` between them. `header` is a comment above all; each of its lines stays a line.

    Raises BadInputError for a key or text with characters that no YAML reader takes, TypeError for what is no JSON.
    """
    head = "".join(f"# {_words(line)}".rstrip() + "\n" for line in header.splitlines())
    return head + "---\n".join("".join(f"{line}\n" for line in _lines(document, "")) for document in documents)


def block(value: Any, indent: str, lists: str = _STEP) -> list[str]:
    """The lines of a mapping or list that has something in it, each with its indentation, to stand in a text that is there.
    `lists` stands before the dashes of a list below a key: some write none.

    Raises what `stream` raises.
    """
    return list(_lines(value, indent, lists))


def scalar(value: Any, indent: str) -> list[str]:
    """A scalar or an empty collection: what stands behind its key, and for a text of several lines those below, indented.

    Raises what `stream` raises.
    """
    return _scalar(_bare(value), indent)


def _lines(value: Any, indent: str, lists: str = _STEP) -> Iterator[str]:
    """The lines of a value that stands on lines of its own."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _comment(item, indent)
            yield from _pair(key, _bare(item), indent, lists)
    elif _is_list(value) and value:
        for item in value:
            yield from _comment(item, indent)
            yield from _item(_bare(item), indent, lists)
    else:
        first, *rest = _scalar(value, indent)
        yield indent + first
        yield from rest


def _pair(key: str, item: Any, indent: str, lists: str) -> Iterator[str]:
    name = _string(key)
    if len(name) > _LONGEST_SIMPLE_KEY:
        yield f"{indent}? {name}"
        name = ""
    if _is_block(item):
        yield f"{indent}{name}:"
        yield from _lines(item, indent + (lists if _is_list(item) else _STEP), lists)
        return
    first, *rest = _scalar(item, indent + _STEP)
    yield f"{indent}{name}: {first}"
    yield from rest


def _item(item: Any, indent: str, lists: str) -> Iterator[str]:
    if not _is_block(item):
        first, *rest = _scalar(item, indent + _STEP)
        yield f"{indent}- {first}"
        yield from rest
        return
    dash = f"{indent}- "
    for line in _lines(item, indent + _STEP, lists):
        # Comments of the first key stay above the dash, where a person would put them.
        if dash and line.lstrip().startswith("#"):
            yield line[len(_STEP) :]
            continue
        yield dash + line[len(indent) + len(_STEP) :] if dash else line
        dash = ""


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_block(value: Any) -> bool:
    return bool(value) and (isinstance(value, Mapping) or _is_list(value))


def _bare(value: Any) -> Any:
    while isinstance(value, Noted):
        value = value.value
    return value


def _comment(value: Any, indent: str) -> Iterator[str]:
    while isinstance(value, Noted):
        width = max(_COLUMNS - len(indent) - 2, _NARROWEST)
        text = _words(value.why)
        for line in textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False):
            yield f"{indent}# {line}"
        value = value.value


def _words(text: str) -> str:
    return _REFUSED.sub("", printable(" ".join(text.split())))


def _scalar(value: Any, indent: str) -> list[str]:
    """A value on the line of its key; further lines for a text of several lines, indented by `indent`."""
    if isinstance(value, str):
        return _text(value, indent)
    if value is None:
        return ["null"]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, int):
        return [str(value)]
    if isinstance(value, float):
        return [_float(value)]
    if isinstance(value, Mapping):
        return ["{}"]
    if _is_list(value):
        return ["[]"]
    raise TypeError(f"no YAML for {type(value).__name__}")


def _float(value: float) -> str:
    if math.isfinite(value):
        mantissa, e, exponent = repr(value).partition("e")
        return f"{mantissa if '.' in mantissa or not e else mantissa + '.0'}{e}{exponent}"
    return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"


def _text(value: str, indent: str) -> list[str]:
    _demand_writable(value)
    if "\n" not in value.rstrip("\n") or not _block_is_safe(value):
        return [_string(value)]
    sign = "|" if value.endswith("\n") else "|-"
    body = value.removesuffix("\n").split("\n")
    return [sign, *((indent + line) if line else "" for line in body)]


def _block_is_safe(value: str) -> bool:
    analysis = _EMITTER.analyze_scalar(value)
    blank_end = value.endswith("\n\n")
    plain_lines = printable(value) == value and not _LINE_ENDS.search(value) and "\t" not in value
    return analysis.allow_block and plain_lines and not blank_end and value[0] not in " \t\n"


def _string(value: str) -> str:
    """One line: plain where every reader takes it for this string, else quoted the way that needs fewer escapes."""
    _demand_writable(value)
    if _may_be_plain(value):
        return value
    escaped = json_text(json.dumps(value, ensure_ascii=False))
    escapes = "\\" in escaped
    single = escapes and "\\" not in escaped.replace('\\"', "").replace("\\\\", "")
    return "'" + value.replace("'", "''") + "'" if single else escaped


def _demand_writable(value: str) -> None:
    found = _UNWRITABLE.search(value)
    if found:
        raise BadInputError(
            f"a text for a manifest holds U+{ord(found.group()):04X}, which no YAML reader takes",
            hint="leave the character out: control characters, a byte order mark or bytes that are no UTF-8",
        )


@functools.lru_cache(maxsize=4096)
def _may_be_plain(value: str) -> bool:
    if not value or len(value) > 2**16 or _NO_STRING.fullmatch(value):
        return False
    analysis = _EMITTER.analyze_scalar(value)
    if analysis.multiline or not analysis.allow_block_plain or printable(value) != value:
        return False
    tag = _RESOLVER.resolve(yaml.ScalarNode, value, (True, False))  # type: ignore[no-untyped-call]
    return bool(tag == "tag:yaml.org,2002:str")


_EMITTER: Final = Emitter(io.StringIO(), allow_unicode=True)
_RESOLVER: Final = yaml.resolver.Resolver()
