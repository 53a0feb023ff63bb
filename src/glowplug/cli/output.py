"""One writer for all commands: data on stdout, progress and hints on stderr.

A command hands over a document (a JSON value) and a function that makes text of it; `-o` decides which is printed. Colour only
on a terminal and never with NO_COLOR. What a store or an argument holds never moves a terminal's cursor: all that is printed goes
through `core/printable.py`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from glowplug.core.printable import json_text, printable

if TYPE_CHECKING:
    from collections.abc import Callable

_STYLE: Final = re.compile(r"(\x1b\[(?:0|1|(?:1;)?(?:3[0-7]|90))m)")
F = TypeVar("F", bound="Callable[..., Any]")


@dataclass(frozen=True)
class Output:
    """How this call prints. `form` is text, json or yaml."""

    form: str = "text"

    def document(self, value: Any, text: Callable[[], str], *, styled: bool = False, err: bool = False) -> None:
        """Print a JSON value by the chosen form; `text` is called for form text only.

        `styled`: it has colours of its own. `err`: text goes to stderr, where stdout holds something else.
        """
        if self.form == "json":
            click.echo(json_text(json.dumps(value, indent=2, ensure_ascii=False)))
        elif self.form == "yaml":
            import yaml

            shown = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
            if printable(shown) != shown:
                shown = yaml.safe_dump(value, sort_keys=False, allow_unicode=False)
            click.echo(shown, nl=False)
        else:
            shown = text()
            if shown:
                click.echo(_styled(shown) if styled else printable(shown), err=err, color=colour())

    def note(self, message: str) -> None:
        """A line for people, on stderr."""
        note(message)

    def warning(self, message: str) -> None:
        """A line on stderr for what does not work, to be printed last. It begins as errors do, with what it is."""
        _told(f"warning: {printable(message)}")


def _styled(text: str) -> str:
    """As `printable`, but for bold and the plain colours."""
    pieces = _STYLE.split(text)
    return "".join(piece if place % 2 else printable(piece) for place, piece in enumerate(pieces))


def note(message: str) -> None:
    """A line for people, on stderr, prefixed so that it can be told from an engine's output."""
    _told(f"glowplug: {printable(message)}")


def _told(line: str) -> None:
    """On stderr. Where nobody reads it (closed, broken, a full disk), what is asked for on stdout still comes."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            print(line, file=sys.stderr, flush=True)


def colour() -> bool | None:
    """False with NO_COLOR; None leaves it to click, which asks whether stdout is a terminal."""
    return False if os.environ.get("NO_COLOR") else None


def width(*, err: bool = False) -> int | None:
    """The columns of the terminal that reads stdout (`err`: stderr), None where none does."""
    stream = sys.stderr if err else sys.stdout
    with contextlib.suppress(OSError, ValueError):  # a closed one
        if stream is not None and stream.isatty():
            return shutil.get_terminal_size().columns
    return None


def output_option(function: F) -> F:
    """The option `-o/--output`; the command gets `output: Output`."""
    option = click.option(
        "-o",
        "--output",
        "output",
        type=click.Choice(["text", "json", "yaml"]),
        default="text",
        show_default=True,
        callback=lambda _context, _parameter, form: Output(form),
        help="Form of the data on stdout.",
    )
    return option(function)
