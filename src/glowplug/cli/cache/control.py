"""`glowplug cache control`: one switch with which a person stops restores or publishes of a whole fleet at night."""

from __future__ import annotations

import click

from glowplug.cli.cache.options import Session, store_options
from glowplug.cli.examples import epilog
from glowplug.cli.output import Output, note, output_option

_STATES = {"on": True, "off": False, None: None}


@click.command(
    "control",
    epilog=epilog(
        "",
        "glowplug cache control --store s3://bucket/cache",
        "glowplug cache control --publish off --store s3://bucket/cache",
    ),
)
@click.option("--restore", type=click.Choice(["on", "off"]), help="Whether starts may restore.")
@click.option("--publish", type=click.Choice(["on", "off"]), help="Whether starts may publish.")
@store_options("1m")
@output_option
def command(restore: str | None, publish: str | None, session: Session, output: Output) -> None:
    """Show the switch of a store, or turn restoring or publishing off for everyone, or on again.

    It is one for all domains. Where it is absent or damaged, everything is on.
    """
    from glowplug.cache import control

    store = session.open()
    damage = ""
    if restore is None and publish is None:
        now, damage = control.inspect(store, session.deadline)
    else:
        now = control.change(store, session.deadline, restore=_STATES[restore], publish=_STATES[publish])
    if damage:
        note(f"warning: {damage}")
    document = {
        "schema": "glowplug.cache-control/1",
        "restore": now.restore,
        "publish": now.publish,
        "min_version": now.min_version or None,
        "damaged": bool(damage),
    }
    output.document(document, lambda: _text(now.min_version, restore=now.restore, publish=now.publish))


def _text(min_version: str, *, restore: bool, publish: bool) -> str:
    from glowplug.cli.cache import table

    rows = [("restore", "on" if restore else "off"), ("publish", "on" if publish else "off")]
    return table.pairs([*rows, *([("min_version", min_version)] if min_version else [])])
