"""The agent's side of the node store: what it adds, marks and removes while pods are reading.

A pod may look at any moment, so nothing here changes what is there already: a part is unpacked under a name that nobody looks at,
flushed together with the others of its key, and renamed; the key's document comes last and is replaced in one step. What is removed
loses its document first, then its name, then its files.

Every pod of the domain reads this, under whatever UID its image has: files are readable by all and writable by nobody, while the
table keeps the modes that the copies in a pod's own tree get.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import os
import secrets
import shutil
import stat
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.core import atomic, canonical
from glowplug.core.clock import SYSTEM, iso
from glowplug.core.documents import codec
from glowplug.core.documents.node import Node, NodeKey
from glowplug.core.errors import BadInputError, GlowplugError, UnavailableError
from glowplug.nodestore import layout
from glowplug.tree import archive, paths
from glowplug.tree.place import sync
from glowplug.tree.workspace import workspace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from glowplug.core.clock import Clock
    from glowplug.core.documents.node import HeldPart
    from glowplug.tree.model import File

_FOLDER: Final = 0o755
_FILE: Final = 0o444
_DOCUMENT: Final = 0o644
_OUTBOXES: Final = 0o1777
_BLOCK: Final = 512
_STALE_SECONDS: Final = 600


@dataclass(frozen=True)
class Unpacked:
    """A part's files, verified, below `tree`: a directory on the node store's file system that nobody else uses."""

    tree: Path
    files: tuple[File, ...]


@dataclass(frozen=True)
class Usage:
    """One key on disk: bytes of whole blocks, inodes, and when it was used last (seconds since the epoch)."""

    domain: str
    key_digest: str
    bytes: int
    inodes: int
    used_at: float


def prepare(root: Path, domain: str) -> Path:
    """Make a domain's directory and the outboxes', and return the former. Raises BadInputError for the domain's name, OSError."""
    mount = layout.store(root, domain)
    root.parent.mkdir(parents=True, exist_ok=True)
    for folder, mode in (
        (root, _FOLDER),
        (layout.stores(root), _FOLDER),
        (mount, _FOLDER),
        (layout.outboxes(root), _OUTBOXES),
    ):
        if folder != root:
            _clear_unless_folder(folder, root)
        folder.mkdir(_FOLDER, exist_ok=True)
        if (
            stat.S_IMODE(folder.stat().st_mode) != mode
        ):  # by this process's umask, or by kubelet, which may have been faster
            folder.chmod(mode)
    return mount


def staging(root: Path, domain: str) -> AbstractContextManager[Path]:
    """A place to unpack parts for `add`, on the right file system and out of sight; what killed agents left is removed."""
    mount = prepare(root, domain)
    _sweep(mount)
    return workspace(mount)


def add(root: Path, domain: str, key: NodeKey, trees: Mapping[str, Unpacked]) -> NodeKey:
    """Let the node hold exactly what `key` says; returns it as it was written. Trees of parts that are new are moved in.

    Parts of this key that it no longer names are removed. Raises BadInputError where a part is neither there nor in `trees`,
    IntegrityError where a table breaks a rule, UnavailableError (`no-space`), OSError. After an exception pods find what they
    found before.
    """
    mount = prepare(root, domain)
    if key.key.domain != domain or key.key.digest() != key.key_digest:
        raise BadInputError(f"key {key.key_digest[:12]} is none of the domain {domain}")
    place = layout.key(mount, key.key_digest)
    with _no_space(mount), workspace(mount) as work:
        _clear_unless_folder(place, mount)
        place.mkdir(_FOLDER, exist_ok=True)
        place.chmod(_FOLDER)
        parts = [_stage(part, place, trees, work) for part in key.parts]
        sync(work)
        for part in parts:
            ready = work / part.sha256
            if ready.exists():
                ready.rename(place / part.sha256)
        written = dataclasses.replace(key, parts=tuple(parts))
        _put(place / layout.KEY, canonical.encode(codec.to_json(written)))
        touch(root, domain, key.key_digest)
    for item in place.iterdir():
        if canonical.is_digest(item.name) and item.name not in {part.sha256 for part in parts}:
            _remove(item, mount)
    return written


def remove(root: Path, domain: str, key_digest: str) -> bool:
    """Let the node forget a key; whether it was there. Pods that are copying it find it gone. Raises BadInputError, OSError."""
    mount = layout.store(root, domain)
    place = layout.key(mount, key_digest)
    if not os.path.lexists(place):
        return False
    with contextlib.suppress(
        IsADirectoryError, NotADirectoryError, PermissionError
    ):  # it goes with its directory's name
        layout.key_document(mount, key_digest).unlink(missing_ok=True)
    _remove(place, mount)
    return True


def touch(root: Path, domain: str, key_digest: str, clock: Clock = SYSTEM) -> None:
    """Note that a key is in use. Raises BadInputError, OSError."""
    now = clock.now()
    path = layout.used(layout.store(root, domain), key_digest)
    path.touch(_DOCUMENT)
    os.utime(path, (now, now))


def usage(root: Path) -> list[Usage]:
    """What each key takes, least recently used first. A directory without a document counts too. Raises OSError."""
    found = []
    for store in _domains(root):
        for place in store.iterdir():
            if canonical.is_digest(place.name):
                size, inodes = _measure(place)
                found.append(Usage(store.name, place.name, size, inodes, _used_at(place)))
    return sorted(found, key=lambda item: (item.used_at, item.domain, item.key_digest))


def lru(
    root: Path,
    most_bytes: int,
    most_inodes: int,
    keep: frozenset[tuple[str, str]] = frozenset(),
    present: Sequence[Usage] | None = None,
) -> tuple[Usage, ...]:
    """Remove the keys that were not used for longest until what is left fits both limits; returns what was removed.

    `keep` are pairs of domain and key digest that stay in any case; `present` what `usage` said just now. Raises OSError.
    """
    present = usage(root) if present is None else present
    size, inodes = sum(item.bytes for item in present), sum(item.inodes for item in present)
    removed = []
    for item in present:
        if size <= most_bytes and inodes <= most_inodes:
            break
        if (item.domain, item.key_digest) in keep:
            continue
        remove(root, item.domain, item.key_digest)
        size, inodes = size - item.bytes, inodes - item.inodes
        removed.append(item)
    return tuple(removed)


def set_node(
    root: Path,
    domain: str,
    version: str,
    *,
    prefetching: bool,
    outbox: bool = True,
    withheld: str = "",
    clock: Clock = SYSTEM,
) -> Node:
    """Say how the agent stands with a domain; `outbox` False: pods need not seal what they compiled. `withheld`: why they may not
    take what is here, "" where they may.

    Raises BadInputError for the domain's name, OSError.
    """
    mount = prepare(root, domain)
    node = Node(version, domain, iso(clock.now()), prefetching, outbox, restore=not withheld, restore_reason=withheld)
    _put(mount / layout.NODE, canonical.encode(codec.to_json(node)))
    return node


def mark_ready(root: Path, domain: str) -> None:
    """Say that what pods of this node are likely to need is here: none waits from now on. Raises OSError."""
    path = prepare(root, domain) / layout.READY
    _clear_unless_file(path)
    path.touch(_DOCUMENT)


def unmark_ready(root: Path, domain: str) -> None:
    """Take that word back: the agent starts anew. Raises OSError."""
    path = prepare(root, domain) / layout.READY
    _clear_unless_file(path)
    path.unlink(missing_ok=True)


def put_program(root: Path, domain: str, data: bytes) -> None:
    """Put glowplug itself where the pods of a domain start it from. Raises OSError."""
    _put(prepare(root, domain) / layout.PROGRAM, data)


def take_back(root: Path, domain: str) -> None:
    """Nothing is given to the pods of a domain any more, the program neither. Raises OSError."""
    mount = layout.store(root, domain)
    for name in (layout.PROGRAM, layout.READY, layout.NODE):
        _clear_unless_file(mount / name)
        (mount / name).unlink(missing_ok=True)


def _put(path: Path, data: bytes) -> None:
    """Replace a file in one step; everybody may read it from the moment that it is there."""
    _clear_unless_file(path)
    with atomic.replacing(path) as handle:
        os.fchmod(handle.fileno(), _DOCUMENT)
        handle.write(data)


def _stage(part: HeldPart, place: Path, trees: Mapping[str, Unpacked], work: Path) -> HeldPart:
    """The part with the digest of its table; where it is new, its directory lies ready below `work`."""
    present = place / part.sha256
    unpacked = trees.get(part.sha256)
    if unpacked is None or present.exists():
        try:
            table = layout.files(present).read_bytes()
        except FileNotFoundError:
            raise BadInputError(f"part {part.name!r} is not here and was not handed in") from None
        return dataclasses.replace(part, table_sha256=hashlib.sha256(table).hexdigest())
    table = archive.encode_table(unpacked.files)
    directory = work / part.sha256
    directory.mkdir(_FOLDER)
    tree = layout.tree(directory)
    unpacked.tree.rename(tree)
    _open_to_all(tree, unpacked.files)
    layout.files(directory).write_bytes(table)
    layout.files(directory).chmod(_FILE)
    directory.chmod(_FOLDER)
    return dataclasses.replace(part, table_sha256=hashlib.sha256(table).hexdigest())


def _open_to_all(tree: Path, files: tuple[File, ...]) -> None:
    """Readable by every UID, writable by none; a folder's mode is set when its first file is met."""
    tree.chmod(_FOLDER)
    done: set[str] = set()
    with paths.Walker(tree) as walker:
        for item in sorted(files, key=lambda item: item.path):
            parent, name = walker.parent(item.path)
            os.chmod(name, _FILE, dir_fd=parent)
            folder = item.path.rpartition("/")[0]
            while folder and folder not in done:
                done.add(folder)
                (tree / folder).chmod(_FOLDER)
                folder = folder.rpartition("/")[0]


def _remove(path: Path, mount: Path) -> None:
    """First the name, then what is below it. What cannot be removed now is removed by a later sweep."""
    gone = mount / f"{layout.GONE}{secrets.token_hex(8)}"
    path.rename(gone)
    _discard(gone)


def _discard(path: Path) -> None:
    """Remove it, whatever it is, as far as that is possible now."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def _clear_unless_folder(path: Path, beside: Path) -> None:
    """What has the name of a directory and is none goes first: a crash of the file system, or a person, left it."""
    if os.path.lexists(path) and not path.is_dir():
        _remove(path, beside)


def _clear_unless_file(path: Path) -> None:
    """The same for the name of a file."""
    if path.is_dir() and not path.is_symlink():
        _remove(path, path.parent)


def _sweep(mount: Path) -> None:
    """What a killed agent was writing or removing."""
    for item in list(mount.iterdir()):
        if item.name.startswith(layout.GONE):
            _discard(item)
        elif item.name.startswith(atomic.TEMPORARY_PREFIX):
            with contextlib.suppress(FileNotFoundError):
                if item.lstat().st_mtime < time.time() - _STALE_SECONDS:  # else another thread is about to rename it
                    item.unlink()


def _domains(root: Path) -> Iterator[Path]:
    with contextlib.suppress(FileNotFoundError):
        yield from (
            item for item in sorted(layout.stores(root).iterdir()) if layout.is_domain(item.name) and item.is_dir()
        )


def _measure(place: Path) -> tuple[int, int]:
    size = inodes = 0
    for folder, _, names in os.walk(place):
        for path in (folder, *(os.path.join(folder, name) for name in names)):  # noqa: PTH118 - hundreds of thousands of them
            with contextlib.suppress(FileNotFoundError):
                size += os.lstat(path).st_blocks * _BLOCK
                inodes += 1
    return size, inodes


def _used_at(place: Path) -> float:
    """A key without the mark was never whole: it goes first."""
    with contextlib.suppress(OSError):
        return (place / layout.USED).stat().st_mtime
    return 0.0


@contextlib.contextmanager
def _no_space(mount: Path) -> Iterator[None]:
    try:
        yield
    except GlowplugError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UnavailableError(f"no space left below {mount}", code="no-space") from error
        raise
