"""Replacing what was built before by what is built now, in one step: nobody ever finds half of it, also not after a Ctrl-C."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replaced(target: Path) -> Iterator[Path]:
    """Yields a path beside `target` to make a file or a directory at; it takes the place of `target` if nothing was raised.

    Two that build the same take turns: a lock is kept in `.<name>.lock` beside it.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    beside, old, lock = (target.with_name(f".{target.name}.{part}") for part in ("new", "old", "lock"))
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for path in (beside, old):
            _remove(path)
        try:
            yield beside
            if target.is_dir():
                target.rename(old)  # a directory cannot be renamed onto another
            beside.rename(target)
        finally:
            for path in (beside, old):
                _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
