"""`glowplug cache why`: what a start would find, and if nothing: by which fields it misses what is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from glowplug.cli.cache import handed_in
from glowplug.cli.cache.options import Session, store_options
from glowplug.cli.examples import epilog
from glowplug.cli.output import Output, output_option
from glowplug.core.documents import codec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from glowplug.cache.why import Why
    from glowplug.core.documents.fingerprint import Key
    from glowplug.store.contract import Store


@click.command(
    "why",
    epilog=epilog(
        "Exit status: 0 something is offered for exactly this key; 1 nothing is.",
        "glowplug fingerprint -o json -- vllm serve s3://bucket/model > f.json",
        "glowplug cache why --fingerprint f.json --store s3://bucket/cache",
    ),
)
@handed_in.fingerprint_option(required=True)
@store_options("1m")
@output_option
@click.pass_context
def command(context: click.Context, fingerprint: str, session: Session, output: Output) -> None:
    """Say why a start does not find what is there: nearest keys of its domain, and the fields that differ."""
    from glowplug.cache.why import why

    key, guards = handed_in.read(fingerprint, session)
    store = session.open()
    answer = why(store, key, session.deadline, guards=guards)
    refused = _guards(session, store, key, guards) if answer.reason.startswith("guard:") else []
    document = {
        "schema": "glowplug.cache-why/1",
        "key_digest": key.digest(),
        **codec.to_json(answer),
        "guards": refused,
    }
    output.document(document, lambda: _text(key, answer, refused))
    if not answer.found:
        context.exit(1)


def _guards(session: Session, store: Store, key: Key, mine: Mapping[str, str]) -> list[dict[str, Any]]:
    """Entry by entry, the guards that differ."""
    from glowplug.cache import lookup
    from glowplug.core.documents.fingerprint import conflicts

    manifest = lookup.open_key(store, key.domain, key.digest(), session.deadline).manifest
    return [
        {"entry": entry.name, "field": name, "mine": mine[name], "theirs": entry.guards[name]}
        for entry in manifest.entries()
        for name in conflicts(entry.guards, mine)
    ]


def _text(key: Key, answer: Why, refused: list[dict[str, Any]]) -> str:
    from glowplug.cli.cache import table

    digest = key.digest()[: table.DIGITS]
    blocks = [
        f"key {digest}: the store offers something for it"
        if answer.found
        else f"key {digest}: nothing is offered: {answer.reason}"
    ]
    if refused:
        rows = [[item["entry"], item["field"], item["mine"], item["theirs"]] for item in refused]
        blocks.append(table.aligned(["ENTRY", "GUARD", "THIS START", "STORE"], rows))
    for place, other in enumerate([] if answer.found else answer.neighbours):
        title = "nearest key" if place == 0 else "then key"
        rows = [
            [item.field, "-" if item.mine is None else item.mine, "-" if item.theirs is None else item.theirs]
            for item in other.differences
        ]
        blocks.append(
            f"{title} {other.key_digest[: table.DIGITS]} differs in {table.number(len(rows), 'field')}:\n"
            + table.aligned(["FIELD", "THIS START", "STORE"], rows)
        )
    return "\n\n".join(blocks)
