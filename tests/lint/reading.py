"""How tests of the view ask: a container or a pod in, what lint sees of it, the text that a place is."""

from __future__ import annotations

import textwrap

from glowplug.lint import objects
from glowplug.lint.view import Manifests, Workload
from glowplug.manifests.source import Place, Source
from glowplug.manifests.values import Value


def manifests(*texts: str, compute: str = "", size: int | None = None) -> Manifests:
    """All of these texts."""
    sources = [Source(f"{number}.yaml", textwrap.dedent(text)) for number, text in enumerate(texts, 1)]
    return objects.read(sources, compute=compute, weights_bytes=size)


def workload(*texts: str, compute: str = "", size: int | None = None) -> Workload:
    """The one workload in them."""
    (one,) = manifests(*texts, compute=compute, size=size).workloads
    return one


def pod(container: str, *, spec: str = "") -> str:
    """A Deployment with this container and what else its pod's spec has."""
    first, *rest = _flush(container)
    lines = [f"      - {first}", *(f"        {line}" if line else "" for line in rest)]
    further = textwrap.indent(textwrap.dedent(spec).strip("\n"), "      ")
    head = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  template:\n    spec:\n"
    return head + (further + "\n" if further else "") + "      containers:\n" + "\n".join(lines) + "\n"


def _flush(container: str) -> list[str]:
    """Its lines, where a test wrote the first ones flush and the others as deep as its own code."""
    lines = container.strip("\n").splitlines()
    deep = next((at for at, line in enumerate(lines) if line.startswith(" " * 8)), len(lines))
    return [
        *textwrap.dedent("\n".join(lines[:deep])).splitlines(),
        *textwrap.dedent("\n".join(lines[deep:])).splitlines(),
    ]


def text_at(at: Value | Place | None) -> str:
    """The source text that somebody is shown."""
    assert at is not None
    place = at if isinstance(at, Place) else at.place
    return place.text
