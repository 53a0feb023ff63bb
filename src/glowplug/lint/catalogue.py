"""The rules as the document `glowplug.rules/1`, and the dataclasses from which docs/schema/rules-1.json is generated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from glowplug.core.documents import codec
from glowplug.lint import documentation
from glowplug.lint.findings import page

if TYPE_CHECKING:
    from collections.abc import Iterable

    from glowplug.lint.rule import Rule


@dataclass(frozen=True)
class Described:
    """A rule with its documentation, Markdown. `docs` is a path in glowplug's repository."""

    name: str
    area: str
    severity: Literal["error", "warning", "info"]
    summary: str
    what: str
    why: str
    example: str
    use_instead: str
    fix_safety: str
    source: str
    docs: str


@dataclass(frozen=True)
class Document:
    """Rules of `glowplug lint`."""

    rules: tuple[Described, ...]
    schema: str = "glowplug.rules/1"


def to_document(rules: Iterable[Rule]) -> dict[str, Any]:
    """The JSON value, `schema` first."""
    document: dict[str, Any] = codec.to_json(Document(tuple(_described(one) for one in rules)))
    return {"schema": document.pop("schema"), **document}


def _described(rule: Rule) -> Described:
    read = documentation.read(rule)
    what, why, example, use_instead, fix_safety, source = (read.sections[name] for name in documentation.SECTIONS)
    return Described(
        name=rule.name,
        area=rule.area,
        severity=rule.severity.value,
        summary=read.summary,
        what=what,
        why=why,
        example=example,
        use_instead=use_instead,
        fix_safety=fix_safety,
        source=source,
        docs=page(rule.name),
    )
