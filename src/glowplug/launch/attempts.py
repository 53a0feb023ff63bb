"""What the last start in this cache root came to, for pods of which nothing else outlives a restart of their container.

An entry that kills the engine would kill it at every restart. The watcher cannot tell: where the engine is process 1, it dies with
it. So it is written down before the engine starts which parts from the node have never carried a start to ready; readiness takes
that away. A start that finds it there, and the process gone, knows of a crash: it sets these parts aside and runs cold. When that
becomes ready, there is evidence; when it crashes too, the fault lies elsewhere, and the parts are offered again.

A help, never a condition: a file that is damaged or cannot be written is none.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.core import atomic, files
from glowplug.core.documents import codec
from glowplug.core.errors import BadInputError
from glowplug.host.process import born
from glowplug.launch import history
from glowplug.tree import paths, receipts
from glowplug.tree.workspace import own_directory

if TYPE_CHECKING:
    from pathlib import Path

FILE: Final = ".glowplug/attempts.json"
_LARGEST: Final = 1 << 20


@dataclass(frozen=True)
class Attempts:
    """`aside` are digests of parts that are left out, `proved` whether a start became ready without them.

    `process` is the start that is not ready yet, as `pid:ticks`, "" for none; `parts` what it had from the node that no start
    had survived.
    """

    aside: tuple[str, ...] = ()
    proved: bool = False
    process: str = ""
    parts: tuple[str, ...] = ()

    def after_crash(self) -> Attempts:
        """The last start ended before it was ready."""
        if self.parts:
            return Attempts((*self.aside, *(part for part in self.parts if part not in self.aside)))
        return Attempts(self.aside, self.proved) if self.proved else Attempts()


def left_out(cache_root: Path) -> frozenset[str]:
    """The parts that this start does without."""
    found = _load(cache_root)
    if found.process and not _lives(found.process):
        found = found.after_crash()
        _save(cache_root, found)
    return frozenset(found.aside)


def begun(cache_root: Path, process: int) -> None:
    """This process becomes the engine, with what is in the tree now."""
    unproved = history.load(cache_root).unproved(sorted(receipts.in_tree(cache_root)))
    found = _load(cache_root)
    if unproved or found != Attempts():
        _save(cache_root, dataclasses.replace(found, process=f"{process}:{born(process)}", parts=unproved))


def succeeded(cache_root: Path) -> None:
    """The start became ready: what it had is good, and what it did without is not."""
    found = _load(cache_root)
    if found == Attempts():
        return
    with contextlib.suppress(OSError):
        history.save(cache_root, history.load(cache_root).after_ready(found.parts))
    _save(cache_root, Attempts(found.aside, bool(found.aside)))


def _lives(process: str) -> bool:
    pid, _, ticks = process.partition(":")
    return pid.isdigit() and bool(ticks) and born(int(pid)) == ticks


def _load(cache_root: Path) -> Attempts:
    try:
        if (cache_root / paths.OWN).is_symlink():
            return Attempts()
        data = json.loads(files.read_small(cache_root / FILE, _LARGEST, follow=False))
        return codec.from_json(Attempts, data, "attempts")
    except (OSError, ValueError, BadInputError, RecursionError):
        return Attempts()


def _save(cache_root: Path, attempts: Attempts) -> None:
    with contextlib.suppress(OSError):
        path = own_directory(cache_root) / FILE.rpartition("/")[2]
        atomic.write_bytes(path, json.dumps(codec.to_json(attempts)).encode(), durable=False)
