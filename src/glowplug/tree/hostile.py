"""Removing a directory that somebody else filled, perhaps so that removing it never ends or ends somewhere else.

Directories nested a hundred thousand deep break every recursive remover (by stack, by descriptors, or by the length of a path).
So nothing descends: a nested directory is renamed up to the top, where it is emptied in its turn. No link is followed, no path is
joined, and the work ends at a deadline; what is left then is for the next call.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from glowplug.core.clock import Deadline

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def empty(directory: Path, deadline: Deadline) -> bool:
    """Remove everything below a directory that is no link; whether nothing is left. Raises OSError where it cannot be opened."""
    top = os.open(directory, _DIRECTORY)
    try:
        # A rename into the directory that is being listed may show up in the listing, or not: hence rounds.
        while not deadline.passed():
            progress = False
            with os.scandir(top) as found:
                for item in found:
                    if deadline.passed():
                        return False
                    progress |= _remove(item.name, top, deadline)
            with os.scandir(top) as left:
                if next(left, None) is None:
                    return True
            if not progress:
                return False
        return False
    finally:
        os.close(top)


def remove(directory: Path, deadline: Deadline) -> bool:
    """Remove a directory that is no link, with everything below; whether it is gone. Raises nothing."""
    with contextlib.suppress(OSError):
        if empty(directory, deadline):
            directory.rmdir()
            return True
    return False


def _remove(name: str, top: int, deadline: Deadline) -> bool:
    """Remove one name of `top`; of a directory, all but the directories in it, which move up. Whether anything changed."""
    try:
        if not stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=top)
            return True
        changed = _flatten(name, top, deadline)
    except OSError:
        return False
    try:
        os.rmdir(name, dir_fd=top)
    except OSError:
        return changed
    return True


def _flatten(name: str, top: int, deadline: Deadline) -> bool:
    changed = False
    here = os.open(name, _DIRECTORY, dir_fd=top)
    try:
        with os.scandir(here) as found:
            for item in found:
                if deadline.passed():
                    break
                with contextlib.suppress(OSError):
                    if item.is_dir(follow_symlinks=False):
                        os.rename(item.name, f"up-{secrets.token_hex(8)}", src_dir_fd=here, dst_dir_fd=top)
                    else:
                        os.unlink(item.name, dir_fd=here)
                    changed = True
    finally:
        os.close(here)
    return changed
