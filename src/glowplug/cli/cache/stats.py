"""`glowplug cache stats`: how much a store holds, and how much of that nobody names."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from glowplug.cli.cache.options import Session, store_options
from glowplug.cli.examples import epilog
from glowplug.cli.output import Output, output_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from glowplug.store.contract import Store


@click.command(
    "stats",
    epilog=epilog(
        "",
        "glowplug cache stats --all-domains --store s3://bucket/cache",
    ),
)
@store_options("5m")
@output_option
def command(session: Session, output: Output) -> None:
    """Count keys, entries and bytes, by GPU and engine too."""
    store = session.open()
    domains = [_domain(session, store, domain) for domain in session.domains(store)]
    output.document({"schema": "glowplug.cache-stats/1", "domains": domains}, lambda: _text(domains))


def _domain(session: Session, store: Store, domain: str) -> dict[str, Any]:
    from glowplug.cache import layout, listing
    from glowplug.cli.cache import table

    rows = listing.rows(store, domain, session.deadline)
    manifests = [row.manifest for row in rows if row.manifest is not None]
    parts = [part for manifest in manifests for part in manifest.parts]
    named = {part.sha256 for part in parts}
    blobs = {
        digest: meta.size
        for meta in store.list(layout.blobs_prefix(domain), session.deadline)
        if (digest := layout.parse_blob_path(meta.path)) is not None
    }
    unreadable = sum(row.manifest is None for row in rows)
    return {
        "domain": domain,
        "keys": len(rows),
        "unreadable": unreadable,
        "blocked": sum(manifest.blocked is not None for manifest in manifests),
        "entries": sum(len(manifest.entries()) for manifest in manifests),
        "parts": len(parts),
        "unpacked_bytes": sum(part.unpacked_bytes for part in parts),
        "blobs": len(blobs),
        "blob_bytes": sum(blobs.values()),
        # What a manifest that cannot be read names is not known.
        "unnamed_blobs": None if unreadable else len(blobs.keys() - named),
        "unnamed_bytes": None if unreadable else sum(size for digest, size in blobs.items() if digest not in named),
        "missing_blobs": len(named - blobs.keys()),
        "gpus": dict(sorted(Counter(manifest.key.gpu for manifest in manifests).items())),
        "engines": dict(sorted(Counter(table.engine(manifest.key) for manifest in manifests).items())),
    }


def _text(domains: Sequence[dict[str, Any]]) -> str:
    from glowplug.cli.cache import table

    blocks = []
    for item in domains:
        unnamed = (
            "not known"
            if item["unnamed_blobs"] is None
            else f"{table.number(item['unnamed_blobs'], 'blob')}, {table.size(item['unnamed_bytes'])}"
        )
        rows = [
            ("domain", item["domain"]),
            ("keys", f"{item['keys']} ({item['blocked']} blocked, {item['unreadable']} unreadable)"),
            ("entries", str(item["entries"])),
            ("parts", f"{item['parts']}, {table.size(item['unpacked_bytes'])} unpacked"),
            ("blobs", f"{item['blobs']}, {table.size(item['blob_bytes'])}"),
            ("without a name", unnamed),
            ("missing", table.number(item["missing_blobs"], "blob")),
            *(("gpu", f"{name}: {table.number(count, 'key')}") for name, count in item["gpus"].items()),
            *(("engine", f"{name}: {table.number(count, 'key')}") for name, count in item["engines"].items()),
        ]
        blocks.append(table.pairs(rows))
    return "\n\n".join(blocks) or "no domains"
