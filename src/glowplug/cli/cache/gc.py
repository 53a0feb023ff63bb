"""`glowplug cache gc`: keys that nobody uses, and blobs that nobody names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from glowplug.cli.cache.options import Session, store_options
from glowplug.cli.examples import epilog
from glowplug.cli.output import Output, note, output_option
from glowplug.cli.run import Duration
from glowplug.cli.values import Whole
from glowplug.core.documents import codec

if TYPE_CHECKING:
    from glowplug.cache.gc import Collected


class Age(Duration):
    """A duration whose unit must be said: 30 for days that is taken for seconds would remove everything."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds. Raises UsageError."""
        if str(value).strip().isdigit():
            raise click.UsageError(f"--older-than needs a unit: {value}d, {value}h or {value}s?", ctx)
        return super().convert(value, param, ctx)


@click.command(
    "gc",
    epilog=epilog(
        "Blobs go in two steps: a run notes those that no manifest names, and a run after --grace deletes them.",
        "glowplug cache gc --older-than 30d --keep 20 --dry-run --store s3://bucket/cache",
        "glowplug cache gc --all-domains --store s3://bucket/cache",
    ),
)
@click.option("--older-than", type=Age(), metavar="AGE", help="Remove keys unused for this long: 30d, 12h.")
@click.option(
    "--keep",
    type=Whole(0),
    metavar="N",
    help="Keep the N keys of the domain that were used last; without --older-than all others go.",
)
@click.option(
    "--grace", type=Duration(), default="7d", show_default=True, help="How long a blob without a name is kept."
)
@click.option("--dry-run", is_flag=True, help="Say what would go.")
@store_options("30m")
@output_option
def command(
    older_than: float | None,
    keep: int | None,
    grace: float,
    dry_run: bool,
    session: Session,
    output: Output,
) -> None:
    """Remove keys that nobody uses, and blobs that nobody names. Without options only the latter."""
    from glowplug.cache.gc import collect
    from glowplug.cli.cache import progress

    age = 0.0 if older_than is None and keep is not None else older_than
    with progress.progress("collecting") as counter:
        store = session.open(counter)
        found = {
            domain: collect(
                store, domain, session.deadline, older_than=age, keep=keep or 0, grace=grace, dry_run=dry_run
            )
            for domain in session.domains(store)
        }
    for done in found.values():
        for path in done.unreadable:
            note(f"warning: {path} cannot be read, so no blob of its domain is deleted")
    document = {
        "schema": "glowplug.cache-gc/1",
        "dry_run": dry_run,
        "domains": [{"domain": domain, **codec.to_json(done)} for domain, done in found.items()],
    }
    output.document(document, lambda: "\n".join(_text(domain, done, dry_run=dry_run) for domain, done in found.items()))


def _text(domain: str, done: Collected, *, dry_run: bool) -> str:
    from glowplug.cli.cache import table

    verb = "would remove" if dry_run else "removed"
    lines = [f"{verb} key {digest}" for digest in done.keys]
    lines.append(
        f"domain {domain}: {verb} {table.number(len(done.keys), 'key')}, {table.number(len(done.blobs), 'blob')} "
        f"({table.size(done.bytes)}); {table.number(len(done.noted), 'blob')} without a name noted for later"
    )
    return "\n".join(lines)
