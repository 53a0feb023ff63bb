"""Shared mode: what the node store holds, copied into the one live directory of the guide before the startup taint goes.

The directory belongs to the pods: any of them writes it, as any user. So it is made like /tmp (1777); what is put into it may be
changed by any of them, as engines rewrite what they found; and nothing that is there is ever touched, not even to complete it: an
entry of which a file is there already, with other bytes, is left out. What pods write there is not published: nobody could say
which of them wrote it (docs/security.md). Shared mode's artifacts come from a bake job or from node mode's agents.

What is not whole yet lies below the agent's own root, which no pod of shared mode mounts: in a directory of the pods' any of them,
many run as root, could lead us elsewhere while we unpack. Into it go whole files, each below a directory that is held open.

It is filled once, when this agent has fetched and before it takes the taint away. Later its files are in use. What an earlier
agent of the node was killed over is completed.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from glowplug.agent.taint import Taint, is_tainted
from glowplug.core.clock import SYSTEM, Deadline
from glowplug.core.errors import GlowplugError
from glowplug.manifests import recipe
from glowplug.nodestore import layout
from glowplug.nodestore.read import NodeStore
from glowplug.tree import paths, place, room
from glowplug.tree.duplicate import duplicate
from glowplug.tree.workspace import workspace

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from glowplug.agent.settings import Settings
    from glowplug.agent.telling import Telling
    from glowplug.core.clock import Clock
    from glowplug.kube.contract import Api
    from glowplug.nodestore.read import Held, Offer
    from glowplug.tree.model import File

DIRECTORY_MODE: Final = 0o1777
_FOLDER_MODE: Final = 0o777
_WRITABLE: Final = 0o666
_FILL_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.5
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Filled:
    """What became of the entries of this node: `put` in place, `left` because something of them is there, and the faults."""

    put: int = 0
    left: int = 0
    bytes: int = 0
    faults: tuple[GlowplugError | OSError, ...] = ()


def run(
    settings: Settings,
    api: Api,
    telling: Telling,
    unready: Callable[[], str],
    stop: threading.Event,
    tick: Callable[[], None] = lambda: None,
    *,
    clock: Clock = SYSTEM,
    draw: Callable[[], float] = lambda: 0.5,
) -> None:
    """Wait for the first fetch, fill the live directory, take the taint away and keep it away, until `stop` is set.

    `unready()` is "" once the first fetch is done or its time over (`Prewarm.unready`). Raises nothing foreseeable: whatever does
    not work is told, and the taint goes all the same.
    """
    live = settings.shared_dir
    patience = Deadline.after(settings.prewarm_seconds, clock)
    if live is not None and settings.kept and not settings.observe:
        try:
            make(live)
        except OSError as error:
            telling.failed("shared", error)
        while unready() and not patience.passed() and not stop.is_set():
            tick()
            stop.wait(_POLL_SECONDS)
        tick()
        if not stop.is_set():
            _fill(settings, live, telling, clock)
    if settings.taint:
        Taint(api, settings.node_name, settings.taint, telling, lambda: True, clock=clock, draw=draw).run(stop, tick)


def once(settings: Settings, api: Api, telling: Telling, *, clock: Clock = SYSTEM) -> bool:
    """Put what is on the node into the live directory, take the taint away; whether that is done. Raises nothing foreseeable."""
    live, done = settings.shared_dir, True
    if live is not None and settings.kept and not settings.observe:
        try:
            make(live)
        except OSError as error:
            telling.failed("shared", error)
            done = False
        done = _fill(settings, live, telling, clock) and done
    if not settings.taint:
        return done
    Taint(api, settings.node_name, settings.taint, telling, lambda: True, clock=clock).look()
    try:
        return not is_tainted(api.node(settings.node_name), settings.taint) and done
    except GlowplugError:
        return False


def _fill(settings: Settings, live: Path, telling: Telling, clock: Clock) -> bool:
    """Whether nothing failed."""
    began = clock.monotonic()
    done = fill(settings.root, settings.domains, live, Deadline.after(_FILL_SECONDS, clock))
    for fault in done.faults:
        telling.failed("shared", fault)
    telling.filled(done.put, done.left, len(done.faults), done.bytes, clock.monotonic() - began)
    return not done.faults


def make(live: Path) -> None:
    """Make the live directory as pods of any user need it. Raises OSError, also where it is a link."""
    live.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(live, _OPEN)
    try:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) != DIRECTORY_MODE:
            os.fchmod(descriptor, DIRECTORY_MODE)
    finally:
        os.close(descriptor)


def fill(root: Path, domains: Sequence[str], live: Path, deadline: Deadline) -> Filled:
    """Put what the node store holds of these domains into the live directory, the newest first. Raises nothing foreseeable.

    Only keys made under the cache root at which pods of shared mode mount it: paths are in the artifacts.
    """
    done = Filled()
    for domain in domains:
        found = [held for held in NodeStore(layout.store(root, domain)).all(deadline) if _fits(held)]
        offered = [(held, offer) for held in found for offer in held.offers({})]
        offered.sort(key=lambda one: (one[1].entry.created, one[1].entry.sha256), reverse=True)
        for held, offer in offered:
            done = _put(held, offer, root, live, done, deadline)
    return done


def _fits(held: Held) -> bool:
    return not held.blocked and held.key.cache_root == recipe.CACHE_ROOT


def _put(held: Held, offer: Offer, root: Path, live: Path, done: Filled, deadline: Deadline) -> Filled:
    """One entry, its support before it and its index files last; with a fault it is left out."""
    try:
        deadline.check("filling the shared directory")
        tables = [_in_order(held.table(part), part.index) for part in offer.parts]
        if _is_somebodys(live, tables[-1]) or all(_is_whole(live, table) for table in tables):
            return replace(done, left=done.left + 1)
        # Twice: two mounts of one disk, as a pod has them, know no rename from one to the other.
        room.check(
            live, 2 * sum(part.unpacked_bytes for part in offer.parts), 2 * sum(part.files for part in offer.parts)
        )
        size = 0
        with workspace(root) as staging:
            for part, table in zip(offer.parts, tables, strict=True):
                duplicate(layout.tree(held.place / part.sha256), table, staging / part.sha256, deadline)
            for part, table in zip(offer.parts, tables, strict=True):
                size += _place(staging / part.sha256, table, live)
    except (GlowplugError, OSError) as error:
        return replace(done, faults=(*done.faults, error))
    return replace(done, put=done.put + 1, bytes=done.bytes + size)


def _in_order(files: Sequence[File], index: Sequence[str]) -> tuple[File, ...]:
    """Index files last, and all of them as any user may change them."""
    last = frozenset(index)
    ordered = sorted(files, key=lambda item: (item.path in last, item.path))
    return tuple(replace(item, mode=item.mode | _WRITABLE | (0o111 if item.mode & 0o100 else 0)) for item in ordered)


def _is_somebodys(live: Path, files: Sequence[File]) -> bool:
    """Whether anything of an entry is there that is not what we put there: then it stays as it is."""
    return any(same is False for same in _compared(live, files))


def _is_whole(live: Path, files: Sequence[File]) -> bool:
    """Whether all of it was put there before: this agent is not the node's first."""
    return all(same is True for same in _compared(live, files))


def _compared(live: Path, files: Sequence[File]) -> Iterator[bool | None]:
    """For each file whether it is the one that lies there, None where none does. Raises OSError where a link is on the way."""
    with paths.Walker(live) as walker:
        for item in files:
            try:
                parent, name = walker.parent(item.path)
                found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            except FileNotFoundError:
                yield None
            else:
                there = (found.st_size, found.st_mtime_ns)
                yield stat.S_ISREG(found.st_mode) and there == (item.size, item.mtime_ns)


def _place(source: Path, files: Sequence[File], live: Path) -> int:
    """Move the files in, or copy them where that is another mount; returns their bytes.

    Directories that are new belong to everybody, others stay as they are.
    """
    with paths.Walker(live) as walker:
        for folder in sorted({folder for item in files for folder in _above(item.path)}):
            _make(walker, folder)
    return place.place(source, files, live, move=True).bytes


def _above(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _make(walker: paths.Walker, folder: str) -> None:
    parent, name = walker.parent(folder)
    try:
        os.mkdir(name, _FOLDER_MODE, dir_fd=parent)
    except FileExistsError:
        return
    descriptor = os.open(name, _OPEN, dir_fd=parent)
    try:
        os.fchmod(descriptor, _FOLDER_MODE)  # which the umask has cut
    finally:
        os.close(descriptor)
