"""What lies on the node: how much of it there may be, whether it is whole, and what goes when there is too much.

The disk is kubelet's as well, which throws pods out when it gets full: where nothing else is said, the node store takes little
of it and never more than half of what the others leave. Whether a key is whole is asked once at the start of an agent, by
tables and lengths, not by reading everything again: files are flushed before they get their names, so that what is torn all the
same has lost bytes and not changed them. A byte that went bad is found by the pod that copies it, which compares digests.
"""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING, Final

from glowplug.agent.ranking import Size
from glowplug.core import canonical
from glowplug.core.errors import AccessDeniedError, GlowplugError, UnavailableError
from glowplug.nodestore import layout, write
from glowplug.nodestore.read import NodeStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from glowplug.agent.ranking import About
    from glowplug.agent.telling import Telling
    from glowplug.core.clock import Deadline
    from glowplug.nodestore.read import Held
    from glowplug.nodestore.write import Usage

SHARE: Final = 0.1
"""Of the disk's bytes and inodes, that a node store takes at most where nothing else is said."""
MOST_BYTES: Final = 200 * 10**9
_BOUNDLESS: Final = 2**62
_PIECE: Final = 1 << 20
OF_FREE: Final = 0.5
"""Of what would be free without the node store: images and pods need the rest."""


def room(root: Path, max_bytes: int | None, held: Size) -> Size:
    """How much the node store below `root` may be now, of which `held` is there already. Raises OSError."""
    if max_bytes is not None:
        return Size(max_bytes, _BOUNDLESS)
    disk = os.statvfs(root)
    total, free = disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
    size = min(int(total * SHARE), MOST_BYTES, int((held.bytes + free) * OF_FREE))
    if not disk.f_files:  # a file system that does not count them
        return Size(size, _BOUNDLESS)
    inodes = int((held.inodes + disk.f_favail) * OF_FREE)
    return Size(size, min(int(disk.f_files * SHARE), inodes))


def total(found: Iterable[Usage]) -> Size:
    """What keys take together."""
    present = tuple(found)
    return Size(sum(one.bytes for one in present), sum(one.inodes for one in present))


def keys(root: Path, domain: str) -> tuple[str, ...]:
    """Digests of all keys that a domain has a directory for, whole or not. Raises OSError."""
    try:
        with os.scandir(layout.store(root, domain)) as found:
            return tuple(sorted(item.name for item in found if canonical.is_digest(item.name)))
    except FileNotFoundError:
        return ()


def domains(root: Path) -> tuple[str, ...]:
    """Domains that have a directory. Raises OSError."""
    try:
        with os.scandir(layout.stores(root)) as found:
            return tuple(sorted(item.name for item in found if layout.is_domain(item.name) and item.is_dir()))
    except FileNotFoundError:
        return ()


def remove_damaged(root: Path, domain: str, telling: Telling) -> None:
    """Remove what is not whole: it is fetched again. What cannot be removed is told, and stops nothing. Raises OSError."""
    store = NodeStore(layout.store(root, domain))
    for digest in keys(root, domain):
        if not _sound(store, digest):
            try:
                drop(root, domain, digest, "damaged", telling)
            except OSError as error:
                telling.failed("disk", error)


def intact(root: Path, domain: str, digest: str, deadline: Deadline) -> bool:
    """Whether every byte of a key is what its table says; True for a key that is not here. Raises GlowplugError, OSError."""
    store = NodeStore(layout.store(root, domain))
    if not layout.key(store.mount, digest).exists():
        return True
    if not _sound(store, digest):
        return False
    found = store.held(digest)
    return found is None or all(_unchanged(path, sha256, deadline) for path, _, sha256 in _files(found))


def drop(root: Path, domain: str, digest: str, reason: str, telling: Telling) -> None:
    """Remove a key, and tell it where it was there. Raises OSError."""
    if write.remove(root, domain, digest):
        telling.removed(domain, digest, reason)


def shrink(
    root: Path, present: Sequence[Usage], most: Size, keep: frozenset[About], telling: Telling
) -> tuple[Usage, ...]:
    """Remove of `present` what was not used for longest until all of it fits into `most`; what is left. Raises OSError."""
    gone = write.lru(root, most.bytes, most.inodes, keep, present)
    for one in gone:
        telling.removed(one.domain, one.key_digest, "space")
    return tuple(one for one in present if one not in gone)


def _sound(store: NodeStore, digest: str) -> bool:
    """Whether all that is said to be here of a key is here. What only a newer agent understands is left to it."""
    try:
        found = store.held(digest)
        if found is None:
            return store.newer(digest)
        return all(_whole(path, size) for path, size, _ in _files(found))
    except (AccessDeniedError, UnavailableError):
        return True  # the disk does not answer: no reason to throw away what is on it
    except GlowplugError:
        return False


def _files(found: Held) -> Iterator[tuple[Path, int, str]]:
    for part in found.parts:
        tree = layout.tree(found.place / part.sha256)
        for item in found.table(part):
            yield tree / item.path, item.size, item.sha256


def _whole(path: Path, size: int) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == size


def _unchanged(path: Path, sha256: str, deadline: Deadline) -> bool:
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        while piece := handle.read(_PIECE):
            deadline.check("reading the node store")
            digest.update(piece)
    return digest.hexdigest() == sha256
