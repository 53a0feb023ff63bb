"""Which file system a path lies on, from /proc/self/mountinfo.

A live cache on a network file system gives torn files and EBUSY (engines lock by process id and rename without
flushing), and a cache on tmpfs eats the pod's memory: both are said before the start.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Optional

_OCTAL: Final = re.compile(r"\\([0-7]{3})")
_FIELDS_BEFORE_OPTIONAL: Final = 6
NETWORK: Final = frozenset(
    {
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "ceph",
        "lustre",
        "glusterfs",
        "gpfs",
        "beegfs",
        "9p",
        "afs",
        "wekafs",
        "ocfs2",
        "gfs2",
    }
)
_NETWORK_FUSE: Final = (
    "s3fs",
    "goofys",
    "mountpoint-s3",
    "gcsfuse",
    "blobfuse",
    "sshfs",
    "juicefs",
    "glusterfs",
    "ceph",
    "rclone",
    "alluxio",
)


@dataclass(frozen=True)
class Mount:
    """A mount point. `device` is `major:minor`; `network` whether its files live on another machine."""

    point: str
    kind: str
    source: str
    device: str
    read_only: bool

    @property
    def network(self) -> bool:
        """Whether other machines write here too."""
        if self.kind in NETWORK:
            return True
        name = f"{self.kind.partition('.')[2]} {self.source}"
        return self.kind.startswith("fuse") and any(word in name for word in _NETWORK_FUSE)

    @property
    def memory(self) -> bool:
        """Whether what is written here counts as memory."""
        return self.kind in ("tmpfs", "ramfs")


def parse(mountinfo: str) -> tuple[Mount, ...]:
    """The mounts in a mountinfo text, in its order. Lines of another form are left out."""
    found: list[Mount] = []
    for line in mountinfo.splitlines():
        before, dash, after = line.partition(" - ")
        fields, rest = before.split(" "), after.split(" ")
        if not dash or len(fields) < _FIELDS_BEFORE_OPTIONAL or len(rest) < 3:
            continue
        options = {*fields[5].split(","), *rest[2].split(",")}
        found.append(Mount(_unescaped(fields[4]), rest[0], _unescaped(rest[1]), fields[2], "ro" in options))
    return tuple(found)


def holding(path: str, mounts: tuple[Mount, ...]) -> Optional[Mount]:
    """The mount that an absolute path lies on: the longest mount point above it, the last of equals (it covers the
    others).
    """
    best: Optional[Mount] = None
    for mount in mounts:
        inside = mount.point == "/" or path == mount.point or path.startswith(mount.point.rstrip("/") + "/")
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def of(path: str) -> Optional[Mount]:
    """The mount of a path of this process; a path that does not exist yet counts as its nearest existing parent."""
    try:
        text = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")
    except OSError:
        return None
    return holding(os.path.realpath(path), parse(text))


def _unescaped(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match.group(1), 8)), text)
