"""What values of options are before anybody makes sense of them: whole numbers, durations, and nothing that is empty.

Python's own `int` takes digits of every script and thousands of them; a manifest and a server take neither. An empty value is
mostly a variable of a pipeline that was not set, and what it means differs by option: it is refused on the command line.
(In a `GLOWPLUG_…` variable it counts as not set.)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from glowplug.core import units
from glowplug.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

MOST: Final = 2**31 - 1
"""The largest whole number that Kubernetes takes for a count, and engines for a length."""

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,18}")
_LONGEST_SECONDS: Final = 366 * 86400.0
_SHOWN: Final = 40
_LOOKED_AT: Final = 4096


class Whole(click.IntRange):
    """A whole number in ASCII digits, from `least` to `most`."""

    def __init__(self, least: int, most: int = MOST) -> None:
        super().__init__(least, most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number. Raises click.BadParameter."""
        if isinstance(value, str) and not _WHOLE.fullmatch(value):
            from glowplug.core import redact

            self.fail(
                f"{redact.value('', value[:_LOOKED_AT])[:_SHOWN]!r} is not a whole number from {self.min} to {self.max}.",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


def checked(rule: Callable[[str], object]) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """A callback that holds a text to a rule, which raises, and leaves it as it is: also where nobody will use it."""

    def check(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
        if value:
            rule(value)
        return value

    return check


def duration(text: str) -> float:
    """Seconds, more than none and at most a year, which clocks can count. Raises UsageError (`bad-duration`)."""
    seconds = units.parse_duration(text)
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise UsageError(
            f"{text.strip()[:_SHOWN]} is no time to wait: more than nothing, at most a year", code="bad-duration"
        )
    return seconds


def demand_some(context: click.Context) -> None:
    """No option of this call has an empty value. Raises UsageError."""
    for parameter in context.command.params:
        if context.get_parameter_source(parameter.name or "") is not ParameterSource.COMMANDLINE:
            continue
        value = context.params.get(parameter.name or "")
        if isinstance(parameter, click.Option) and (value == "" or (isinstance(value, tuple) and "" in value)):
            raise UsageError(
                f"{parameter.opts[-1]}: its value is empty", hint="leave the option out, or give it a value"
            )
