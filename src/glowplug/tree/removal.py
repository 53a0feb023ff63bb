"""A tree of our own that nobody wants any more. Trees that others fill are `tree.hostile`'s.

Not shutil's `rmtree`: importing that takes longer than a start has for it.
"""

from __future__ import annotations

import contextlib
import os
import stat


def remove(tree: str | os.PathLike[str]) -> None:
    """Remove a directory and all below it, through no link. What cannot be removed stays; never raises."""
    with contextlib.suppress(OSError):
        for _, folders, names, descriptor in os.fwalk(tree, topdown=False):
            for name in (*names, *folders):
                with contextlib.suppress(OSError):
                    folder = stat.S_ISDIR(os.lstat(name, dir_fd=descriptor).st_mode)
                    (os.rmdir if folder else os.unlink)(name, dir_fd=descriptor)
        os.rmdir(tree)  # noqa: PTH106 - text or Path
