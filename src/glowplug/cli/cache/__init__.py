"""`glowplug cache …`: one file a subcommand, each imported only when it is called.

What they share: `options` (which store, which domains, how long), `handed_in` (F of the command line), `table` (keys as text and
JSON), `progress` (on a terminal), `results` (start/1's objects and the statuses they end with).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

import click

from glowplug.cli.examples import epilog

if TYPE_CHECKING:
    from collections.abc import Iterable

SUBCOMMANDS: Final[dict[str, str]] = {
    "ls": "List the keys of a store.",
    "show": "Show a key: its fields, its parts, what speaks against it.",
    "why": "Say why a start does not find what is there: nearest keys, and the fields that differ.",
    "diff": "Compare two keys, field by field and part by part.",
    "publish": "Publish what an engine left in a directory.",
    "restore": "Put the artifacts of a key into a directory.",
    "verify": "Check that everything in the store is what it says.",
    "quarantine": "Block a key for everyone, or lift that.",
    "copy": "Copy keys into another store: regions, staging to production, an air gap.",
    "gc": "Remove keys that nobody uses, and blobs that nobody names.",
    "rm": "Remove keys.",
    "control": "Turn restoring or publishing off for everyone, or on again.",
    "stats": "Count keys and bytes.",
}


class Subcommands(click.Group):
    """A group whose subcommands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table."""
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand of a name, None where there is none."""
        if cmd_name not in SUBCOMMANDS:
            return None
        from glowplug.cli.main import flat_variables

        module: Any = importlib.import_module(f"glowplug.cli.cache.{cmd_name}")
        found: click.Command = module.command
        flat_variables(found)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Names and lines from the table: no subcommand is imported for `--help`."""
        with formatter.section("Commands"):
            formatter.write_dl(list(SUBCOMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click, with "did you mean"."""
        if args and args[0] not in SUBCOMMANDS and not args[0].startswith("-"):
            raise click.UsageError(f"no command {args[0]!r}{_near(args[0], SUBCOMMANDS)}", ctx)
        return super().resolve_command(ctx, args)


def _near(word: str, known: Iterable[str]) -> str:
    import difflib

    near = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


@click.group(
    "cache",
    cls=Subcommands,
    epilog=epilog(
        "KEY is any unique prefix of a key digest, 8 digits or more. F is a file (or -) with a "
        "glowplug.fingerprint/1, a glowplug.start/1, or the key's fields in flat form.",
        "glowplug cache ls --store s3://bucket/cache --gpu h100",
        "glowplug fingerprint -o json -- vllm serve s3://bucket/model > f.json",
        "glowplug cache why --store s3://bucket/cache --fingerprint f.json",
        "glowplug cache copy s3://staging/cache s3://production/cache --key 3f9a1c22",
    ),
)
def command() -> None:
    """List, publish, restore, verify and keep the compile cache in order.

    Exit status: 0 done; 1 the answer is no; 2 usage; 3 the store does not answer; 4 integrity; 5 partly done.
    """
