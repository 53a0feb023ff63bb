"""`glowplug agent release`: options, and the process that frees nodes until it is told to end."""

from __future__ import annotations

import os
import sys
import threading

import click

from glowplug.cli import daemon
from glowplug.cli.daemon import address, demand_taint, ends_at_a_signal
from glowplug.cli.examples import epilog
from glowplug.cli.output import note
from glowplug.cli.values import demand_some, duration
from glowplug.manifests.marks import STARTUP_TAINT


@click.command(
    "release",
    epilog=epilog(
        "Shared mode only: a node whose agent is dead would keep its startup taint, and its pods would wait, for ever. "
        "`glowplug render agent --mode shared` prints the Deployment that runs this.",
        "glowplug agent release --older-than 10m",
        "glowplug agent release --older-than 10m --once  # free what is overdue now, with your own kubeconfig",
    ),
)
@click.option(
    "--older-than",
    metavar="DURATION",
    default="10m",
    show_default=True,
    help="Free nodes that are tainted after this time, counted from their creation.",
)
@click.option("--taint", metavar="KEY", default=STARTUP_TAINT, show_default=True, help="The startup taint.")
@click.option("--listen", metavar="[HOST]:PORT", default=":9090", show_default=True, help="For /metrics and /healthz.")
@click.option("--once", is_flag=True, help="Look once, and end.")
@click.pass_context
def command(context: click.Context, /, older_than: str, taint: str, listen: str, once: bool) -> int:
    """Free registered nodes that still have their startup taint: their agents are dead or hang.

    Needs the right to list nodes and to patch them. Pods then start cold on such a node, rather than not at all.
    """
    demand_some(context)
    demand_taint(taint)
    seconds = duration(older_than)
    host, port = address(listen)
    from glowplug.agent.decisions import Decisions
    from glowplug.agent.metrics import Metrics
    from glowplug.agent.release import Release
    from glowplug.kube import connect, questions

    with connect.found(most_bytes=questions.AGENT_ANSWER) as api:
        log = Decisions(os.environ.get("NODE_NAME", ""), sys.stderr)
        release = Release(api, taint, seconds, log=log, numbers=Metrics())
        stop = threading.Event()
        received = ends_at_a_signal(stop)
        if once:
            status = daemon.once(release.look, stop, received)
            if status == 0 and not release.freed:
                note(
                    f"nothing to free: no registered node has kept the taint {taint} for {older_than} since its creation"
                )
            return status
        release.serve(host, port, stop)
        return received()
