"""`glowplug cache copy SRC DST`: keys from one store into another, verified on the way."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from glowplug.cli.cache.options import Session, key_file, open_url, policy, signer, store_options
from glowplug.cli.examples import epilog
from glowplug.cli.output import Output, note, output_option
from glowplug.core.documents import codec
from glowplug.core.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from glowplug.cache.copy import Copied

_PARTLY = 5
_INTEGRITY = 4
_NO = 1


@click.command(
    "copy",
    epilog=epilog(
        "Exit status: 0 done; 5 some keys were left out, 4 or 1 all were, for damage or missing blobs.",
        "glowplug cache copy s3://staging/cache s3://production/cache --key 3f9a1c22 --sign-key production.pem",
        "glowplug cache copy s3://bucket/cache /mnt/usb/cache --all-domains --dry-run",
    ),
)
@click.argument("stores", metavar="SRC DST", nargs=-1)
@click.option("--key", metavar="KEY", help="Only this key.")
@click.option("--dry-run", is_flag=True, help="Say what would be copied.")
@key_file("--verify-key", "Copy only what this key signed.")
@key_file("--sign-key", "Sign what is written to DST (else it is unsigned).")
@store_options("30m")
@output_option
@click.pass_context
def command(
    context: click.Context,
    stores: tuple[str, ...],
    key: str | None,
    dry_run: bool,
    verify_key: Path | None,
    sign_key: Path | None,
    session: Session,
    output: Output,
) -> None:
    """Copy keys into another store. With DST alone, SRC is --store.

    What DST has is kept; damaged keys are left out and named. Signatures are made anew or dropped.
    """
    source_url, target_url = _addresses(stores, session)
    from glowplug.cache.copy import Copied, copy
    from glowplug.cli.cache import progress

    sign, signed = signer(sign_key), policy(verify_key)
    with progress.progress("copying") as counter:
        source = open_url(source_url, counter)
        target = open_url(target_url)
        if source.url == target.url:
            raise click.UsageError("SRC and DST are the same store", context)
        total = Copied()
        located = session.locate(source, key) if key is not None else None
        targets = [(located[0], located[1].key_digest)] if located else [(name, "") for name in session.domains(source)]
        for domain, digits in targets:
            found = copy(
                source, target, domain, session.deadline, digits=digits, sign=sign, policy=signed, dry_run=dry_run
            )
            total = _plus(total, found)
    for path, reason in total.left_out:
        note(f"left out: {path}: {reason}")
    document = {
        "schema": "glowplug.cache-copy/1",
        "source": source.url,
        "target": target.url,
        "dry_run": dry_run,
        **codec.to_json(total),
        "left_out": [{"path": path, "reason": reason} for path, reason in total.left_out],
    }
    output.document(document, lambda: _text(total, dry_run=dry_run))
    context.exit(_status(total))


def _addresses(stores: tuple[str, ...], session: Session) -> tuple[str, str]:
    if len(stores) == 2:
        return stores[0], stores[1]
    if len(stores) == 1 and session.url:
        return session.url, stores[0]
    raise UsageError("give SRC and DST, the addresses of two stores")


def _plus(one: Copied, other: Copied) -> Copied:
    sums: dict[str, Any] = {
        item.name: getattr(one, item.name) + getattr(other, item.name) for item in dataclasses.fields(one)
    }
    return dataclasses.replace(one, **sums)


def _status(total: Copied) -> int:
    if not total.left_out:
        return 0
    if total.keys or total.unchanged:
        return _PARTLY
    return _NO if all(reason in ("blob-missing", "newer-format") for _, reason in total.left_out) else _INTEGRITY


def _text(total: Copied, *, dry_run: bool) -> str:
    from glowplug.cli.cache import table

    verb = "would copy" if dry_run else "copied"
    return (
        f"{verb} {table.number(len(total.keys), 'key')} ({table.number(total.blobs, 'blob')}, {table.size(total.bytes)}); "
        f"{len(total.unchanged)} unchanged, {len(total.left_out)} left out"
    )
