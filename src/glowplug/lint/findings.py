"""A finding: a rule's problem with where it stands and whom it concerns, as every output shows it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from glowplug.lint.rule import Severity

if TYPE_CHECKING:
    from glowplug.lint.rule import Fix
    from glowplug.manifests.source import Place


@dataclass(frozen=True)
class Finding:
    """What is wrong, where. `object` is the Kubernetes object that it concerns (`Deployment default/vllm`), "" where it is none.
    Lines and columns begin at 1 and count characters; the end is behind the last one."""

    rule: str
    severity: Severity
    place: Place
    object: str
    message: str
    hint: str = ""
    fix: Fix | None = None

    @property
    def file(self) -> str:
        """The input as a person calls it."""
        return self.place.source.name

    @cached_property
    def start(self) -> tuple[int, int]:
        """Line and column of the first character."""
        return self.place.source.position(self.place.span.start)

    @cached_property
    def end(self) -> tuple[int, int]:
        """Line and column behind the last character."""
        return self.place.source.position(self.place.span.end)

    @property
    def line(self) -> int:
        """Where it begins."""
        return self.start[0]

    @property
    def column(self) -> int:
        """Where it begins."""
        return self.start[1]

    @property
    def end_line(self) -> int:
        """Where it ends."""
        return self.end[0]

    @property
    def end_column(self) -> int:
        """Behind its last character."""
        return self.end[1]

    @property
    def docs(self) -> str:
        """The rule's page, as a path in glowplug's repository; `glowplug rules NAME` shows the same."""
        return page(self.rule)

    @property
    def bad(self) -> bool:
        """Whether it makes the answer "no"."""
        return self.severity is not Severity.INFO

    def fixable(self, *, unsafe: bool) -> bool:
        """Whether `--fix` mends it; `unsafe` with `--unsafe-fixes`."""
        return self.fix is not None and (self.fix.safe or unsafe)


def page(rule: str) -> str:
    """Where a rule is documented, from the root of glowplug's repository."""
    return f"docs/rules/{rule}.md"
