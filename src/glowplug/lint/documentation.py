"""The documentation of a rule, read from its module's docstring, which has exactly these sections in this order.

`glowplug rules NAME`, `docs/rules/` and SARIF's help are made of it, and its examples are tests: `Example` says which text the
finding points at, `Use instead` is what the rule is content with.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from glowplug.lint.rule import Rule

SECTIONS: Final = ("What it does", "Why is this bad", "Example", "Use instead", "Fix safety", "Source")
DEFAULT_COMPUTE: Final = "karpenter"

_HEADING: Final = re.compile(r"^## (.+?)\s*$", re.MULTILINE)
_BLOCK: Final = re.compile(r"^```yaml\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
_FINDS: Final = re.compile(r"^Finds (`+) ?(.+?) ?\1(?: in line (\d+))?\.\s*$", re.MULTILINE)
_LINTED: Final = re.compile(r"^Linted with `?(.+?)`?\.\s*$", re.MULTILINE)
_OPTION: Final = re.compile(r"--(compute|size)[ =](\S+)")


@dataclass(frozen=True)
class Example:
    """A manifest, and how it is linted. `finds` is the text that the first finding points at ("" where it shall find nothing),
    `line` where that stands, None where it is the only one of that text. `size` as written, "" for none."""

    text: str
    finds: str = ""
    line: int | None = None
    compute: str = DEFAULT_COMPUTE
    size: str = ""


@dataclass(frozen=True)
class Documentation:
    """The sections of a rule, Markdown. `example` and `instead` are also in their sections, as written."""

    summary: str
    sections: dict[str, str]
    example: Example
    instead: Example

    @property
    def fix_safety(self) -> str:
        """What `--fix` does."""
        return self.sections["Fix safety"]


def read(rule: Rule) -> Documentation:
    """The documentation of a rule. Raises ValueError with the rule's name for one that has not this form."""
    text = inspect.cleandoc(rule.documentation or "")
    pieces = _HEADING.split(text)
    summary = pieces[0].strip()
    sections = {name: body.strip() for name, body in zip(pieces[1::2], pieces[2::2], strict=True)}
    if tuple(sections) != SECTIONS or len(pieces[1::2]) != len(SECTIONS):
        raise ValueError(f"{rule.name}: sections are {', '.join(pieces[1::2])}, not {', '.join(SECTIONS)}")
    if "\n" in summary or not summary.endswith("."):
        raise ValueError(f"{rule.name}: the first line is no sentence: {summary!r}")
    empty = [name for name, body in sections.items() if not body]
    if empty:
        raise ValueError(f"{rule.name}: nothing stands under {', '.join(empty)}")
    example = _example(rule.name, sections["Example"], None)
    if not example.finds:
        raise ValueError(f"{rule.name}: nothing says what the example finds: Finds `text`.")
    return Documentation(summary, sections, example, _example(rule.name, sections["Use instead"], example))


def markdown(documentation: Documentation) -> str:
    """All of it as written, without a title."""
    parts = [documentation.summary, *(f"## {name}\n\n{body}" for name, body in documentation.sections.items())]
    return "\n\n".join(parts) + "\n"


def _example(rule: str, section: str, first: Example | None) -> Example:
    """The block of a section. The good one is linted as the bad one, unless something else stands under it."""
    blocks = _BLOCK.findall(section)
    if len(blocks) != 1:
        raise ValueError(f"{rule}: {len(blocks)} blocks of yaml where one belongs")
    compute, size = (first.compute, first.size) if first else (DEFAULT_COMPUTE, "")
    linted = _LINTED.search(section)
    if linted:
        options = dict(_OPTION.findall(linted[1].replace("`", " ")))
        if not options:
            raise ValueError(f"{rule}: {linted[0]!r} names neither --compute nor --size")
        compute, size = options.get("compute", compute), options.get("size", size)
    finds = _FINDS.search(section)
    return Example(
        text=blocks[0],
        finds=finds[2] if finds else "",
        line=int(finds[3]) if finds and finds[3] else None,
        compute=compute,
        size=size,
    )
