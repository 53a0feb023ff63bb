"""Whether a pod has the shape that Kubernetes demands, as far as an edit reads it or writes into it.

What is of another shape was meant otherwise than it stands there: an edit would have to overwrite it, or to guess.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.manifests.values import Value

_CONTAINERS: Final = ("initContainers", "containers")
_OF_A_CONTAINER: Final = {"env": ("name",), "envFrom": (), "volumeMounts": ("name", "mountPath")}
_WORDS: Final = ("command", "args")


def faults(template: Value, spec: Value, container: Value) -> Iterator[str]:
    """In a phrase each: lists that are none, elements that are no mappings, elements without a name."""
    for path in (("metadata",), ("metadata", "labels"), ("metadata", "annotations")):
        yield from _no_mapping(template, path)
    yield from _no_mapping(spec, ("labels",))
    yield from _of_list(spec, "volumes", ("name",))
    engine = container.node
    for key in _CONTAINERS:
        yield from _of_list(spec, key, ())
        for one in _elements(spec, key):
            yield from _of_container(one)
    if not any(one.node is engine for key in _CONTAINERS for one in _elements(spec, key)):
        yield from _of_container(container)


def _of_container(container: Value) -> Iterator[str]:
    for key, demanded in _OF_A_CONTAINER.items():
        yield from _of_list(container, key, demanded)
    for key in _WORDS:
        yield from _no_list(container, key)
        yield from (
            f"an element of `{key}` is no string"
            for one in _elements(container, key)
            if one.is_mapping or one.is_sequence
        )


def _of_list(owner: Value, key: str, demanded: tuple[str, ...]) -> Iterator[str]:
    yield from _no_list(owner, key)
    for one in _elements(owner, key):
        if not one.is_mapping:
            yield f"an element of `{key}` is no mapping"
        for name in demanded:
            found = one.get(name)
            if one.is_mapping and (found is None or not found.text):
                yield f"an element of `{key}` has no `{name}`"


def _no_list(owner: Value, key: str) -> Iterator[str]:
    found = owner.get(key)
    if found is not None and found.data is not None and not found.is_sequence:
        yield f"`{key}` is no list"


def _no_mapping(owner: Value, path: tuple[str, ...]) -> Iterator[str]:
    found = owner.get(*path)
    if found is not None and found.data is not None and not found.is_mapping:
        yield f"`{path[-1]}` is no mapping"


def _elements(owner: Value, key: str) -> tuple[Value, ...]:
    found = owner.get(key)
    return tuple(found.elements()) if found is not None else ()
