"""Become the command: what `run` does when it is switched off, and when it cannot even begin.

Imports next to nothing, so that switched off it costs next to nothing. The command starts as it would without us: signals that
Python ignores for itself are as they were.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_NOT_FOUND = 127
_NOT_EXECUTABLE = 126


def execute(command: Sequence[str], environ: Mapping[str, str], say: Callable[[str], None]) -> int:
    """Returns only where the command cannot be executed, with the status that a shell would give."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], list(command), dict(environ))  # noqa: S606 - no shell is wanted
    except FileNotFoundError:
        say(f"{command[0]}: command not found")
        return _NOT_FOUND
    except OSError as error:
        say(f"{command[0]}: {error.strerror}")
        return _NOT_EXECUTABLE


def as_given(environ: Mapping[str, str]) -> dict[str, str]:
    """This process's own environment without what Python itself has added: in the C locale it sets LC_CTYPE (PEP 538)."""
    own = dict(environ)
    if "LC_CTYPE" in own:
        try:
            with open("/proc/self/environ", "rb") as file:  # noqa: PTH123 - pathlib is not imported yet
                given = file.read().split(b"\0")
        except OSError:
            return own
        if any(given) and not any(item.startswith(b"LC_CTYPE=") for item in given):
            del own["LC_CTYPE"]
    return own
