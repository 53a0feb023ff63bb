"""`glowplug rules [NAME]`: the rules of lint, or one of them explained, from the documentation in the rule's own file."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

import click

from glowplug.cli import markdown
from glowplug.cli.examples import epilog
from glowplug.cli.output import Output, output_option, width

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from glowplug.lint.rule import Rule


_LEAST: Final = 30


@click.command(
    "rules",
    epilog=epilog("", "glowplug rules", "glowplug rules eager-mode", "glowplug rules -o json"),
)
@click.argument("name", required=False, metavar="[NAME]")
@output_option
def command(name: str | None, output: Output) -> None:
    """List the rules of `glowplug lint` by area, or explain one: what it finds, why that is bad, what to use instead, what --fix
    does."""
    from glowplug.lint import catalogue, registry

    rules = (registry.rule(name),) if name is not None else tuple(registry.RULES.values())
    text = _one if name is not None else _table
    value = catalogue.to_document(rules) if output.form != "text" else None
    output.document(value, lambda: text(rules), styled=True)


def _one(rules: Sequence[Rule]) -> str:
    from glowplug.lint import documentation

    rule = rules[0]
    read = documentation.read(rule)
    head = f"# {rule.name}\n\n{rule.severity.value}, {rule.area}\n\n"
    return markdown.terminal(head + documentation.markdown(read))


def _table(rules: Sequence[Rule]) -> str:
    from glowplug.lint.rule import AREAS

    lines: list[str] = []
    for area in AREAS:
        lines += ["", *_area(area, [one for one in rules if one.area == area])]
    return "\n".join([*lines[1:], "", "`glowplug rules NAME` explains one."])


def _area(area: str, rules: Sequence[Rule]) -> Iterator[str]:
    from glowplug.lint import documentation

    yield click.style(area, bold=True)
    longest = max((len(one.name) for one in rules), default=0)
    columns = width()
    for one in rules:
        head = f"  {one.name.ljust(longest)}  {one.severity.value.ljust(7)}  "
        yield from _row(head, documentation.read(one).summary, columns)


def _row(head: str, summary: str, columns: int | None) -> Iterator[str]:
    """One line where no terminal reads; in a terminal the summary below itself, or where that is too narrow below the name."""
    if columns is None:
        yield head + summary
    elif columns - len(head) >= _LEAST:
        lines = textwrap.wrap(summary, columns - len(head), break_long_words=False, break_on_hyphens=False)
        yield from (f"{' ' * len(head) if number else head}{line}" for number, line in enumerate(lines))
    else:
        yield head.rstrip()
        yield from textwrap.wrap(
            summary,
            max(columns, _LEAST),
            initial_indent="    ",
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
