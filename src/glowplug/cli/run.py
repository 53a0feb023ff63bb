"""`glowplug run`: options into one value; GLOWPLUG_DISABLE=1 executes the command before anything else is imported."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from glowplug.cli.examples import epilog
from glowplug.core import units

if TYPE_CHECKING:
    from collections.abc import Sequence

    _Type = click.ParamType[float]
else:
    _Type = click.ParamType  # not a generic class before click 8.3


class Duration(_Type):
    """`30s`, `10m`, `2h`; seconds as a float."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds. Raises UsageError of glowplug's own."""
        return float(value) if isinstance(value, (int, float)) else units.parse_duration(str(value))


@click.command(
    "run",
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
    epilog=epilog(
        "Exit status: the engine's; 128+N after signal N; 127/126 command not found/not executable; 125 wrong usage. With "
        "--exit-when-ready: 0 ready and published or unchanged, 5 not published (ready; or not started, since it "
        "never could be), 1 ended or timed out before ready. Every option is also a variable: GLOWPLUG_STORE, "
        "GLOWPLUG_CACHE_ROOT, …",
        "glowplug run --store s3://bucket/cache -- vllm serve s3://bucket/model --load-format runai_streamer",
        "glowplug run --store file:///mnt/shared/cache --engine torch -- python serve.py",
        "glowplug run --store s3://bucket/cache --exit-when-ready -- vllm serve s3://bucket/model  # bakes the cache",
    ),
)
@click.option("--store", metavar="URL", help="Where bundles live: s3://, gs://, az:// or file://.")
@click.option(
    "--node-store", type=click.Path(path_type=Path), metavar="DIR", help="With --exec: what this node's agent keeps."
)
@click.option(
    "--outbox", type=click.Path(path_type=Path), metavar="DIR", help="With --exec: where new artifacts go out."
)
@click.option("--domain", default="default", show_default=True, help="Trust domain: part of the key and of the prefix.")
@click.option("--cache-root", metavar="DIR", help="The one directory the engine writes to.  [default: /compile-cache]")
@click.option(
    "--engine",
    type=click.Choice(["auto", "vllm", "sglang", "tensorrt-llm", "torch"]),
    default="auto",
    show_default=True,
    help="Which engine the command starts.",
)
@click.option("--no-publish", is_flag=True, help="Publish nothing.")
@click.option("--no-restore", is_flag=True, help="Restore nothing.")
@click.option("--ready-url", metavar="URL", help="Where readiness shows.  [default: the engine's health URL]")
@click.option("--ready-timeout", type=Duration(), default="30m", show_default=True, help="Give up waiting for ready.")
@click.option(
    "--restore-timeout", type=Duration(), default="30s", show_default=True, help="Bound of all before the engine."
)
@click.option(
    "--report", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write the start document here."
)
@click.option("--exec", "exec", is_flag=True, help="Become the engine, and leave a watcher beside it: what pods do.")
@click.option("--exit-when-ready", is_flag=True, help="End the engine once it is ready and published (bake).")
@click.option(
    "--verify-key",
    type=click.Path(path_type=Path, exists=True),
    metavar="FILE",
    help="Restore only what this key signed.",
)
@click.option(
    "--sign-key", type=click.Path(path_type=Path, exists=True), metavar="FILE", help="Sign what is published."
)
@click.argument("command_line", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND…")
def command(
    store: str | None,
    node_store: Path | None,
    outbox: Path | None,
    domain: str,
    cache_root: str | None,
    engine: str,
    no_publish: bool,
    no_restore: bool,
    ready_url: str | None,
    ready_timeout: float,
    restore_timeout: float,
    report: Path | None,
    exec: bool,  # noqa: A002 - the variable is GLOWPLUG_EXEC
    exit_when_ready: bool,
    verify_key: Path | None,
    sign_key: Path | None,
    command_line: Sequence[str],
) -> int:
    """Start an engine warm: restore, start, verdict, publish.

    Everything glowplug does for a start is bounded and can fail without harm: the engine starts all the same. GLOWPLUG_DISABLE=1
    makes this run the command and nothing else.
    """
    if not command_line:
        raise click.UsageError("no command to run: put it behind `--`")
    if cache_root is not None and not Path(cache_root).is_absolute():
        raise click.UsageError(f"--cache-root must be an absolute path, the same on every machine: {cache_root!r}")
    if ready_url is not None and not ready_url.startswith(("http://", "https://")):
        raise click.UsageError(f"--ready-url must begin with http:// or https://: {ready_url!r}")
    from glowplug.launch.execute import as_given, execute

    if os.environ.get("GLOWPLUG_DISABLE") == "1":
        from glowplug.cli.output import note

        return execute(command_line, as_given(os.environ), note)
    if exec and exit_when_ready:
        raise click.UsageError("--exec leaves nothing that could end the engine for --exit-when-ready")
    if (node_store is not None or outbox is not None) and not exec:
        raise click.UsageError("--node-store and --outbox go with --exec")
    if exit_when_ready and sign_key is not None:
        _try_key(sign_key)
    from glowplug.launch.options import RunOptions
    from glowplug.supervise.run import run

    options = RunOptions(
        store=store,
        node_store=node_store and Path.cwd() / node_store,
        outbox=outbox and Path.cwd() / outbox,
        domain=domain,
        cache_root=cache_root,
        engine=engine,
        publish=not no_publish,
        restore=not no_restore,
        ready_url=ready_url,
        ready_timeout=ready_timeout,
        restore_timeout=restore_timeout,
        report=report,
        exit_when_ready=exit_when_ready,
        verify_key=verify_key,
        sign_key=sign_key,
    )
    if exec:
        from glowplug.supervise import launching

        launching.start(dataclasses.replace(options, report=report and Path.cwd() / report), command_line, os.environ)
    return run(options, command_line, as_given(os.environ))


def _try_key(sign_key: Path) -> None:
    """A bake is there to publish: a key that cannot sign must show before the minutes of compiling, not after.

    Any other start goes on without its signature. Raises BadInputError, GlowplugError (`missing-extra`), OSError.
    """
    from glowplug.cache import sign

    sign.signer_in(sign_key)
