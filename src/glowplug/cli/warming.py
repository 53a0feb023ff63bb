"""Options that `render` and `inject` have in common: what makes the nodes, and what the pods of direct and node mode are told."""

from __future__ import annotations

import click

compute_option = click.option(
    "--compute",
    type=click.Choice(["karpenter", "auto-mode", "nodegroup"]),
    default="karpenter",
    show_default=True,
    help="What makes the nodes.",
)
ami_option = click.option(
    "--ami",
    type=click.Choice(["al2023", "bottlerocket"]),
    default="al2023",
    show_default=True,
    help="Image of the nodes.",
)
image_option = click.option("--glowplug-image", metavar="IMAGE", help="glowplug's own image; none is published.")
store_option = click.option("--store", metavar="URL", help="Where bundles live: s3://, gs://, az:// or file://.")
domain_option = click.option("--domain", help="Trust domain.  [default: the namespace]")
