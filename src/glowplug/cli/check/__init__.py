"""`glowplug check …`: read-only answers about what is outside, one file a subcommand; `text` is how they all look."""

from __future__ import annotations

import click

from glowplug.cli.check import network, node, store
from glowplug.cli.examples import epilog


@click.group(
    "check",
    epilog=epilog(
        "Exit status: 0 nothing failed and nothing warns; 1 something does; 3 what was asked could not be looked at.",
        "glowplug check network --cluster prod s3://bucket/model --nodes 8 --size 67GB",
        "glowplug check node",
        "glowplug check store --store s3://bucket/cache",
    ),
)
def command() -> None:
    """Say whether what a start needs is there: the way to S3, the node, the store."""


command.add_command(network.command)
command.add_command(node.command)
command.add_command(store.command)
