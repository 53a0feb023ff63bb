"""Dataclasses ↔ JSON values, for documents that are small and read from places nobody controls.

A library would do this too, but not within the start-up budget of the pod's launcher (docs/architecture.md). Reading checks
every type and raises BadInputError with the path of what is wrong; unknown fields are ignored so that a newer writer does not
break an older reader. Annotations are evaluated on Python 3.9, hence `Optional[X]`, not `X | None`, in the dataclasses.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, Union, cast

from glowplug.core.errors import BadInputError

T = TypeVar("T")


def to_json(value: object) -> Any:
    """A JSON value of a dataclass, an enum, a mapping, a sequence or a scalar."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, float):
        return round(value, 6)
    return value


def from_json(kind: type[T], value: object, where: str = "document") -> T:
    """An instance of the dataclass `kind`. Raises BadInputError (`bad-document`) naming the place."""
    return cast("T", _read(kind, value, where))


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _wrong(where: str, wanted: str, value: object) -> BadInputError:
    return BadInputError(f"{where}: {wanted} expected, not {type(value).__name__}", code="bad-document")


def _read(kind: Any, value: object, where: str) -> object:
    if kind is Any or kind is object:
        return value
    origin = typing.get_origin(kind)
    if origin is Union:
        return _read_union(kind, value, where)
    if origin is not None:
        return _read_generic(kind, origin, value, where)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _read_dataclass(kind, value, where)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        try:
            return kind(value)
        except ValueError:
            raise BadInputError(f"{where}: unknown value {value!r}", code="bad-document") from None
    return _read_scalar(kind, value, where)


def _read_union(kind: Any, value: object, where: str) -> object:
    options = typing.get_args(kind)
    if value is None and type(None) in options:
        return None
    fault: BadInputError | None = None
    for option in options:
        if option is type(None):
            continue
        try:
            return _read(option, value, where)
        except BadInputError as error:
            fault = error
    raise fault or _wrong(where, str(kind), value)


def _read_generic(kind: Any, origin: Any, value: object, where: str) -> object:
    arguments = typing.get_args(kind)
    if issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise _wrong(where, "an object", value)
        if not all(isinstance(key, str) for key in value):
            raise _wrong(where, "an object with string keys", value)
        return {key: _read(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    if issubclass(origin, Sequence):
        if not isinstance(value, (list, tuple)):
            raise _wrong(where, "a list", value)
        items = [_read(arguments[0], item, f"{where}[{place}]") for place, item in enumerate(value)]
        return tuple(items) if origin is tuple else items
    raise TypeError(f"{kind} is not a kind that documents have")


def _read_dataclass(kind: Any, value: object, where: str) -> object:
    if not isinstance(value, Mapping):
        raise _wrong(where, "an object", value)
    hints = _hints(kind)
    found: dict[str, object] = {}
    for field in dataclasses.fields(kind):
        if field.name in value:
            found[field.name] = _read(hints[field.name], value[field.name], f"{where}.{field.name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise BadInputError(f"{where}: field {field.name!r} is missing", code="bad-document")
    return kind(**found)


def _read_scalar(kind: Any, value: object, where: str) -> object:
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if kind is int and isinstance(value, bool):
        raise _wrong(where, "int", value)
    if not isinstance(value, kind):
        raise _wrong(where, getattr(kind, "__name__", str(kind)), value)
    return value
