"""The command `glowplug`: a table of commands, each imported only when it is called.

`glowplug --help` must answer within 120 ms, and `run` must not pay for what other commands import; so a command is a row here
and a module of the same name that exports `command`.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from glowplug import __version__
from glowplug.cli import errors, streams
from glowplug.cli.examples import epilog

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS: Final[dict[str, str]] = {
    "run": "Start an engine warm: restore, start, verdict, publish.",
    "plan": "Say on what a model fits, with which settings, and what bounds its load.",
    "render": "Print manifests: Deployment, bake job, agent, node pool; network and roles.",
    "inject": "Give the pods of existing manifests a warm start, in place.",
    "lint": "Say what keeps manifests from starting fast, why, and mend it.",
    "rules": "List the rules of lint, or explain one.",
    "fingerprint": "Show what a start would be keyed by, and from where each value comes.",
    "cache": "List, publish, restore, verify and keep the compile cache in order.",
    "agent": "Keep a node's compile caches warm, and publish what its pods compiled.",
    "startup": "Say where the seconds of a start went; compare several.",
    "check": "Say whether what a start needs is there: the way to S3, the store.",
    "report": "Make one HTML page of glowplug's JSON documents.",
    "completion": "Print the completion script of a shell.",
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name, None where there is none."""
        if cmd_name not in COMMANDS:
            return None
        module: Any = importlib.import_module(f"glowplug.cli.{cmd_name}")
        command: click.Command = module.command
        flat_variables(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Names and lines from the table: no command is imported for `--help`."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click, with "did you mean"."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            also = f" (did you mean {near[0]!r}?)" if near else ""
            raise click.UsageError(f"no command {args[0]!r}{also}", ctx)
        return super().resolve_command(ctx, args)


def flat_variables(command: click.Command) -> None:
    """Make every option also the variable `GLOWPLUG_<OPTION>`, without the command's name in it."""
    command.context_settings.setdefault("auto_envvar_prefix", "GLOWPLUG")
    for inner in getattr(command, "commands", {}).values():
        flat_variables(inner)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=epilog(
        "Every option is also a variable: GLOWPLUG_STORE, GLOWPLUG_DOMAIN, …",
        "glowplug run --store s3://bucket/cache -- vllm serve s3://bucket/model",
        "glowplug cache ls --store s3://bucket/cache",
        "kubectl logs pod/vllm-0 | glowplug startup -",
    ),
)
@click.version_option(__version__, "--version", prog_name="glowplug", message="%(prog)s %(version)s")
def group() -> None:
    """Start LLM inference engines warm, and say where each start's seconds went."""


def becomes_the_engine(argv: Sequence[str]) -> bool:
    """Whether these are `run --exec … -- COMMAND`: what pods say, where a wrong option must not keep an engine from starting."""
    if "--" not in argv or argv[0] != "run":
        return False
    own = argv[: argv.index("--")]
    asked = "--exec" in own or os.environ.get("GLOWPLUG_EXEC") == "1"
    return asked and "--help" not in own and "-h" not in own


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status. No exception leaves it."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    if becomes_the_engine(argv):
        from glowplug.supervise import launching

        launching.main(argv, os.environ)
    return errors.guarded(group, argv)


def entry() -> None:
    """The console script."""
    streams.occupy()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A file's name may be no Unicode, a terminal may know ASCII only: shown as an escape, never an exception.
        sys.stdout.reconfigure(errors="backslashreplace")
    status = main()
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        # The reader has gone, or the disk is full, which was told; Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if status == errors.INTERRUPTED:
        # Python would wait for requests that threads still have under way; who interrupts does not want to.
        if sys.stderr is not None:
            sys.stderr.flush()
        os._exit(status)
    sys.exit(status)
