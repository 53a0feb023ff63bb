"""How the tables of these tests are run: each row a manifest and what one rule says of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from tests.lint.checking import at, found


@dataclass(frozen=True)
class Fires:
    """A manifest in which the rule finds something: the texts it points at, in order, and words of the first message."""

    text: str
    at: tuple[str, ...]
    says: str = ""
    compute: str = "karpenter"

    def check(self, rule: str) -> None:
        """The rule finds exactly this."""
        findings = found(rule, self.text, compute=self.compute)
        assert tuple(at(one) for one in findings) == self.at, [one.message for one in findings]
        assert self.says in findings[0].message


@dataclass(frozen=True)
class Silent:
    """A manifest of which the rule says nothing."""

    text: str
    compute: str = "karpenter"

    def check(self, rule: str) -> None:
        """The rule finds nothing."""
        assert [one.message for one in found(rule, self.text, compute=self.compute)] == []


def name_of(file: str) -> str:
    """The rule that a test's file is about: `test_eager_mode.py` is about `eager-mode`."""
    return PurePath(file).stem.removeprefix("test_").replace("_", "-")
