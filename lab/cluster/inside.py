"""Commands on a node, and images onto it: for whoever holds the cluster, and for any other process of this machine's root.

A node is found by its control group alone, so that a prompt can use a cluster that another process started.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from lab.cluster import cgroups, images

_ENTER = ("--mount", "--net", "--uts", "--ipc", "--pid", "--root", "--wd=/")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_IMPORTED = re.compile(r"^unpacking (\S+)", re.MULTILINE)


def running(base: Path) -> dict[str, str]:
    """The nodes of the cluster in that directory that run: name → control group."""
    groups = {path.name: f"{base.name}/{path.name}" for path in sorted((base / "nodes").glob("*"))}
    return {name: group for name, group in groups.items() if cgroups.first(group) is not None}


def run(
    group: str, argv: Sequence[str], *, stdin: IO[bytes] | None = None, timeout: float = 120.0
) -> subprocess.CompletedProcess[str]:
    """Run a command on the node itself, as its root; text output captured. Raises OSError when the node is down."""
    pid = cgroups.first(group)
    if pid is None:
        raise OSError(f"{Path(group).name} does not run")
    return subprocess.run(
        ["nsenter", f"--target={pid}", *_ENTER, "--", *argv],
        env={"PATH": _PATH},
        stdin=stdin or subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


def load(group: str, archive: Path) -> list[str]:
    """Import an image's archive into the node's containerd; returns its names there. Raises OSError."""
    with archive.open("rb") as file:
        done = run(group, images.import_command(), stdin=file, timeout=600.0)
    if done.returncode != 0:
        raise OSError(f"{Path(group).name}: {archive.name}: {done.stderr.strip()}")
    return _IMPORTED.findall(done.stdout)
