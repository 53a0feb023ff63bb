"""What a rule is: a name that is never reused, a severity, a function from what was read to problems, and documentation.

The documentation is the docstring of the rule's module, in sections; `glowplug rules NAME`, `docs/rules/` and SARIF's help
are made of it, and its two examples are tests (`tests/lint/test_examples.py`)."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from glowplug.lint.view import Manifests, Node, Workload
    from glowplug.manifests.edit import Operation
    from glowplug.manifests.source import Place
    from glowplug.manifests.values import Value

AREAS: Final = ("compile", "streaming", "kubernetes")


class Severity(enum.Enum):
    """How bad it is. Errors and warnings make `lint` exit 1."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True)
class Fix:
    """A way to mend a problem. `safe`: the pod means the same or what was plainly meant; an unsafe one may change what runs.
    `title` is in the imperative: "set AWS_REGION"."""

    title: str
    operations: tuple[Operation, ...]
    safe: bool = True


@dataclass(frozen=True)
class Problem:
    """What a rule found. `at` is the very value meant: a value, a key, or a place inside a scalar. `message` is one sentence
    without a full stop and says the values; `hint` says what to do in the imperative, "" where the message does."""

    at: Value | Place
    message: str
    hint: str = ""
    fix: Fix | None = None


@dataclass(frozen=True)
class Rule:
    """One rule. Exactly one of the checks is set: `workload` is asked for each pod with an engine, `node` for each NodePool with
    its node class, `everything` once for all that was given."""

    name: str
    area: str
    severity: Severity
    documentation: str
    workload: Callable[[Workload], Iterator[Problem]] | None = None
    node: Callable[[Node], Iterator[Problem]] | None = None
    everything: Callable[[Manifests], Iterator[Problem]] | None = None
