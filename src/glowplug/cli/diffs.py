"""A unified diff on stdout, as `patch -p0` takes it."""

from __future__ import annotations

import difflib
import sys
from typing import TYPE_CHECKING, Final

import click

from glowplug.cli.output import colour
from glowplug.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

_COLOURS: Final = (("---", "bold"), ("+++", "bold"), ("@@", "cyan"), ("-", "red"), ("+", "green"))


def show(name: str, before: str, after: str) -> None:
    """Print the difference of two texts. To a file or a program it goes byte for byte, line ends too; to a terminal readable."""
    lines = unified(name, before, after)
    if sys.stdout is not None and sys.stdout.isatty():
        for line in lines:
            click.echo(_styled(printable(line.rstrip("\r\n"))), color=colour())
        return
    click.echo("".join(lines).encode("utf-8", "surrogatepass"), nl=False)


def unified(name: str, before: str, after: str) -> Iterator[str]:
    """The lines of the diff with their ends. A last line without one is marked as diff and patch do it."""
    for line in difflib.unified_diff(_lines(before), _lines(after), name, name):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(text: str) -> list[str]:
    """Lines as diff and patch know them: they end with LF only."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _styled(line: str) -> str:
    for begin, name in _COLOURS:
        if line.startswith(begin):
            return click.style(line, bold=True) if name == "bold" else click.style(line, fg=name)
    return line
