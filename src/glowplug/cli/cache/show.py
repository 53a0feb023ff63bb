"""`glowplug cache show KEY`: a key's fields, its parts, and what speaks against it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from glowplug.cli.cache.options import Session, store_options
from glowplug.cli.examples import epilog
from glowplug.cli.output import Output, output_option

if TYPE_CHECKING:
    from glowplug.cache.format import Manifest


@click.command(
    "show",
    epilog=epilog(
        "",
        "glowplug cache show 3f9a1c22 --store s3://bucket/cache",
    ),
)
@click.argument("key", metavar="KEY")
@store_options("1m")
@output_option
def command(key: str, session: Session, output: Output) -> None:
    """Show a key: its fields, its parts, what speaks against it."""
    from glowplug.cache import lookup
    from glowplug.cli.cache import table

    store = session.open()
    domain, place = session.locate(store, key)
    manifest = lookup.open_key(store, domain, place.key_digest, session.deadline).manifest
    row = table.row_json(manifest, last_used(session, store, domain, place.key_digest))
    document = {"schema": table.SCHEMA, "keys": [{**row, "path": place.path}]}
    output.document(document, lambda: text(manifest, row))


def last_used(session: Session, store: Any, domain: str, key_digest: str) -> float | None:
    """When the key was used last, as far as its marker says."""
    from glowplug.cache import layout

    meta = store.head(layout.uses_path(domain, key_digest), session.deadline)
    return None if meta is None else float(meta.modified)


def text(manifest: Manifest, row: dict[str, Any]) -> str:
    """A block of fields, then the parts."""
    from glowplug.cli.cache import table

    head = [("key", manifest.key_digest)]
    head += [(name, value) for name, value in manifest.key.flat().items() if not (name in "pp dp ep" and value == "1")]
    head.append(("last used", row["last_used"] or "not known"))
    head.append(("signed", "yes" if manifest.signature else "no"))
    if manifest.blocked is not None:
        head.append(("blocked", manifest.blocked))
    head += [("rejected", f"{item.entry} by start {item.start_id}: {item.reason}") for item in manifest.rejections]
    parts = [
        [
            part.sha256[: table.DIGITS],
            part.kind,
            part.name,
            str(part.files),
            table.size(part.size),
            table.size(part.unpacked_bytes),
            part.created[:16].replace("T", " "),
            ", ".join(f"{name} {value}" for name, value in sorted(part.guards.items())),
        ]
        for part in manifest.parts
    ]
    columns = ["PART", "KIND", "NAME", "FILES", "SIZE", "UNPACKED", "CREATED", "GUARDS"]
    listed = table.aligned(columns, parts, frozenset(("FILES", "SIZE", "UNPACKED")))
    return table.pairs(head) + (f"\n\n{listed}" if listed else "\n\nno parts")
