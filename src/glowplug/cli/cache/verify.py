"""`glowplug cache verify`: manifests against their digests, blobs by presence and size, or by every byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from glowplug.cli.cache.options import Session, key_file, policy, store_options
from glowplug.cli.examples import epilog
from glowplug.cli.output import Output, output_option
from glowplug.core.documents import codec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from glowplug.cache.format import Manifest
    from glowplug.cache.verify import Verified
    from glowplug.store.contract import Store

    Policy = Callable[[Manifest], None]


@click.command(
    "verify",
    epilog=epilog(
        "Exit status: 0 all is well; 1 a blob is missing, or no such key; 4 something is not what its digest says.",
        "glowplug cache verify --store s3://bucket/cache",
        "glowplug cache verify 3f9a1c22 --deep --store s3://bucket/cache",
    ),
)
@click.argument("key", metavar="[KEY]", required=False)
@click.option("--deep", is_flag=True, help="Fetch and unpack every part, byte for byte.")
@key_file("--verify-key", "Every manifest must be signed by this key.")
@store_options("30m")
@output_option
def command(
    key: str | None,
    deep: bool,
    verify_key: Path | None,
    session: Session,
    output: Output,
) -> None:
    """Check one key or all: manifests and the presence and size of their blobs, with --deep every byte."""
    from glowplug.cli.cache import progress

    signed = policy(verify_key)
    with progress.progress("verifying") as counter:
        total = _verify(session, session.open(counter), key, signed, deep=deep)
    document = {"schema": "glowplug.cache-verify/1", "deep": deep, **codec.to_json(total)}
    output.document(document, lambda: _text(total, deep=deep))
    error = total.error()
    if error is not None:
        raise error


def _verify(session: Session, store: Store, key: str | None, signed: Policy | None, *, deep: bool) -> Verified:
    from glowplug.cache.verify import Verified, verify

    if key is not None:
        domain, place = session.locate(store, key)
        targets = [(domain, place.key_digest)]
    else:
        targets = [(domain, "") for domain in session.domains(store)]
    total = Verified()
    for domain, digits in targets:
        found = verify(
            store,
            domain,
            session.deadline,
            digits=digits,
            deep=deep,
            policy=signed,
        )
        total = Verified(
            total.keys + found.keys,
            total.parts + found.parts,
            total.bytes + found.bytes,
            (*total.faults, *found.faults),
        )
    return total


def _text(total: Verified, *, deep: bool) -> str:
    from glowplug.cli.cache import table

    how = "every byte read" if deep else "manifests read, blobs listed"
    summary = (
        f"{table.number(total.keys, 'key')}, {table.number(total.parts, 'part')}, {table.size(total.bytes)} ({how}): "
        f"{table.number(len(total.faults), 'fault') if total.faults else 'all well'}"
    )
    rows = [[fault.key_digest[: table.DIGITS], fault.part or "-", fault.code, fault.message] for fault in total.faults]
    listed = table.aligned(["KEY", "PART", "CODE", "WHAT"], rows)
    return f"{listed}\n\n{summary}" if listed else summary
