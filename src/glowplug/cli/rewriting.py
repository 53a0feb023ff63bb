"""Files that a command was pointed at, written back: each as a whole, none over what somebody else has written meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.cli import errors

if TYPE_CHECKING:
    from glowplug.cli.inputs import Input


def write(before: Input, text: str, others: str) -> str:
    """Give a file this text. "" when it has it now, else why not, which is told; `others` says what becomes of the others."""
    from glowplug.core import atomic

    if before.path is None or text == before.source.text:
        return ""
    try:
        atomic.rewrite(before.path, text.encode(), before=before.source.text.encode())
    except OSError as error:
        why = error.strerror or str(error)
        errors.show("os", f"{before.path}: {why}", f"it is as it was; {others}")
        return why
    except atomic.ChangedError:
        why = "it was changed while this ran"
        errors.show("os", f"{before.path}: {why}", f"nothing is written over it; {others}: run this again")
        return why
    return ""
