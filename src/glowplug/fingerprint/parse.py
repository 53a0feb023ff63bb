"""F of the command line: a fingerprint somebody hands in, in one of three forms, → key and guards.

The flat form is written by hand and by other tools; the others are glowplug's own documents. A digest in such a
document is not believed: people edit a field to ask "what if".
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from glowplug.core.documents import fingerprint as document
from glowplug.core.documents import start
from glowplug.core.documents.fingerprint import GUARDS, Key, Layout
from glowplug.core.errors import BadInputError
from glowplug.engines import nested

_TEXT: Final = ("domain", "engine", "engine_version", "torch", "gpu", "model", "cache_root")
_SIZES: Final = ("tp", "pp", "dp", "ep")
_MAPS: Final = ("args", "env")
_LARGEST_SIZE: Final = 1_000_000


def parse(text: str) -> tuple[Key, dict[str, str]]:
    """Key and guards of a JSON text. Raises BadInputError (`bad-fingerprint`) naming what is missing or of the wrong
    type.
    """
    try:
        value = nested.read(text)
    except ValueError:
        raise _bad("it is not JSON") from None
    return from_json(value)


def from_json(value: object) -> tuple[Key, dict[str, str]]:
    """Key and guards of a JSON value. Raises BadInputError (`bad-fingerprint`)."""
    if not isinstance(value, Mapping):
        raise _bad("it is not an object")
    schema = value.get("schema")
    if schema == document.SCHEMA:
        return _from_fingerprint(value)
    if schema == start.SCHEMA:
        return _from_start(value)
    if schema is not None:
        raise _bad(f"{schema!r} is neither {document.SCHEMA} nor {start.SCHEMA}")
    return _from_flat(value)


def _bad(what: str) -> BadInputError:
    return BadInputError(f"not a fingerprint: {what}", code="bad-fingerprint")


def _from_fingerprint(value: Mapping[str, Any]) -> tuple[Key, dict[str, str]]:
    key, guards = value.get("key"), value.get("guards", {})
    if key is None:
        unknown = value.get("unknown")
        names = ", ".join(str(name) for name in unknown) if isinstance(unknown, (list, tuple)) else ""
        raise _bad(f"it has no key, since these fields were unknown: {names or 'not said'}")
    if not isinstance(key, Mapping) or not isinstance(guards, Mapping):
        raise _bad("key and guards are objects")
    layout = key.get("layout", {})
    if not isinstance(layout, Mapping):
        raise _bad("layout is an object")
    return _from_flat({**guards, **key, **layout})


def _from_start(value: Mapping[str, Any]) -> tuple[Key, dict[str, str]]:
    facts = value.get("fingerprint")
    if not isinstance(facts, Mapping) or not facts:
        raise _bad("the start document has no fingerprint")
    return _from_flat({name: fact.get("value") if isinstance(fact, Mapping) else fact for name, fact in facts.items()})


def _from_flat(value: Mapping[str, Any]) -> tuple[Key, dict[str, str]]:
    missing = [name for name in (*_TEXT, "tp") if value.get(name) in (None, "")]
    if missing:
        raise _bad(f"fields are missing: {', '.join(missing)}")
    wrong = [name for name in (*_TEXT, "machine") if not isinstance(value.get(name, ""), str)]
    if wrong:
        raise _bad(f"{wrong[0]} must be text")
    layout = {name: _size(name, value.get(name, 1)) for name in _SIZES}
    maps = {name: _map(name, value.get(name, {})) for name in _MAPS}
    fields = {name: _unicode(name, value[name]) for name in _TEXT}
    machine = _unicode("machine", value.get("machine") or os.uname().machine)
    key = Key(machine=machine, layout=Layout(**layout), args=maps["args"], env=maps["env"], **fields)
    return key, _guards(value)


def _size(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _LARGEST_SIZE:
        raise _bad(f"{name} must be a number of 1 or more")
    return value


def _map(name: str, value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise _bad(f"{name} must be an object of texts")
    return {
        _unicode(name, key): _unicode(f"{name}.{key}", _scalar(f"{name}.{key}", item)) for key, item in value.items()
    }


def _scalar(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return _number(name, value)
    if not isinstance(value, str):
        raise _bad(f"{name} must be text")
    return value


def _number(name: str, value: int) -> str:
    try:
        return str(value)
    except ValueError:
        raise _bad(f"{name} is too large a number") from None


def _guards(value: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in GUARDS:
        item = value.get(name)
        if item is None:
            continue
        if not isinstance(item, str):
            raise _bad(f"{name} must be text")
        found[name] = _unicode(name, item)
    return found


def _unicode(name: str, value: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise _bad(f"{name} is not Unicode") from None
    return value
