"""`glowplug completion SHELL`: the script that click generates for bash, zsh or fish."""

from __future__ import annotations

import click

from glowplug.cli.examples import epilog


@click.command(
    "completion", epilog=epilog("", "glowplug completion bash > ~/.local/share/bash-completion/completions/glowplug")
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell."""
    from click import shell_completion

    from glowplug.cli import main

    kind = shell_completion.get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(kind(main.group, {}, "glowplug", "_GLOWPLUG_COMPLETE").source())
