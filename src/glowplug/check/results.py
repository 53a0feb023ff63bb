"""Answers of `glowplug check …` as data: `glowplug.check/1` (docs/schema/check-1.json is generated from these classes)."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - the generator of the schema evaluates annotations
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["pass", "warn", "fail", "unknown"]


@dataclass(frozen=True)
class Check:
    """One question and its answer. `name` is what was asked, and of what (`path:subnet-…`); `hint` says what to do, with the
    command where there is one, "" where there is nothing to do. `evidence` holds the facts it rests on."""

    name: str
    status: Status
    message: str
    hint: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Checks:
    """All answers of one call, in the order in which they are worth reading."""

    checks: tuple[Check, ...] = ()
    schema: str = "glowplug.check/1"

    @property
    def found_fault(self) -> bool:
        """Whether one of them failed or warns: the answer is no, as for lint."""
        return any(check.status in ("warn", "fail") for check in self.checks)
