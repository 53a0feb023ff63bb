"""Exceptions → one line `error[CODE]: what`, one line `hint: what to do`, and an exit status. The only place that does it."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback
from typing import TYPE_CHECKING, Final

import click

from glowplug.core.errors import GlowplugError, hint_of
from glowplug.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE: Final = 2
INTERRUPTED: Final = 130
RUN_USAGE: Final = 125
"""`run` ends with the engine's status, so its own usage errors have the status that `env` and `timeout` use for that."""
_ENVIRONMENT: Final = 3
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_LONGEST_WORD: Final = 200
_LONGEST_LINE: Final = 2000


_INSTEAD_OF_DRY_RUN: Final = {
    "inject": "--diff shows what would be changed, and changes nothing",
    "lint": "without --fix nothing is changed; --diff shows what --fix would change",
    "render": "nothing is changed by printing; `… | kubectl apply --dry-run=server -f -` asks the cluster",
    "plan": "nothing is changed by planning",
}
"""Every command that could be thought to change something has it, but for these."""


def guarded(group: click.Group, argv: Sequence[str]) -> int:
    """Run a click group; whatever it raises becomes lines on stderr and a status."""
    try:
        result = group.main(args=list(argv), prog_name="glowplug", standalone_mode=False)
    except click.exceptions.Exit as done:
        return done.exit_code
    except (BrokenPipeError, SystemExit):
        # click turns EPIPE into SystemExit. Whoever read our output has seen enough.
        _discard_stdout()
        return 0
    except BaseException as error:  # noqa: BLE001 - the last line of defence: a line, not a traceback
        status = _told(error)
        # Whatever is glowplug's own fault has one status under `run`: all others are the engine's.
        return RUN_USAGE if argv[:1] == ["run"] and status != INTERRUPTED else status
    return result if isinstance(result, int) else 0


def show(code: str, message: str, hint: str) -> None:
    """The two lines on stderr, whatever was given: one line each, and none without end."""
    if sys.stderr is None:  # closed: then nobody reads
        return
    # Who reads may have gone, or the disk may be full: then the status alone says it.
    with contextlib.suppress(OSError, ValueError):
        print(f"error[{code}]: {_line(message)}", file=sys.stderr)
        if hint:
            print(f"hint: {_line(hint)}", file=sys.stderr)
        sys.stderr.flush()


def _line(text: str) -> str:
    """One printable line. Words of which nothing is known (an option's value) are cut, and so is the whole."""
    words = (word if len(word) <= _LONGEST_WORD else f"{word[:_LONGEST_WORD]}…" for word in text.split())
    line = printable(" ".join(words))
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…"


def _told(error: BaseException) -> int:
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        show("interrupted", "interrupted", "")
        return INTERRUPTED
    if isinstance(error, click.ClickException):
        return _click(error)
    if isinstance(error, GlowplugError):
        show(error.code, error.message, error.hint)
        return error.exit_status
    if isinstance(error, OSError):
        name = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
        full = error.errno in _FULL
        where = name or ("stdout: " if full else "")
        show("os", f"{where}{error.strerror or error}", hint_of("no-space") if full else "")
        return _ENVIRONMENT
    if os.environ.get("GLOWPLUG_DEBUG") == "1" and sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            print(printable("".join(traceback.format_exception(error))), end="", file=sys.stderr)
    show("internal", f"{type(error).__name__}: {error}", "set GLOWPLUG_DEBUG=1 for the traceback and report it")
    return _ENVIRONMENT


def _click(error: click.ClickException) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        with contextlib.suppress(OSError, ValueError):
            click.echo(printable(error.format_message()), err=True)
        return USAGE
    context = getattr(error, "ctx", None)
    if isinstance(error, click.NoSuchOption) and error.option_name == "--dry-run":
        hint = _INSTEAD_OF_DRY_RUN.get(context.info_name or "" if context else "")
        if hint:
            show("usage", error.message, hint)  # without click's own guess, which is any option that is spelt alike
            return USAGE
    hint = f"`{context.command_path if context else 'glowplug'} --help` shows the options"
    show("usage", error.format_message(), hint if isinstance(error, click.UsageError) else "")
    return USAGE


def _discard_stdout() -> None:
    """Python flushes stdout once more at its end and would complain again."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
