"""`glowplug cache diff KEY KEY`: two keys, field by field and part by part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from glowplug.cli.cache.options import Session, store_options
from glowplug.cli.examples import epilog
from glowplug.cli.output import Output, output_option
from glowplug.core.documents import codec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from glowplug.cache.why import FieldDifference, PartDifference


@click.command(
    "diff",
    epilog=epilog(
        "Exit status: 0 nothing differs; 1 something does.",
        "glowplug cache diff 3f9a1c22 81bd00e7 --store s3://bucket/cache",
    ),
)
@click.argument("first", metavar="KEY")
@click.argument("second", metavar="KEY")
@store_options("1m")
@output_option
@click.pass_context
def command(context: click.Context, first: str, second: str, session: Session, output: Output) -> None:
    """Compare two keys: which fields differ, which parts only one of them has."""
    from glowplug.cache import lookup, why

    store = session.open()
    found = []
    for digits in (first, second):
        domain, place = session.locate(store, digits)
        found.append(lookup.open_key(store, domain, place.key_digest, session.deadline).manifest)
    fields = why.compare(found[0].key, found[1].key)
    parts = why.compare_parts(found[0], found[1])
    document = {
        "schema": "glowplug.cache-diff/1",
        "keys": [manifest.key_digest for manifest in found],
        "fields": [{"field": item.field, "first": item.mine, "second": item.theirs} for item in fields],
        "parts": codec.to_json(parts),
    }
    output.document(document, lambda: _text(fields, parts))
    if fields or parts:
        context.exit(1)


def _text(fields: Sequence[FieldDifference], parts: Sequence[PartDifference]) -> str:
    from glowplug.cli.cache import table

    blocks = []
    if fields:
        rows = [
            [item.field, "-" if item.mine is None else item.mine, "-" if item.theirs is None else item.theirs]
            for item in fields
        ]
        blocks.append(table.aligned(["FIELD", "FIRST", "SECOND"], rows))
    if parts:
        blocks.append(table.aligned(["PART", "KIND", "NAME"], [[item.what, item.kind, item.name] for item in parts]))
    return "\n\n".join(blocks) or "nothing differs"
