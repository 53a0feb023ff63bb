"""A private directory below a root, on the root's own file system, that does not outlive its process for long.

Everything half-done lies there: unpacked parts before they are verified, copies before they are renamed. A process that is
killed cannot clean up, so the next one does: a workspace is locked (flock on the directory) while its process lives, and the
lock goes with the process. Names hold random digits, since process ids are equal in two pods.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from glowplug.tree import paths
from glowplug.tree.removal import remove

if TYPE_CHECKING:
    from collections.abc import Iterator

_LIVE: Final = "work-"
_UNBORN: Final = "new-"
_UNBORN_SECONDS: Final = 600
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def workspace(root: Path) -> Iterator[Path]:
    """A fresh directory below `<root>/.glowplug/`, removed at the end; those of dead processes are removed first.

    Raises OSError, also where `.glowplug` is a link: then somebody else decides where we would write.
    """
    own = own_directory(root)
    sweep(root)
    name = os.urandom(8).hex()
    unborn, path = own / (_UNBORN + name), own / (_LIVE + name)
    unborn.mkdir(0o700)
    try:
        descriptor = os.open(unborn, _OPEN)
    except BaseException:
        remove(unborn)
        raise
    try:
        with contextlib.suppress(OSError):  # a file system without locks: it is swept by age then
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unborn.rename(path)  # only now visible to a sweep: it would have taken an unlocked one for dead
        yield path
    finally:
        remove(path)
        remove(unborn)
        os.close(descriptor)


def own_directory(root: Path) -> Path:
    """`<root>/.glowplug`, made where it is missing. Raises OSError, NotADirectoryError where it is a link or a file."""
    own = root / paths.OWN
    with contextlib.suppress(FileExistsError):
        own.mkdir(paths.DIRECTORY_MODE)
        with contextlib.suppress(OSError):
            own.chmod(paths.DIRECTORY_MODE)
    if own.is_symlink() or not own.is_dir():
        raise NotADirectoryError(f"{own} is not a directory")
    return own


def sweep(root: Path) -> None:
    """Remove what killed processes left below `<root>/.glowplug/`. Never raises for what it cannot remove."""
    own = root / paths.OWN
    with contextlib.suppress(OSError):
        for item in list(os.scandir(own)):
            if item.name.startswith(_LIVE):
                _remove_dead(Path(item.path))
            elif item.name.startswith(_UNBORN):
                with contextlib.suppress(OSError):
                    if item.stat(follow_symlinks=False).st_mtime < time.time() - _UNBORN_SECONDS:
                        _remove_dead(Path(item.path))


def _remove_dead(path: Path) -> None:
    try:
        descriptor = os.open(path, _OPEN)
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return  # its process lives, or nobody can tell
    else:
        remove(path)
    finally:
        os.close(descriptor)
