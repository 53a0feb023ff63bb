"""`glowplug cache ls`: which keys a store has, those used last first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from glowplug.cli.cache.options import Session, store_options
from glowplug.cli.examples import epilog
from glowplug.cli.output import Output, note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from glowplug.cache.format import Manifest
    from glowplug.cache.listing import Row
    from glowplug.store.contract import Store

_GPU_WIDTH: Final = 32
_OTHERS: Final = 5


@click.command(
    "ls",
    epilog=epilog(
        "",
        "glowplug cache ls --store s3://bucket/cache",
        "glowplug cache ls --gpu h100 --model llama -o wide",
        "glowplug cache ls --all-domains -o json | jq -r .keys[].key_digest",
    ),
)
@store_options("1m")
@click.option("--gpu", metavar="TEXT", help="Only keys with this in the name of their GPU (case does not matter).")
@click.option("--model", metavar="TEXT", help="Only keys with this in the name of their model.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "wide", "json", "yaml"]),
    default="text",
    show_default=True,
    help="Form of the data on stdout.",
)
def command(session: Session, gpu: str | None, model: str | None, output: str) -> None:
    """List the keys of a store. A store without keys is no error."""
    from glowplug.cache import listing
    from glowplug.cli.cache import table

    store = session.open()
    rows = [row for domain in session.domains(store) for row in listing.rows(store, domain, session.deadline)]
    rows = [row for row in rows if row.manifest is None or _wanted(row.manifest, gpu, model)]
    rows.sort(key=lambda row: (-row.last_used, row.place.path))
    for row in rows:
        if row.manifest is None:
            note(f"warning: {row.place.path} cannot be read: {row.fault}")
    if output in ("json", "yaml"):
        Output(output).document(table.document(rows), str)
        return
    text = _text(rows, domains=session.all_domains, wide=output == "wide")
    if text:
        Output().document(None, lambda: text)
    elif not rows:
        where = "any domain" if session.all_domains else f"domain {session.domain!r}"
        which = " that fits the filters" if gpu or model else ""
        note(f"no keys{which} in {where} of {store.url}{'' if which else _elsewhere(session, store)}")


def _elsewhere(session: Session, store: Store) -> str:
    """Which other domains have keys: a store that looks empty is usually asked for the wrong one."""
    from glowplug.cache.listing import domains
    from glowplug.core.errors import GlowplugError

    if session.all_domains:
        return ""
    try:
        others = [name for name in domains(store, session.deadline) if name != session.domain]
    except GlowplugError:
        return ""  # whoever may list one domain only has had the answer already
    shown = ", ".join(others[:_OTHERS]) + (", …" if len(others) > _OTHERS else "")
    return f"; there are some of {shown} (--domain NAME, --all-domains)" if others else ""


def _wanted(manifest: Manifest, gpu: str | None, model: str | None) -> bool:
    key = manifest.key
    return (gpu or "").lower() in key.gpu.lower() and (model or "").lower() in key.model.lower()


def _short(gpu: str) -> str:
    """A CPU is named by all its instruction sets, which would push every other column off the screen."""
    return gpu if len(gpu) <= _GPU_WIDTH else f"{gpu[: _GPU_WIDTH - 3]}..."


def _text(rows: Sequence[Row], *, domains: bool, wide: bool) -> str:
    from glowplug.cli.cache import table

    head = ["KEY", "GPU", "ENGINE", "TORCH", "TP", "MODEL", "ENTRIES", "SIZE", "LAST USED"]
    also = ["PP", "DP", "EP", "MACHINE", "CACHE ROOT", "ARGS", "ENV"] if wide else []
    lines = []
    for row in rows:
        manifest = row.manifest
        if manifest is None:
            continue
        key = manifest.key
        entries = f"{len(manifest.entries())}{' blocked' if manifest.blocked is not None else ''}"
        line = [
            *([key.domain] if domains else []),
            manifest.key_digest if wide else manifest.key_digest[: table.DIGITS],
            key.gpu if wide else _short(key.gpu),
            table.engine(key),
            key.torch,
            str(key.layout.tp),
            key.model,
            entries,
            table.size(sum(part.size for part in manifest.parts)),
            table.moment(row.last_used),
        ]
        if wide:
            line += [str(key.layout.pp), str(key.layout.dp), str(key.layout.ep), key.machine, key.cache_root]
            line += [
                ",".join(f"{name}={value}" for name, value in sorted(group.items())) for group in (key.args, key.env)
            ]
        lines.append(line)
    columns = [*(["DOMAIN"] if domains else []), *head, *also]
    return table.aligned(columns, lines, frozenset(("TP", "SIZE", "PP", "DP", "EP")))
