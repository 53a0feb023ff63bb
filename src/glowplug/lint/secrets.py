"""Where credentials stand in the manifests, so that an excerpt can leave them out: what is printed in CI is read by many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.core import redact
from glowplug.manifests.source import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Manifests
    from glowplug.manifests.values import Value


def places(manifests: Manifests) -> Iterator[Place]:
    """Values of variables and options whose names look like credentials, and all that a Secret holds."""
    for workload in manifests.workloads:
        for container in (*workload.containers, *workload.init_containers):
            for variable in container.environment.variables.values():
                if redact.looks_secret(variable.name):
                    yield _place(variable.at)
        for option in workload.engine.options.values():
            if redact.looks_secret(option.name) and not option.flag:
                yield _place(option.at)
    for secret in manifests.of_kind("Secret"):
        for field in ("data", "stringData"):
            held = secret.value.get(field)
            for _, value in held.items() if held is not None else ():
                yield value.place


def _place(at: Value | Place) -> Place:
    return at if isinstance(at, Place) else at.place
