"""Volumes of the pod and where the engine's container sees them.

A volume of the right name and another kind is a person's, and is never replaced; one that is glowplug's from another mode is. What
is just as good (an emptyDir with a limit, the guide's directory under another name) stays.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any, Final

from glowplug.manifests import recipe
from glowplug.manifests.writing import plain
from glowplug.render.injecting import carried
from glowplug.render.injecting.listing import Listing
from glowplug.render.injecting.part import Part
from glowplug.render.injecting.pod import RefusedError, text
from glowplug.render.options import Mode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from glowplug.manifests.recipe import Recipe
    from glowplug.render.injecting.pod import Pod
    from glowplug.render.options import Options

_OWN_MOUNTS: Final = {
    recipe.CLIENT_VOLUME: recipe.CLIENT_MOUNT,
    recipe.STORE_VOLUME: recipe.STORE_MOUNT,
    recipe.OUTBOX_VOLUME: recipe.OUTBOX_MOUNT,
}


def compared(pod: Pod, options: Options, added: Recipe) -> Part:
    """What the pod lacks, and what it has from another mode. Raises RefusedError for names and paths that are taken."""
    part = Part()
    mounts = Listing(pod.container, "volumeMounts", ("resources", "env", "args", "command", "image"))
    volumes = Listing(pod.spec, "volumes", ("containers",))
    _demand_free_paths(mounts, added)
    for volume, mount in zip(added.volumes, added.mounts, strict=True):
        if _is_the_cache(mount) and _has_another(options, mounts, volumes, volume, part):
            continue
        _mount(mounts, mount, part)
        _volume(pod, volumes, volume, part)
    _superfluous(pod, mounts, volumes, {plain(volume)["name"] for volume in added.volumes}, part)
    part.operations += mounts.operations()
    part.operations += volumes.operations()
    return part


def is_own_mount(mount: Any) -> bool:
    """Whether a mount is one of the client's; that of the caches may be a person's own."""
    if not isinstance(mount, dict):
        return False
    return _OWN_MOUNTS.get(str(mount.get("name"))) == _path(str(mount.get("mountPath")))


def _is_the_cache(mount: Any) -> bool:
    return bool(plain(mount)["name"] == recipe.CACHE_VOLUME)


def _demand_free_paths(mounts: Listing, added: Recipe) -> None:
    """Nothing of a person's lies in glowplug's directories, or where they go."""
    client = (recipe.CLIENT_MOUNT,) if added.prefix else ()
    for one in mounts.elements:
        path, name = _path(text(one, "mountPath")), text(one, "name")
        if is_own_mount(one.data):
            continue
        within = [root for root in (recipe.CACHE_ROOT, *client) if path.startswith(f"{root}/")]
        within += [root for root in client if path == root]
        if within:
            raise RefusedError(
                f"the volume {name} is mounted at {path}, and {within[0]} is glowplug's: mount it elsewhere"
            )


def _has_another(options: Options, mounts: Listing, volumes: Listing, wanted: Any, part: Part) -> bool:
    """Whether a volume of another name is mounted at the cache root and just as good. Raises RefusedError for one that is not."""
    at = [text(one, "name") for one in mounts.elements if _path(text(one, "mountPath")) == recipe.CACHE_ROOT]
    other = next((name for name in at if name != recipe.CACHE_VOLUME), None)
    if other is None:
        return False
    found = volumes.named(other)
    data = found[1].data if found else {}
    own_directory = options.mode is not Mode.SHARED and set(data) == {"name", "emptyDir"}
    if own_directory or _without_name(data) == _without_name(plain(wanted)):
        part.notes.append(f"the volume {other} stays the one at {recipe.CACHE_ROOT}")
        return True
    raise RefusedError(
        f"the volume {other} ({_shown(data) or 'a claim'}) is mounted at {recipe.CACHE_ROOT}, where {_shown(plain(wanted))} has to "
        "be: take its mount out"
    )


def _mount(mounts: Listing, mount: Any, part: Part) -> None:
    wanted = plain(mount)
    name, path = wanted["name"], wanted["mountPath"]
    there = [
        (index, one)
        for index, one in enumerate(mounts.elements)
        if text(one, "name") == name and _path(text(one, "mountPath")) == path
    ]
    if not there:
        mounts.add(mount)
        part.changes.append(f"mount {path}")
        return
    index, one = there[0]
    if name == recipe.CACHE_VOLUME:
        if text(one, "readOnly") == "true":
            raise RefusedError(f"the volume {name} is mounted read-only at {path}, and an engine has to write it")
    elif one.data != wanted:
        mounts.replace(index, mount)
        part.changes.append(f"mount {path}")


def _volume(pod: Pod, volumes: Listing, volume: Any, part: Part) -> None:
    wanted = plain(volume)
    name = wanted["name"]
    if name in pod.claims:
        raise RefusedError(
            f"the name {name} is a volume claim template's, and has to be {_shown(wanted)}: rename yours"
        )
    found = volumes.named(name)
    if found is None:
        volumes.add(volume)
    elif _is_as_good(found[1].data, wanted):
        return
    elif not carried.is_own_volume(found[1].data):
        raise RefusedError(
            f"the volume {name} is another one ({_shown(found[1].data)}), and has to be {_shown(wanted)}: rename yours"
        )
    else:
        volumes.replace(found[0], volume)
        others = pod.mounting(name)
        if others:
            part.notes.append(f"the volume {name} is in {', '.join(others)} too, and is another one there as well now")
    part.changes.append(f"volume {name} ({_shown(wanted)})")


def _superfluous(pod: Pod, mounts: Listing, volumes: Listing, wanted: set[str], part: Part) -> None:
    """What the recipe of another mode had brought. Raises RefusedError where another container uses it."""
    gone = {text(one, "name") for one in volumes.elements if carried.is_own_volume(one.data)} - wanted
    gone.discard(recipe.CACHE_VOLUME)
    for name in sorted(gone):
        others = pod.mounting(name)
        if others:
            raise RefusedError(
                f"the volume {name} of another mode is mounted in {', '.join(others)} too: take that out"
            )
    for listed in (mounts, volumes):
        for index, one in enumerate(listed.elements):
            if text(one, "name") in gone:
                listed.remove(index)
    part.changes += [f"volume {name} removed" for name in sorted(gone)]


def _is_as_good(data: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """The same, an emptyDir with limits of its own, or the guide's directory with another check of its type."""
    if data == wanted:
        return True
    if "emptyDir" in wanted:
        return set(data) == {"name", "emptyDir"}
    return carried.is_own_volume(data) and carried.host_path(data) == wanted["hostPath"]["path"]


def _shown(volume: Mapping[str, Any]) -> str:
    """A volume's kind, and the path of a hostPath."""
    kind = next((key for key in volume if key != "name"), "")
    path = carried.host_path(volume) if kind == "hostPath" else None
    return f"{kind} {path}" if path else kind


def _without_name(volume: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in volume.items() if key != "name"}


def _path(written: str) -> str:
    """A path as the kernel would have it."""
    return "/" + posixpath.normpath(written).lstrip("/") if written else ""
