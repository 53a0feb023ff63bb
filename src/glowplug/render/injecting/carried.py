"""What of a pod is glowplug's: how an edit knows what `render`, or an edit before it, put there.

By name and shape, never by name alone: a volume that a person called `compile-cache` and that is a claim of theirs is theirs.
What is glowplug's may be changed and taken away; what is not stays, or is a reason to leave the pod alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from glowplug.manifests import recipe

if TYPE_CHECKING:
    from collections.abc import Sequence

PREFIX_WORDS: Final = 4
"""`sh -c SCRIPT glowplug`, in front of the engine's own command."""
SCRIPT: Final = 2
"""Where the script stands among them."""

VARIABLES: Final = (
    recipe.POD_UID,
    "GLOWPLUG_STORE",
    "GLOWPLUG_DOMAIN",
    "GLOWPLUG_CACHE_ROOT",
    "GLOWPLUG_NO_PUBLISH",
    "GLOWPLUG_NODE_STORE",
    "GLOWPLUG_OUTBOX",
)
"""All that the recipes of serving pods set."""

_SHELL: Final = ["sh", "-c"]
_TAIL: Final = 'exec "$@"'
_SERVES: Final = " run --exec -- "
_BAKES: Final = " run --exit-when-ready -- "
_NVMES: Final = tuple(
    recipe.nvme_mount(compute, ami) for compute, ami in (("karpenter", "al2023"), ("karpenter", "bottlerocket"))
)
_TYPES: Final = ("DirectoryOrCreate", "Directory", "", None)


def is_wrapped(command: Sequence[str]) -> bool:
    """Whether a command begins with the client's prefix, of whichever mode."""
    return _is_prefix(command) and _SERVES in command[SCRIPT]


def is_bake(command: Sequence[str]) -> bool:
    """Whether it is that of a bake job."""
    return _is_prefix(command) and _BAKES in command[SCRIPT]


def _is_prefix(command: Sequence[str]) -> bool:
    return (
        len(command) >= PREFIX_WORDS
        and list(command[:2]) == _SHELL
        and command[3] == recipe.SHELL_NAME
        and command[SCRIPT].rstrip().endswith(_TAIL)
    )


def is_own_volume(volume: Any) -> bool:
    """Whether a volume is one that a recipe makes, in any of its modes. The shared directory of the AWS guide is one."""
    if not isinstance(volume, dict):
        return False
    name = volume.get("name")
    rest = {key: value for key, value in volume.items() if key != "name"}
    if set(rest) == {"emptyDir"}:
        return name in (recipe.CACHE_VOLUME, recipe.CLIENT_VOLUME) and not rest["emptyDir"]
    path = host_path(volume)
    if path is None or len(rest) > 1 or rest["hostPath"].get("type") not in _TYPES:
        return False
    if name == recipe.CACHE_VOLUME:
        return path in {recipe.shared_directory(nvme) for nvme in _NVMES}
    if name == recipe.STORE_VOLUME:
        return any(path.startswith(recipe.store_directory(nvme, "")) for nvme in _NVMES)
    return name == recipe.OUTBOX_VOLUME and path in {recipe.outbox_directory(nvme) for nvme in _NVMES}


def is_own_init_container(container: Any) -> bool:
    """Whether it is the one that copies the client, whatever its image and resources."""
    if not isinstance(container, dict):
        return False
    command = container.get("command")
    words = command if isinstance(command, list) else []
    return container.get("name") == "glowplug" and any(recipe.CLIENT_SOURCE in str(word) for word in words)


def host_path(volume: Any) -> str | None:
    """The directory of the node that a volume is, without a slash at its end; None for another kind."""
    found = volume.get("hostPath") if isinstance(volume, dict) else None
    if not isinstance(found, dict) or not isinstance(found.get("path"), str):
        return None
    return str(found["path"]).rstrip("/")
