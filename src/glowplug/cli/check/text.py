"""Checks as a document and as text, and the exit status that they come to."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from glowplug.core.documents import codec
from glowplug.core.printable import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import click

    from glowplug.check.results import Check, Checks
    from glowplug.cli.output import Output

_ORDER: Final = ("fail", "warn", "unknown", "pass")
_WIDTH: Final = max(map(len, _ORDER))


def show(output: Output, checks: Checks, short: Mapping[str, str] | None = None) -> None:
    """Print them all in the chosen form. `short`: name → what stands in the text for a check whose words follow as an error."""
    document: dict[str, Any] = codec.to_json(checks)
    told = [
        dataclasses.replace(check, message=short[check.name], hint="") if short and check.name in short else check
        for check in checks.checks
    ]
    output.document({"schema": document.pop("schema"), **document}, lambda: _text(told))


def finish(context: click.Context, checks: Checks) -> None:
    """Exit status 1 where something fails or warns."""
    if checks.found_fault:
        context.exit(1)


def _text(checks: Sequence[Check]) -> str:
    """A line a check. A hint stands below the last of those beside each other that share it."""
    lines = []
    for place, check in enumerate(checks):
        lines.append(f"{check.status.ljust(_WIDTH)}  {one_line(check.message)}")
        following = checks[place + 1].hint if place + 1 < len(checks) else ""
        if check.hint and check.hint != following:
            lines.append(f"{' ' * _WIDTH}  hint: {one_line(check.hint)}")
    counts = [f"{number} {status}" for status in _ORDER if (number := sum(one.status == status for one in checks))]
    return "\n".join([*lines, "", ", ".join(counts)])
