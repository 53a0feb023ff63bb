"""What lies in one pod's outbox, by names and sizes alone, and the removal of what nobody reads.

An outbox is on a disk that all pods of the node share, and no quota of Kubernetes holds there. So what our writer does not make is
removed after a while: directories, names of no form, files that a killed writer was at. Times are those of the inode, which the pod
cannot set.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.core import atomic
from glowplug.nodestore import layout
from glowplug.tree import hostile

if TYPE_CHECKING:
    from pathlib import Path

    from glowplug.core.clock import Deadline

_NAMES: Final = 2000
_BLOCK: Final = 512
_WRITING_SECONDS: Final = 3600.0
"""A file of a writer at work is not older: it is being written to."""
_STRANGE_SECONDS: Final = 60.0
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Lying:
    """One name of an outbox. `changed`: seconds since the epoch; `size`: bytes of whole blocks; `stamp` changes with the bytes."""

    name: str
    size: int
    changed: float
    is_file: bool
    stamp: tuple[int, int]

    @property
    def is_archive(self) -> bool:
        """Whether it has the name of a sealed archive."""
        return self.is_file and layout.part_of(self.name) is not None


def lying(folder: Path) -> tuple[Lying, ...]:
    """What lies in an outbox, as far as it is looked at. Raises nothing."""
    found: list[Lying] = []
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, _OPEN)
        try:
            with os.scandir(descriptor) as names:
                for item, _ in zip(names, range(_NAMES), strict=False):
                    with contextlib.suppress(OSError):
                        status = item.stat(follow_symlinks=False)
                        found.append(
                            Lying(
                                item.name,
                                status.st_blocks * _BLOCK,
                                status.st_ctime,
                                stat.S_ISREG(status.st_mode),
                                (status.st_ino, status.st_ctime_ns),
                            )
                        )
        finally:
            os.close(descriptor)
    return tuple(sorted(found, key=lambda one: one.name))


def is_strange(one: Lying, names: frozenset[str], now: float) -> bool:
    """Whether this is nothing that our writer leaves for long."""
    age = now - one.changed
    if one.name.startswith(atomic.TEMPORARY_PREFIX) and one.is_file:
        return age > _WRITING_SECONDS
    if layout.start_of(one.name) or one.is_archive:
        return not one.is_file and age > _STRANGE_SECONDS
    described = one.name.removesuffix(layout.JSON) + layout.SEALED
    if one.is_file and one.name.endswith(layout.JSON) and layout.part_of(described):
        # It is there before its archive, which may take its time to be sealed.
        return described not in names and age > _WRITING_SECONDS
    return age > _STRANGE_SECONDS


def remove(folder: Path, name: str, deadline: Deadline) -> None:
    """Remove one name, whatever it is. Raises nothing."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, _OPEN)
        try:
            os.unlink(name, dir_fd=descriptor)
        except IsADirectoryError:
            hostile.remove(folder / name, deadline)
        finally:
            os.close(descriptor)
