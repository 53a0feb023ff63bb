"""Where credentials stand in the manifests, so that an excerpt can leave them out: what is printed in CI is read by many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.core import redact
from glowplug.lint import places
from glowplug.manifests.source import Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from glowplug.lint.view import Container, Engine, Manifests
    from glowplug.manifests.values import Value


def hidden(manifests: Manifests) -> Iterator[Place]:
    """Places of values of variables and options whose names look like credentials, and all that a Secret holds."""
    for workload in manifests.workloads:
        for container in (*workload.containers, *workload.init_containers):
            for variable in container.environment.variables.values():
                if redact.looks_secret(variable.name):
                    yield _place(variable.at)
            yield from _of_items(container)
        for option in workload.engine.given:
            if redact.looks_secret(option.name) and not option.flag:
                yield _place(option.at)
        yield from _of_words(workload.engine)
    for secret in manifests.of_kind("Secret"):
        for field in ("data", "stringData"):
            held = secret.value.get(field)
            for _, value in held.items() if held is not None else ():
                yield value.place


def _of_items(container: Container) -> Iterator[Place]:
    listed = (container.value.get(key) for key in ("command", "args"))
    items = [item for value in listed if value is not None for item in value.elements() if not item.is_mapping]
    for at in _values([item.text for item in items]):
        yield items[at].place


def _of_words(engine: Engine) -> Iterator[Place]:
    for at in _values([word.text for word in engine.words]):
        yield _place(places.of_word(engine.words[at]))


def _values(words: Sequence[str]) -> Iterator[int]:
    """Which words are values of an option that looks like a credential, of which some take several."""
    for at, (word, shown) in enumerate(zip(words, redact.arguments(words), strict=True)):
        if shown != word and shown == redact.hashed(word):
            yield at


def _place(at: Value | Place) -> Place:
    return at if isinstance(at, Place) else at.place
