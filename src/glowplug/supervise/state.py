"""Where what a machine has learnt of its starts lies: a directory of the user's own, never one that others may write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from glowplug.host import writable

if TYPE_CHECKING:
    from collections.abc import Mapping


def state_directory(environ: Mapping[str, str]) -> Path:
    """`$XDG_STATE_HOME/glowplug`: where what this machine has learnt lies."""
    home = environ.get("XDG_STATE_HOME") or ""
    if home.startswith("/"):
        return Path(home) / "glowplug"
    own = environ.get("HOME") or ""
    if own.startswith("/"):
        return Path(own) / ".local/state/glowplug"
    # Without a home: beside the fallback cache root, in the directory that is this user's alone, or nowhere at all.
    claimed = Path(writable.FALLBACK_PARENT) / f"glowplug-{os.getuid()}"
    return Path(os.devnull) / "glowplug" if writable.claim(claimed) else claimed / "state"
