"""Exceptions → one line `error[CODE]: what`, one line `hint: what to do`, and an exit status. The only place that does it."""

from __future__ import annotations

import os
import sys
import traceback
from typing import TYPE_CHECKING, Final

import click

from glowplug.core.errors import GlowplugError

if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE: Final = 2
INTERRUPTED: Final = 130
RUN_USAGE: Final = 125
"""`run` ends with the engine's status, so its own usage errors have the status that `env` and `timeout` use for that."""


def guarded(group: click.Group, argv: Sequence[str]) -> int:
    """Run a click group; whatever it raises becomes lines on stderr and a status."""
    usage_status = RUN_USAGE if argv[:1] == ["run"] else USAGE
    try:
        result = group.main(args=list(argv), prog_name="glowplug", standalone_mode=False)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.exceptions.NoArgsIsHelpError as nothing:
        click.echo(nothing.ctx.get_help() if nothing.ctx else "", err=True)
        return usage_status
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "glowplug"
        show("usage", error.format_message(), f"`{where} --help` shows the options")
        return usage_status
    except click.ClickException as error:
        show("usage", error.format_message(), "")
        return usage_status
    except (click.Abort, KeyboardInterrupt):
        show("interrupted", "interrupted", "")
        return INTERRUPTED
    except GlowplugError as error:
        show(error.code, error.message, error.hint)
        return usage_status if error.exit_status == USAGE else error.exit_status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        show("os", f"{name}{error.strerror or error}", "")
        return 3
    except Exception as error:  # noqa: BLE001 - the last line of defence: a line, not a traceback
        if os.environ.get("GLOWPLUG_DEBUG") == "1":
            traceback.print_exc()
        show("internal", f"{type(error).__name__}: {error}", "set GLOWPLUG_DEBUG=1 for the traceback and report it")
        return 3
    return result if isinstance(result, int) else 0


def show(code: str, message: str, hint: str) -> None:
    """The two lines on stderr."""
    one_line = " ".join(message.split())
    print(f"error[{code}]: {one_line}", file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)
