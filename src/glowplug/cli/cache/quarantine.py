"""`glowplug cache quarantine KEY`: a person's decision, for everyone who uses the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from glowplug.cli.cache.options import Session, key_file, signer, store_options
from glowplug.cli.examples import epilog
from glowplug.cli.output import Output, note, output_option

if TYPE_CHECKING:
    from pathlib import Path


@click.command(
    "quarantine",
    epilog=epilog(
        "",
        "glowplug cache quarantine 3f9a1c22 --reason 'wrong results on H200' --store s3://bucket/cache",
        "glowplug cache quarantine 3f9a1c22 --lift --store s3://bucket/cache",
    ),
)
@click.argument("key", metavar="KEY")
@click.option("--lift", is_flag=True, help="Offer it again; rejections by starts are forgotten too.")
@click.option(
    "--reason", default="by a person", show_default=True, metavar="TEXT", help="Why, for those who find it blocked."
)
@key_file("--sign-key", "Sign the changed manifest (else it is unsigned).")
@store_options("1m")
@output_option
def command(
    key: str,
    lift: bool,
    reason: str,
    sign_key: Path | None,
    session: Session,
    output: Output,
) -> None:
    """Block a key: nothing of it is offered, and nothing more is published for it, until --lift."""
    from glowplug.cache import lookup, publish
    from glowplug.cache.sign import SameHand
    from glowplug.cli.cache import show, table

    own = signer(sign_key)
    sign = SameHand(own) if own else None
    store = session.open()
    domain, place = session.locate(store, key)
    signed = bool(lookup.open_key(store, domain, place.key_digest, session.deadline).manifest.signature)
    if lift:
        changed = publish.unblock(store, place.path, session.deadline, sign=sign)
    else:
        changed = publish.block(store, place.path, reason, session.deadline, sign=sign)
    if changed is None:
        note("it was not blocked" if lift else "it was blocked already")
    elif signed and not changed.signature:
        note(
            "the signature is gone, starts with --verify-key restore nothing of it: give the key that signed it as --sign-key"
        )
    manifest = lookup.open_key(store, domain, place.key_digest, session.deadline).manifest
    row = table.row_json(manifest, show.last_used(session, store, domain, place.key_digest))
    state = "offered again" if manifest.blocked is None else f"blocked: {manifest.blocked}"
    output.document(
        {"schema": table.SCHEMA, "keys": [row]}, lambda: f"key {place.key_digest[: table.DIGITS]} is {state}"
    )
