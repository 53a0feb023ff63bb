"""Names of temporary files and locks that torch, Triton, FlashInfer, DeepGEMM and glowplug leave when they are
interrupted.

Engines name them by process id only, so in two pods they collide; they are never packed, and a restarted container
removes them.
"""

from __future__ import annotations

import re
from typing import Final

_PARTS: Final = re.compile(
    r"(?:\.?\d+\.\d+\.tmp"  # torch/_inductor/codecache.py write_atomic: .<pid>.<thread>.tmp
    r"|.+\.\d+\.tmp"  # vLLM's AOT model: model.<pid>.tmp
    r"|.+\.tmp|\.tmp.*"
    r"|tmp\.pid_\d+_.*"  # triton/runtime/cache.py: a directory tmp.pid_<pid>_<uuid>
    r"|tmp[a-z0-9_]{8}"  # Python's tempfile, as vLLM's AOT save and modelinfos use it
    r"|\.glowplug-tmp-.*"
    r"|\.nfs[0-9a-f]+)"
)
_LOCK: Final = re.compile(r".*\.lock|\.lock|\.ninja_lock")


def is_unfinished(path: str) -> bool:
    """Whether a writer was interrupted here (or is still writing)."""
    if "tmp" not in path and ".nfs" not in path:  # one of them is in every such name, and in hardly any other
        return False
    return any(_PARTS.fullmatch(part) for part in path.split("/"))


def is_lock(path: str) -> bool:
    """Whether this is a lock file, which may lie around for ever and holds nothing."""
    if "lock" not in path:
        return False
    *directories, name = path.split("/")
    return bool(_LOCK.fullmatch(name)) or "locks" in directories


def is_temporary(path: str) -> bool:
    """Whether this is a temporary file or a lock."""
    return is_unfinished(path) or is_lock(path)
