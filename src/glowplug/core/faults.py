"""The words by which documents name a fault: one place, so that `restore.reason` and `publish.reason` speak the same."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from glowplug.core.errors import GlowplugError

if TYPE_CHECKING:
    from collections.abc import Mapping

_WORDS: Final[Mapping[str, str]] = {
    "timeout": "deadline",
    "unavailable": "store_unavailable",
    "bad-archive": "integrity",
    "bad-manifest": "integrity",
    "bad-document": "integrity",
}
_DISK: Final[Mapping[int, str]] = {
    errno.ENOSPC: "no_space",
    errno.EDQUOT: "no_space",
    errno.EROFS: "cache_root_unwritable",
    errno.EACCES: "cache_root_unwritable",
    errno.EPERM: "cache_root_unwritable",
    errno.ELOOP: "unsafe_cache_root",
    errno.ENOTDIR: "unsafe_cache_root",
}


def reason_of(error: GlowplugError | OSError) -> str:
    """The word for a fault: the error's code with `_`, or what a disk's errno means for a cache."""
    if isinstance(error, GlowplugError) and error.code == "secret-found":
        return f"secret_found: {error.message}"
    if isinstance(error, GlowplugError):
        return _WORDS.get(error.code) or error.code.replace("-", "_")
    return _DISK.get(error.errno or 0, "disk")
