"""`glowplug report DOC…`: glowplug's documents as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from glowplug.cli.streams import standard_input
from glowplug.core import atomic
from glowplug.core.errors import BadInputError, UsageError

LARGEST: Final = 1 << 28


@click.command(
    "report",
    epilog="Examples:\n\n"
    "  glowplug report build/demo/report.json --out report.html\n\n"
    "  glowplug startup vllm.log -o json | glowplug report - --out start.html",
)
@click.argument("documents", metavar="DOC...", nargs=-1, required=True)
@click.option("--out", metavar="FILE", default="-", help="The page; - (the default) is stdout.")
@click.option("--title", help="The title of the page.")
def command(documents: tuple[str, ...], out: str, title: str | None) -> None:
    """Make one self-contained HTML page of any documents of glowplug's.

    DOC is a JSON document that a command printed with `-o json` (- is stdin): start/1, startup/1, demo/1 are drawn, others
    are shown as tables of their fields.
    """
    if documents.count("-") > 1:
        raise UsageError("stdin (-) can be read once only")
    from glowplug import report

    page = report.page([_read(source) for source in documents], **({"title": title} if title else {}))
    if out == "-":
        click.echo(page, nl=False)
        return
    target = Path(out)
    if not target.parent.is_dir():
        raise BadInputError(f"{target.parent}: no such directory")
    atomic.write_bytes(target, page.encode("utf-8"))


def _read(source: str) -> dict[str, Any]:
    from glowplug.starts import document

    if source == "-":
        data, name = standard_input().read(LARGEST), "stdin"
    else:
        with Path(source).open("rb") as stream:
            data, name = stream.read(LARGEST), source
    value = document.parse(data, name)
    document.schema_of(value, name)
    return value
