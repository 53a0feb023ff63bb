"""Where the nodes of a pod have their instance store, for an edit that writes paths of nodes: what the input says of them goes
before what was assumed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from glowplug.lint.rules.compile.disks import BOTTLEROCKET, disks
from glowplug.render import pods
from glowplug.render.options import Compute, Mode

if TYPE_CHECKING:
    from glowplug.lint.view import Workload
    from glowplug.render.options import Options


def on_its_nodes(workload: Workload, options: Options) -> tuple[Options, str]:
    """The options for this pod, and what to say of them, "" for nothing."""
    if options.mode is Mode.DIRECT:
        return options, ""  # which has no path of a node
    there = disks(workload)
    if len(there.roots) > 1:
        return options, _undecided(workload)
    (root,) = there.roots
    if root == pods.nvme(options):
        return options, ""
    auto_mode = workload.compute == "auto-mode" if not workload.nodes else all(one.auto_mode for one in workload.nodes)
    compute = Compute.AUTO_MODE if auto_mode else Compute.KARPENTER
    found = replace(options, compute=compute, ami="bottlerocket" if root == BOTTLEROCKET else "al2023")
    return found, (
        f"{there.who} mount their instance store at {root}: its paths are there, whatever --compute and --ami say"
    )


def _undecided(workload: Workload) -> str:
    """For nodes of both kinds, where one path cannot be right for all."""
    roots = {node.pool.name: disks(replace(workload, nodes=(node,))).roots for node in workload.nodes}
    if any(len(one) != 1 for one in roots.values()) or not roots:
        return ""
    where = ", ".join(f"{next(iter(one))} on `{name}`" for name, one in roots.items())
    return (
        f"it may land on nodes that mount their instance store at different places ({where}): on some of them the cache lies on "
        "EBS; select one of them"
    )
