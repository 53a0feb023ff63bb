"""Which relative paths may travel in an archive, and how a path below a root is opened without following a link.

One rule for the scan, the packer and the unpacker, so that what one of them lets through another does not refuse. A path that
came from elsewhere is joined to nothing: it is walked part by part from a directory descriptor with O_NOFOLLOW, so that a
symlink planted in the middle, also while we work, leads nowhere.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, Final

from glowplug.core.atomic import TEMPORARY_PREFIX

if TYPE_CHECKING:
    from types import TracebackType

OWN: Final = ".glowplug"
"""The directory below a cache root that is glowplug's own: never indexed, never in an archive."""

DIRECTORY_MODE: Final = 0o775
"""Usable by any UID of group 0, which is how images that run under arbitrary UIDs are made."""

DEEPEST: Final = 64
"""Parts of a path at most: each level costs a walker a descriptor and a stack frame."""

_LONGEST_PART: Final = 255
# What nearly every path of a cache is like; for any other the rules are gone through one by one.
_USUAL: Final = re.compile(r"(?:[A-Za-z0-9_\-][A-Za-z0-9_.\-]{0,200}/){0,40}[A-Za-z0-9_\-][A-Za-z0-9_.\-]{0,200}")
_OPEN_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def fault(path: str, longest: int = 1024) -> str:
    """Why `path` may not occur in an archive, "" when it may. `longest` is in bytes."""
    if len(path) <= longest and _USUAL.fullmatch(path):
        return ""
    try:
        encoded = path.encode("utf-8")
    except UnicodeEncodeError:
        return "is not UTF-8"
    if not path:
        return "is empty"
    if len(encoded) > longest:
        return f"is longer than {longest} bytes"
    if not path.isprintable() and any(ord(letter) < 0x20 or 0x7F <= ord(letter) < 0xA0 for letter in path):
        return "holds a control character"
    return _fault_of_parts(path)


def _fault_of_parts(path: str) -> str:
    if path.startswith("/"):
        return "is absolute"
    parts = path.split("/")
    if "" in parts:
        return "has an empty part"
    if "." in parts or ".." in parts:
        return "has a part that is . or .."
    if len(parts) > DEEPEST:
        return f"has more than {DEEPEST} parts"
    if any(len(part) > _LONGEST_PART // 4 and len(part.encode("utf-8")) > _LONGEST_PART for part in parts):
        return f"has a part longer than {_LONGEST_PART} bytes"
    if parts[0] == OWN or parts[-1].startswith(TEMPORARY_PREFIX):
        return "is a name of glowplug's own"
    return ""


def travelling_mode(mode: int) -> int:
    """A file mode usable by any UID of group 0: the owner can read, the group may do what the owner may, others never write."""
    owner = (mode >> 6) & 0o7 | 0o4
    return owner << 6 | owner << 3 | mode & 0o5


class Walker:
    """Directory descriptors below a root, kept for the path last asked for: sorted paths cost one open each.

    Not for several threads at once. The root itself may be reached through links: it was named by the caller.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._stack: list[tuple[str, int]] = []
        self._folder = ""
        self._descriptor = self._root

    def __enter__(self) -> Walker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give all descriptors back."""
        self._shorten(0)
        self._descriptor = -1
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    def descriptor(self) -> int:
        """The root's own."""
        return self._root

    def parent(self, path: str, *, make: bool = False) -> tuple[int, str]:
        """The descriptor of the directory that holds `path`, and its last part.

        With `make`, missing directories are made. Raises OSError (ENOENT, ENOTDIR, and ELOOP or ENOTDIR at a symlink). The
        descriptor is good until the next call.
        """
        folder, _, name = path.rpartition("/")
        if folder == self._folder and self._descriptor >= 0:  # most files lie beside the one before
            return self._descriptor, name
        self._descriptor = -1
        folders = folder.split("/") if folder else []
        same = 0
        while same < min(len(folders), len(self._stack)) and self._stack[same][0] == folders[same]:
            same += 1
        self._shorten(same)
        for part in folders[same:]:
            above = self._stack[-1][1] if self._stack else self._root
            self._stack.append((part, _enter(part, above, make=make)))
        self._folder, self._descriptor = folder, self._stack[-1][1] if self._stack else self._root
        return self._descriptor, name

    def _shorten(self, length: int) -> None:
        while len(self._stack) > length:
            os.close(self._stack.pop()[1])


def _enter(folder: str, above: int, *, make: bool) -> int:
    try:
        return os.open(folder, _OPEN_DIRECTORY, dir_fd=above)
    except FileNotFoundError:
        if not make:
            raise
    try:
        os.mkdir(folder, DIRECTORY_MODE, dir_fd=above)
    except FileExistsError:  # another process made it
        return os.open(folder, _OPEN_DIRECTORY, dir_fd=above)
    descriptor = os.open(folder, _OPEN_DIRECTORY, dir_fd=above)
    with contextlib.suppress(OSError):  # the umask took the group's rights
        os.fchmod(descriptor, DIRECTORY_MODE)
    return descriptor
