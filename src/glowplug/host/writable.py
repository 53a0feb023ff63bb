"""Whether a cache root can be written, found by writing; and which directory is used when none is named.

An engine whose cache root cannot be written does not run cold, it exits. So the root is tried before the engine
starts; where it fails, the engine gets a private temporary directory and nothing is restored or published.
Permissions are not reasoned about: read-only mounts, quotas, missing inodes and foreign owners all show when a file
is made.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Optional

from glowplug.core.atomic import TEMPORARY_PREFIX

DEFAULT: Final = "/compile-cache"
FALLBACK_PARENT: Final = "/var/tmp"  # noqa: S108 - the directory below it is checked for its owner
_SAMPLE: Final = b"\0" * 4096
_DEPTH: Final = 3
_MOST: Final = 256
_PRIVATE: Final = 0o700
_WORDS: Final = {
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "no space or no inodes left",
    errno.EDQUOT: "the quota is used up",
    errno.ENOTDIR: "a part of the path is not a directory",
    errno.ELOOP: "too many symbolic links",
    errno.ENAMETOOLONG: "the path is too long",
}


@dataclass(frozen=True)
class CacheRoot:
    """Where the engine writes. `private`: a temporary directory, with `why` the wanted one could not be used."""

    path: str
    private: bool = False
    why: str = ""


def probe(root: str) -> str:
    """Why a directory cannot be a cache root, "" when it can. Makes it when it is missing; leaves nothing else
    behind.
    """
    path = Path(root)
    if not path.is_absolute():
        return f"{root} is not an absolute path"
    try:
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
        _write_in(path)
    except OSError as error:
        return f"{root}: {_said(error)}"
    except ValueError as error:
        return f"{root!r}: {error}"
    foreign = _unwritable_below(path, _DEPTH, [_MOST])
    return f"{foreign}: no permission to write there" if foreign else ""


def _said(error: OSError) -> str:
    return _WORDS.get(error.errno or 0, error.strerror or str(error))


def _write_in(path: Path) -> None:
    name = path / f"{TEMPORARY_PREFIX}{os.urandom(8).hex()}"
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, _SAMPLE)
    finally:
        os.close(descriptor)  # where a network's file system takes writes without a place for them, this says so
        with contextlib.suppress(OSError):
            name.unlink()
    directory = path / f"{TEMPORARY_PREFIX}{os.urandom(8).hex()}"
    directory.mkdir(mode=0o700)
    directory.rmdir()


def _unwritable_below(path: Path, depth: int, left: list[int]) -> str:
    """The first directory of an existing tree in which this process may not write, "" for none. Looks at some, not
    all.
    """
    if depth == 0:
        return ""
    try:
        with os.scandir(path) as found:
            children = sorted(item.path for item in found if item.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        # Somebody else works in the same tree: what has gone forbids nothing.
        return ""
    except OSError:
        return str(path)
    for child in children:
        left[0] -= 1
        if left[0] < 0:
            return ""
        if not os.access(child, os.R_OK | os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
            if not Path(child).is_dir():
                continue
            return child
        foreign = _unwritable_below(Path(child), depth - 1, left)
        if foreign:
            return foreign
    return ""


def choose(
    wanted: Optional[str],
    *,
    default: str = DEFAULT,
    fallback_parent: str = FALLBACK_PARENT,
    temporary: Optional[str] = None,
) -> CacheRoot:
    """The cache root of this start. Raises OSError only when not even a temporary directory can be made."""
    path, why = (wanted, "") if wanted is not None else _named(default, fallback_parent)
    why = why or probe(path)
    if not why:
        return CacheRoot(path)
    import tempfile

    return CacheRoot(tempfile.mkdtemp(prefix="glowplug-cache-", dir=temporary), private=True, why=why)


def _named(default: str, fallback_parent: str) -> tuple[str, str]:
    """The default root, or the caller's own directory where the default does not exist and may not be made."""
    try:
        Path(default).mkdir(mode=0o755, exist_ok=True)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            return default, ""
    else:
        return default, ""
    own = Path(fallback_parent) / f"glowplug-{os.getuid()}"
    why = claim(own)
    return str(own / "compile-cache"), why


def claim(path: Path) -> str:
    """Make a directory that is this user's alone, or say why the one that is there is not."""
    with contextlib.suppress(FileExistsError):
        try:
            path.mkdir(mode=_PRIVATE)
        except FileExistsError:
            raise
        except OSError as error:
            return f"{path}: {_said(error)}"
    try:
        found = path.lstat()
    except OSError as error:
        return f"{path}: {_said(error)}"
    if not stat.S_ISDIR(found.st_mode):
        return f"{path} is not a directory"
    if found.st_uid != os.geteuid():
        return f"{path} belongs to another user"
    if stat.S_IMODE(found.st_mode) != _PRIVATE:
        return f"{path} has mode {stat.S_IMODE(found.st_mode):04o} instead of 0700"
    return ""
