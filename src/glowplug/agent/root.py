"""Where the agent keeps its things: the first of several directories that lies on an NVMe instance store.

Which one a node has depends on its image (AL2023 mounts the array elsewhere than Bottlerocket and Auto Mode do), and a directory
that is there proves nothing: a hostPath makes it on the root volume just as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from glowplug.core.errors import UsageError
from glowplug.host import blocks
from glowplug.manifests import recipe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from glowplug.host.blocks import Backing

_MOUNTS: Final = (recipe.nvme_mount("", "al2023"), recipe.nvme_mount("", "bottlerocket"))
ROOTS: Final = tuple(Path(recipe.agent_root(mount)) for mount in _MOUNTS)
"""The agent's own directory, where the command line names none."""


@dataclass(frozen=True)
class Root:
    """`path` is the directory to use. `why` says in words on what it lies; `kept` is False where an instance store was demanded
    and there is none: then nothing is kept in it.
    """

    path: Path
    nvme_backed: bool
    why: str
    kept: bool = True


def find(
    candidates: Sequence[Path] = ROOTS,
    require: bool = False,
    *,
    backing: Callable[[str], Backing] = blocks.of,
) -> Root:
    """The first candidate that is NVMe-backed, else the first of all. `require`: nothing is kept elsewhere.

    Makes no directory. Raises UsageError without a candidate.
    """
    if not candidates:
        raise UsageError("no directory is named for the agent")
    found = [(path, backing(str(path))) for path in candidates]
    for path, below in found:
        if below.nvme:
            return Root(path, nvme_backed=True, why=described(path, below))
    return Root(
        found[0][0],
        nvme_backed=False,
        why="; ".join(described(path, below) for path, below in found),
        kept=not require,
    )


def described(path: Path, below: Backing) -> str:
    """On what a directory lies, in words: `/mnt/k8s-disks/0/glowplug on md127 (raid0): 2 × Amazon EC2 NVMe Instance Storage`."""
    if below.why:
        return f"{path}: {below.why}"
    models = [disk.model or f"{disk.name} (no model)" for disk in below.disks]
    counted = [f"{models.count(model)} × {model}" for model in dict.fromkeys(models)]
    level = f" ({below.level})" if below.level else ""
    return f"{path} on {below.device}{level}: {', '.join(counted)}"
