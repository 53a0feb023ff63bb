"""Start a command on a "new node": own directories at the same absolute paths, the rest of the machine as it is.

`enter.py TASK COMMAND…` is run by `lab.node` as a file (`python -I`), so it imports nothing of ours. TASK is JSON:
`root` (an empty directory, where the new root is put together), `places {path inside: directory outside}` and `keep`
(paths that stay visible although they lie inside a place).

Why a new root and not bind mounts over the old one: a mount point such as /compile-cache must exist, and making it
in the machine's own root would leave it behind. Everything here is undone by the kernel when the command ends.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000

_libc = ctypes.CDLL(None, use_errno=True)


def unshare() -> None:
    """A mount namespace of our own; without the right to one, inside a user namespace with our own ids."""
    if _libc.unshare(CLONE_NEWNS) == 0:
        return
    uid, gid = os.getuid(), os.getgid()
    _check(_libc.unshare(CLONE_NEWNS | CLONE_NEWUSER), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def mount(source: str, target: Path, kind: str | None, flags: int) -> None:
    """mount(2). Raises OSError."""
    result = _libc.mount(
        source.encode(), os.fsencode(target), kind.encode() if kind else None, ctypes.c_ulong(flags), None
    )
    _check(result, f"mount {source} on {target}")


def bind(source: Path, target: Path) -> None:
    """Show the file or directory `source` (with what is mounted below it) at `target`, which is made if missing."""
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    mount(str(source), target, None, MS_BIND | MS_REC)


def assemble(root: Path, places: dict[str, str], keep: list[str]) -> None:
    """Put the node's root together in `root`: the machine's top-level entries, then the places, then what is kept."""
    mount("none", Path("/"), None, MS_REC | MS_PRIVATE)
    outside = {inside: os.open(source, os.O_PATH) for inside, source in places.items()}
    kept = {path: os.open(path, os.O_PATH) for path in keep if Path(path).exists()}
    top = sorted(Path("/").iterdir())
    mount("tmpfs", root, "tmpfs", 0)
    root.chmod(0o755)
    for entry in top:
        target = root / entry.name
        if entry.is_symlink():
            target.symlink_to(entry.readlink())
        elif str(entry) not in places:
            bind(entry, target)
    for inside, descriptor in [*outside.items(), *kept.items()]:
        bind(Path(f"/proc/self/fd/{descriptor}"), root / inside.lstrip("/"))
        os.close(descriptor)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def main() -> None:
    """Enter and become the command."""
    task, argv = json.loads(sys.argv[1]), sys.argv[2:]
    directory = Path.cwd()
    root = Path(task["root"])
    unshare()
    assemble(root, task["places"], task["keep"])
    os.chroot(root)
    os.chdir(directory if directory.is_dir() else "/")
    if not argv:
        return
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - becoming the command is the point
    except OSError as error:
        print(f"{argv[0]}: {error.strerror}", file=sys.stderr)
        raise SystemExit(127 if isinstance(error, FileNotFoundError) else 126) from None


if __name__ == "__main__":
    main()
