"""`glowplug check node`: is this node one on which artifacts are quickly at hand?

Looks at the directory that the agent of this node would take, by the agent's own choice.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from glowplug.cli.check import text
from glowplug.cli.examples import epilog
from glowplug.cli.output import Output, output_option
from glowplug.core.errors import UsageError


@click.command(
    "node",
    epilog=epilog(
        "Exit status: 0 nothing fails or warns; 1 something does. Reads only; run it on the node, or in the agent's pod.",
        "glowplug check node",
        "kubectl -n glowplug-system exec POD -- glowplug check node",
        "glowplug check node --root /mnt/.ephemeral/glowplug -o json | jq '.checks[] | select(.name == \"nvme\")'",
    ),
)
@click.option(
    "--root",
    metavar="DIR",
    help="The agent's directory.  [default: the first on NVMe of /mnt/k8s-disks/0/glowplug, /mnt/.ephemeral/glowplug]",
)
@output_option
@click.pass_context
def command(context: click.Context, root: str | None, output: Output) -> None:
    """Say whether the agent's directory is on NVMe, how much room it has, and which GPU and driver this node has."""
    from glowplug.agent.root import ROOTS, find
    from glowplug.check import node
    from glowplug.check.results import Checks

    if root is not None and not root.startswith("/"):
        raise UsageError(f"--root {root} is not an absolute path")
    path = find(ROOTS).path if root is None else Path(root)
    answer = Checks(
        node.checks(node.look(path, [one for one in ROOTS if one != path], os.environ.get("NODE_NAME", "")))
    )
    text.show(output, answer)
    text.finish(context, answer)
