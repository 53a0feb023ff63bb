"""`glowplug cache rm KEY…`: keys that are no longer wanted."""

from __future__ import annotations

import click

from glowplug.cli.cache.options import Session, store_options
from glowplug.cli.examples import epilog
from glowplug.cli.output import Output, note, output_option


@click.command(
    "rm",
    epilog=epilog(
        "Their blobs go with a later `glowplug cache gc`.",
        "glowplug cache rm 3f9a1c22 --dry-run --store s3://bucket/cache",
    ),
)
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Say what would go.")
@store_options("1m")
@output_option
def command(
    keys: tuple[str, ...],
    dry_run: bool,
    session: Session,
    output: Output,
) -> None:
    """Remove keys. All of them are looked up before the first is removed."""
    from glowplug.cache import gc

    store = session.open()
    found = [session.locate(store, digits)[1] for digits in keys]
    places = list({place.path: place for place in found}.values())
    for place in places:
        if not dry_run:
            gc.remove(store, place.path, session.deadline)
    verb = "would remove" if dry_run else "removed"
    document = {
        "schema": "glowplug.cache-rm/1",
        "dry_run": dry_run,
        "keys": [place.key_digest for place in places],
    }
    output.document(document, lambda: "\n".join(f"{verb} key {place.key_digest}" for place in places))
    if not dry_run:
        note("blobs that no other key names go with `glowplug cache gc`")
