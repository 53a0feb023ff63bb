"""`glowplug agent`: options into one value, and the agent until it is told to end."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from glowplug.cli import daemon, release
from glowplug.cli.daemon import address, demand_taint, ends_at_a_signal
from glowplug.cli.examples import epilog
from glowplug.cli.values import demand_some, duration
from glowplug.core import units
from glowplug.core.errors import UsageError
from glowplug.manifests.marks import STARTUP_TAINT

if TYPE_CHECKING:
    from glowplug.agent.loop import Outside
    from glowplug.agent.root import Root
    from glowplug.agent.settings import Publisher, Settings
    from glowplug.store.contract import Store

_NAME: Final = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
_PUBLISHER: Final = re.compile(rf"(?P<namespace>{_NAME})(?:/(?P<account>{_NAME}))?", re.ASCII)


class _Agent(click.Group):
    """Where a command of its own is called, the agent's options are not of it: their variables may be wrong, or another's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click, but only what the call asks for can be wrong."""
        ctx.resilient_parsing = args[:1] != [] and args[0] in self.commands
        try:
            return super().parse_args(ctx, args)
        finally:
            ctx.resilient_parsing = False


@click.group(
    "agent",
    cls=_Agent,
    invoke_without_command=True,
    epilog=epilog(
        "Every option is also a variable: GLOWPLUG_STORE, GLOWPLUG_DOMAIN, … (several domains with spaces between). "
        "`glowplug render agent` prints the DaemonSet, its rights and the policies that narrow them.",
        "glowplug agent --store s3://bucket/cache --domain team-a --node-name $NODE_NAME",
        "glowplug agent --store s3://bucket/cache --domain team-a --publish-from team-a/vllm --node-name $NODE_NAME",
        "glowplug agent --observe --domain team-a --node-name $NODE_NAME  # verdicts only",
    ),
)
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The agent's directory on the node.  [default: the first NVMe-backed of "
    "/mnt/k8s-disks/0/glowplug, /mnt/.ephemeral/glowplug]",
)
@click.option(
    "--shared-dir",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Shared mode: the live directory that all pods of the node write.  [default: compile-cache beside the root]",
)
@click.option("--require-instance-store", is_flag=True, help="Keep nothing on a node without an NVMe instance store.")
@click.option("--store", metavar="URL", help="Where bundles live: s3://, gs://, az:// or file://.")
@click.option(
    "--domain", "domain", multiple=True, metavar="NAME", help="A trust domain whose bundles are kept; may be repeated."
)
@click.option("--node-name", metavar="NAME", help="The node that this is.  [default: $NODE_NAME]")
@click.option(
    "--mode",
    type=click.Choice(["node", "shared"]),
    default="node",
    show_default=True,
    help="How artifacts reach the pods of this node.",
)
@click.option(
    "--taint",
    metavar="KEY",
    default=STARTUP_TAINT,
    show_default=True,
    help="Shared mode: the startup taint that is removed when the node is warm.",
)
@click.option(
    "--prewarm-timeout",
    metavar="DURATION",
    default="5m",
    show_default=True,
    help="After this no pod waits for the first fetch any more.",
)
@click.option("--relist", metavar="DURATION", default="5m", show_default=True, help="List the store no more often.")
@click.option(
    "--max-bytes",
    metavar="SIZE",
    help="Most that is kept.  [default: a tenth of the disk, half of what is free on it, at most 200 GB]",
)
@click.option(
    "--publish-from",
    multiple=True,
    metavar="NAMESPACE[/SERVICEACCOUNT]",
    help="Whose pods' new artifacts are published; may be repeated.  [default: nobody's]",
)
@click.option(
    "--listen", metavar="[HOST]:PORT", default=":9090", show_default=True, help="For /metrics, /healthz, /readyz."
)
@click.option(
    "--verify-key",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Keep only what this key signed.",
)
@click.option("--read-only", is_flag=True, help="Publish nothing.")
@click.option("--observe", is_flag=True, help="Keep and publish nothing: only say what becomes of starts.")
@click.option(
    "--once",
    is_flag=True,
    help="Fetch what is missing, publish what pods handed over, and end: 0 where all of that is done, 3 where not.",
)
@click.pass_context
def command(context: click.Context, /, **options: Any) -> int | None:
    """Keep this node's compile caches warm: fetch what its pods will ask for, publish what they compiled.

    It takes no part in a start: pods read what lies in its directory, and start cold without it. What is slow or away (the store,
    the API server) is tried again by itself.
    """
    if context.invoked_subcommand is not None:
        return None
    demand_some(context)
    from glowplug.agent import root as roots

    given = options["root"]
    place = roots.find((given,) if given else roots.ROOTS, options.pop("require_instance_store"))
    settings = _settings(place, **options)
    outside = _outside(settings, place)
    from glowplug.agent.loop import Agent

    stop = threading.Event()
    received = ends_at_a_signal(stop)
    agent = Agent(settings, outside, stop)
    if settings.once:
        return daemon.once(agent.once, stop, received)
    if not agent.run():
        # Python would wait for what hangs in the network; who ends us would not.
        sys.stderr.flush()
        os._exit(received())
    return received()


command.add_command(release.command)


def _settings(
    place: Root,
    *,
    root: Path | None,
    shared_dir: Path | None,
    store: str | None,
    domain: tuple[str, ...],
    node_name: str | None,
    mode: str,
    taint: str,
    prewarm_timeout: str,
    relist: str,
    max_bytes: str | None,
    publish_from: tuple[str, ...],
    listen: str,
    verify_key: Path | None,
    read_only: bool,
    observe: bool,
    once: bool,
) -> Settings:
    """Raises UsageError, BadInputError."""
    from glowplug.agent.settings import Mode, Settings
    from glowplug.nodestore import layout

    node = node_name or os.environ.get("NODE_NAME", "")
    if not node:
        raise UsageError("which node is this?", hint="give --node-name, from the field spec.nodeName")
    if not domain:
        raise UsageError("no trust domain is named", hint="give --domain NAME, once for each")
    for one in domain:
        layout.store(Path("/"), one)
    demand_taint(taint)
    for name, path in (("--root", root), ("--shared-dir", shared_dir)):
        if path is not None and (not path.is_absolute() or ".." in path.parts or path == Path("/")):
            raise UsageError(f"{name}: not an absolute path of its own: {str(path)!r}")
    host, port = address(listen)
    return Settings(
        root=place.path,
        node_name=node,
        mode=Mode(mode),
        store=store or "",
        domains=tuple(dict.fromkeys(domain)),
        shared_dir=(shared_dir or _beside(place.path)) if mode == "shared" else None,
        taint=taint if mode == "shared" else "",
        prewarm_seconds=duration(prewarm_timeout),
        max_bytes=units.parse_size(max_bytes) if max_bytes else None,
        publishers=tuple(map(_publisher, publish_from)),
        host=host,
        port=port,
        read_only=read_only,
        observe=observe,
        once=once,
        kept=place.kept,
        relist_seconds=duration(relist),
        verify_key=verify_key,
    )


def _beside(root: Path) -> Path:
    """Shared mode's live directory, where the command line names none: as it is rendered for a node with this root."""
    from glowplug.manifests import recipe

    return root.parent / Path(recipe.shared_directory("/")).name


def _outside(settings: Settings, place: Root) -> Outside:
    """Raises UsageError for an address that is none and where nothing leads to Kubernetes, BadInputError for what is no key."""
    from glowplug.agent.loop import Outside
    from glowplug.cli.cache.options import policy
    from glowplug.core.errors import AccessDeniedError, UnavailableError
    from glowplug.kube import connect, questions
    from glowplug.store.schemes import open_store

    def opened() -> Store:
        return open_store(settings.store, os.environ)

    if settings.store:
        with contextlib.suppress(AccessDeniedError, UnavailableError):  # credentials may come later
            opened()
    return Outside(connect.found(most_bytes=questions.AGENT_ANSWER), opened, place, policy(settings.verify_key))


def _publisher(text: str) -> Publisher:
    from glowplug.agent.settings import Publisher

    found = _PUBLISHER.fullmatch(text)
    if found is None:
        raise UsageError(f"--publish-from: {text[:200]!r} is neither NAMESPACE nor NAMESPACE/SERVICEACCOUNT")
    return Publisher(found["namespace"], found["account"] or "")
