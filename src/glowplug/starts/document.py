"""Documents that hold starts: read from anybody, so every fault of theirs has a sentence of its own.

`glowplug.start/1` is one start; `glowplug.startup/1` and `glowplug.demo/1` hold several, and are taken apart here so that what
one command printed can be handed to the next.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

from glowplug.core.documents import codec
from glowplug.core.documents.start import SCHEMA, Start
from glowplug.core.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

STARTUP: Final = "glowplug.startup/1"
DEMO: Final = "glowplug.demo/1"
_DIGITS: Final = 20
_HOLDERS: Final = (SCHEMA, STARTUP, DEMO)


def looks_like_document(head: bytes) -> bool:
    """Whether what begins like this is a JSON document of glowplug's and not a log (logs may have JSON lines too)."""
    return (head.lstrip()[:1] == b"{" and b'"glowplug.' in head) or _whole_object(head)


def _whole_object(head: bytes) -> bool:
    """A file that opens an object and goes on in the next line, as pretty-printed JSON does."""
    first, _, _ = head.lstrip().partition(b"\n")
    return first.strip() == b"{"


def parse(data: bytes, name: str) -> dict[str, Any]:
    """The JSON object in a file. Raises BadInputError (`bad-document`) that names the file and, for broken JSON, the place."""
    try:
        value = json.loads(data, parse_constant=_refuse, parse_float=_finite, parse_int=_counted)
    except json.JSONDecodeError as error:
        raise BadInputError(
            f"{name}: not JSON: {error.msg} at line {error.lineno}, column {error.colno}", code="bad-document"
        ) from None
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise BadInputError(f"{name}: not JSON: {error}", code="bad-document") from None
    if not isinstance(value, dict):
        raise BadInputError(f"{name}: a JSON object expected, not {type(value).__name__}", code="bad-document")
    if b"\\u" in data and not _is_unicode(value):
        raise BadInputError(f"{name}: text that is not Unicode (half of a surrogate pair)", code="bad-document")
    return value


def _is_unicode(value: object) -> bool:
    """Whether all text can be written again; JSON escapes can name halves of surrogate pairs."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is no JSON number")


def _finite(text: str) -> float:
    return float(text) if math.isfinite(float(text)) else _refuse(text)


def _counted(text: str) -> int:
    """No count of bytes or seconds has twenty digits; one that has would break arithmetic far from here."""
    if len(text) > _DIGITS:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def schema_of(value: Mapping[str, Any], name: str) -> str:
    """The schema that a document names. Raises BadInputError where it is no document of glowplug's."""
    schema = value.get("schema")
    if not isinstance(schema, str) or not schema.startswith("glowplug."):
        raise BadInputError(
            f'{name}: no glowplug document: "schema" is {json.dumps(schema)[:80]}',
            code="bad-document",
            hint='a document has "schema": "glowplug.<name>/1"; `glowplug startup LOG -o json` writes one',
        )
    return schema


def starts_of(value: Mapping[str, Any], name: str) -> tuple[Start, ...]:
    """All starts that a document holds, in its order. Raises BadInputError, also where it is of a kind that holds none."""
    schema = schema_of(value, name)
    if schema == SCHEMA:
        return (codec.from_json(Start, value, name),)
    if schema == STARTUP:
        return tuple(
            codec.from_json(Start, item, f"{name}: starts[{place}]")
            for place, item in enumerate(_list(value, "starts", name))
        )
    if schema == DEMO:
        rows = _list(value, "rows", name)
        return tuple(
            codec.from_json(Start, row["start"], f"{name}: rows[{place}].start")
            for place, row in enumerate(rows)
            if isinstance(row, dict) and row.get("start") is not None
        )
    family = schema.partition("/")[0]
    newer = next((known for known in _HOLDERS if known.partition("/")[0] == family), None)
    if newer:
        raise BadInputError(
            f"{name}: {schema} is newer than this glowplug, which reads {newer}",
            code="bad-document",
            hint="upgrade glowplug",
        )
    raise BadInputError(f"{name}: {schema} holds no start; {', '.join(_HOLDERS)} do", code="bad-document")


def names_of(value: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """What to call the starts of `starts_of`: the name of the file, with the scenario or number where it holds several."""
    if value.get("schema") == DEMO:
        rows = [row for row in value["rows"] if isinstance(row, dict) and row.get("start") is not None]
        return tuple(f"{name}#{row.get('scenario', place)}" for place, row in enumerate(rows, 1))
    starts = value.get("starts")
    count = len(starts) if isinstance(starts, list) and value.get("schema") == STARTUP else 1
    return (name,) if count == 1 else tuple(f"{name}#{place}" for place in range(1, count + 1))


def start_of(value: Mapping[str, Any], name: str) -> Start:
    """The one start of a document. Raises BadInputError where it holds another number of them."""
    starts = starts_of(value, name)
    if len(starts) != 1:
        raise BadInputError(f"{name}: one start expected, it holds {len(starts)}", code="bad-document")
    return starts[0]


def _list(value: Mapping[str, Any], field: str, name: str) -> list[Any]:
    items = value.get(field)
    if not isinstance(items, list):
        raise BadInputError(
            f"{name}: {field}: a list expected, not {type(items).__name__}",
            code="bad-document",
        )
    return items
