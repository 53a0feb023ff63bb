"""Where a pod keeps what its engine compiles: which volume is meant for it, where the engine really writes, who sets that.

A vLLM pod without any cache volume is a plain pod, and nothing here blames it. What the rules are about is a volume that is meant
for compiled artifacts: by its name, by a variable that names no other cache, or because glowplug's launcher keeps them there. A
mount into which the engine's default directory happens to fall (a claim at `/root/.cache`) keeps them as well, but is not
`meant`; one at the engine's own directory (`/root/.cache/vllm`) is, whatever its name.
"""

from __future__ import annotations

import functools
import posixpath
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from glowplug.engines.defaults import default, is_default
from glowplug.engines.versions import parts
from glowplug.engines.vllm import caches
from glowplug.engines.vllm.command import on
from glowplug.lint import mending
from glowplug.manifests import images, recipe
from glowplug.manifests.edit import Put
from glowplug.models.read import of_size
from glowplug.plan import compiling
from glowplug.plan.loaders import Loader
from glowplug.plan.request import Request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from glowplug.lint.view import Mount, Variable, Workload
    from glowplug.manifests.edit import Operation

VLLM: Final = "vllm"
SGLANG: Final = "sglang"
_ROOTS: Final = {VLLM: "VLLM_CACHE_ROOT", SGLANG: "SGLANG_CACHE_DIR"}
# Directories of these hold nothing that was compiled, or are another cache's as well.
_NO_CACHE: Final = frozenset({"VLLM_ASSETS_CACHE", "VLLM_XLA_CACHE_PATH", "RUNAI_STREAMER_LOG_TO_STDERR"})
# vLLM's own tree in whoever's home: nothing else is kept there.
_OWN_TREE: Final = "/.cache/vllm"
_OF_LAUNCHER: Final = ("GLOWPLUG_CACHE_ROOT", "GLOWPLUG_STORE", "GLOWPLUG_NODE_STORE")
_LAUNCHED: Final = re.compile(r"/glowplug(?:\.pyz)? run\b|(?:\A|\s)glowplug run\b")
_NAMED: Final = re.compile(
    r"(?:^|[-_./])(?:compile[dr]?|compilation|torch-?compile|(?:torch)?inductor|triton)[-_]?caches?(?:$|[-_./])"
)
_MAYBE: Final = re.compile(r"(?:^|[-_./])(?:vllm|sglang|trtllm|torch|kernels?|jit)[-_]?caches?(?:$|[-_./])")
_NO_STORAGE: Final = frozenset({"configMap", "secret", "projected", "downwardAPI"})
_SCRATCH: Final = ("/tmp", "/var/tmp", "/dev/shm", "/run")  # noqa: S108 - paths in a container, recognised and not written to
_AOT_VARIABLES: Final = ("VLLM_USE_AOT_COMPILE", "VLLM_BATCH_INVARIANT", "VLLM_DISABLE_COMPILE_CACHE")


@dataclass(frozen=True)
class Keeping:
    """`mount` is the volume with the compiled artifacts, None where there is none. `root` is the directory of the engine's own
    tree, None where it cannot be known; `root_by` the variable that decides it, None for the default. `launcher`: glowplug sets the
    variables in the pod, below `cache_root`."""

    launcher: bool
    cache_root: str
    mount: Mount | None
    meant: bool
    root: str | None
    root_by: Variable | None

    @property
    def kept(self) -> bool:
        """Whether the pod is meant to keep what it compiles, by whatever means."""
        return self.launcher or (self.mount is not None and self.meant)


def keeping(workload: Workload) -> Keeping:
    """What a pod keeps, and where; looked up once for each pod, since nearly every rule asks."""
    found = _SEEN.get(workload)
    if found is None:
        found = _SEEN[workload] = _keeping(workload)
    return found


_SEEN: Final[WeakKeyDictionary[Workload, Keeping]] = WeakKeyDictionary()


def _keeping(workload: Workload) -> Keeping:
    launcher = launched(workload)
    root, root_by = _root(workload, launcher=launcher)
    variables = pointing(workload)
    container = workload.container
    mount: Mount | None = None
    meant = False
    if launcher:
        mount, meant = container.mount_of(_launched_root(workload) or recipe.CACHE_ROOT), True
    if mount is None and root is not None and (root_by is None or root_by.name in (*_ROOTS.values(), "XDG_CACHE_HOME")):
        mount = container.mount_of(root)
        meant = mount is not None and (
            (root_by is not None and not _scratch(mount, root_by))
            or below(mount.path, root)
            or _is_named(workload, mount)
        )
    if mount is None and root is None and root_by is not None and root_by.name in _ROOTS.values():
        mount = container.mount_of(_begin(root_by))
        meant = mount is not None
    if mount is None or not meant:
        named = next((one for one in container.mounts if _is_named(workload, one)), None)
        pointed = next(
            (
                found
                for variable in variables.values()
                if variable.value
                and not variable.value.startswith(_SCRATCH)
                and (found := container.mount_of(variable.value)) is not None
            ),
            None,
        )
        better = named or pointed
        if better is not None:
            mount, meant = better, True
    cache_root = _launched_root(workload) if launcher else None
    return Keeping(
        launcher=launcher,
        cache_root=cache_root or (mount.path.rstrip("/") if mount and meant else recipe.CACHE_ROOT),
        mount=mount,
        meant=meant and mount is not None,
        root=root,
        root_by=root_by,
    )


def launched(workload: Workload) -> bool:
    """Whether glowplug starts the engine, and so restores its cache and sets its variables."""
    environment = workload.container.environment
    if environment.value("GLOWPLUG_DISABLE") == "1":
        return False
    if any(name in environment.variables for name in _OF_LAUNCHER):
        return True
    words = (
        word.text
        for name in ("command", "args")
        if (value := workload.container.value.get(name)) is not None
        for word in value.elements()
    )
    joined = " ".join(words)
    return "glowplug" in joined and _LAUNCHED.search(joined) is not None


def _launched_root(workload: Workload) -> str | None:
    return workload.container.environment.value("GLOWPLUG_CACHE_ROOT")


def placed(workload: Workload, cache_root: str) -> dict[str, str]:
    """The variables that put everything this engine compiles below a cache root: what `render` writes and the launcher sets."""
    return _placed(workload.engine.name, workload.engine.version, cache_root)


def _placed(engine: str, version: str, cache_root: str) -> dict[str, str]:
    request = Request(model=of_size(1, ""), engine=engine, cache_root=cache_root)
    return compiling.split(compiling.variables(request, Loader(engine, version), 1))[0]


def set_together(workload: Workload, variables: Mapping[str, str]) -> tuple[Operation, ...] | None:
    """Variables for a container, which may have none yet; None where one cannot be set."""
    found: list[Operation] = []
    for name, value in variables.items():
        one = mending.set_variable(workload.container, name, value)
        if one is None:
            return None
        found += one
    # Each of them would make the list anew where there is none.
    lists = [one for one in found if isinstance(one, Put) and one.key == "env"]
    if len(lists) < 2:
        return tuple(found)
    whole = replace(lists[0], value=[entry for one in lists for entry in one.value])
    return (whole, *(one for one in found if one not in lists))


def pointing(workload: Workload) -> dict[str, Variable]:
    """The variables of the container that place a compile cache and nothing else."""
    names = _names(workload.engine.name)
    return {name: one for name, one in workload.container.environment.variables.items() if name in names}


def aot(workload: Workload) -> bool | None:
    """Whether vLLM keeps ahead-of-time artifacts here; None where version or variables leave that open."""
    environment = workload.container.environment
    if workload.engine.name != VLLM or not environment.whole:
        return None
    if any((found := environment.get(name)) is not None and found.value is None for name in _AOT_VARIABLES):
        return None
    known = {name: value for name in _AOT_VARIABLES if (value := environment.value(name)) is not None}
    if on(known, "VLLM_BATCH_INVARIANT"):
        return False
    chosen = known.get("VLLM_USE_AOT_COMPILE", "").strip()
    if chosen:
        return chosen == "1"
    if on(known, "VLLM_DISABLE_COMPILE_CACHE"):
        return False
    version = workload.engine.version
    return behaviour("aot_compile_default", version) == "on" if version else None


@functools.lru_cache(maxsize=1024)
def behaviour(name: str, version: str) -> str:
    """What the adapter's table says of a version, looked up once for all the pods that have it."""
    return caches.behaviour(name, version)


def overwritten(workload: Workload, name: str) -> bool | None:
    """Whether the engine sets this variable itself, whatever the pod says; None where that cannot be known."""
    if workload.engine.name != VLLM or name not in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        return False
    version = workload.engine.version
    redirected = redirecting(workload)
    if redirected and behaviour(f"{name}_overwritten_by_adaptor", version) == "yes":
        return True
    if name == "TRITON_CACHE_DIR":
        return None if redirected is None else False
    ahead = aot(workload)
    if ahead is None or not version:
        return None
    if ahead and behaviour("TORCHINDUCTOR_CACHE_DIR_overwritten_by_aot", version) == "yes":
        return True
    return None if redirected is None else False


def redirecting(workload: Workload) -> bool | None:
    """Whether vLLM puts what torch and Triton keep into its own tree by setting their variables, those that are not set too; None
    where version or variables leave that open."""
    environment = workload.container.environment
    if workload.engine.name != VLLM:
        return False
    switch = environment.get(caches.ADAPTOR_SWITCH)
    if not environment.whole or not workload.engine.version or (switch is not None and switch.value is None):
        return None
    known = {} if switch is None or switch.value is None else {switch.name: switch.value}
    found = _adaptor(workload.engine.version, tuple(known.items()))
    return found == caches.REDIRECTING if found else None


@functools.lru_cache(maxsize=1024)
def _adaptor(version: str, environ: tuple[tuple[str, str], ...]) -> str:
    return caches.adaptor(version, dict(environ))


def at_default(workload: Workload, name: str) -> bool:
    """Whether a volume is mounted where this variable's cache lies without it: a person put it there, and it stays there."""
    home = _home(workload)
    where = default(name, home) if home is not None else None
    if where is None:
        return any(is_default(name, mount.path) for mount in workload.container.mounts)
    return workload.container.mount_of(where) is not None or any(
        below(mount.path, where) for mount in workload.container.mounts
    )


def below(path: str, directory: str) -> bool:
    """Whether a path is that directory or lies in it, whole parts compared."""
    one, other = normal(path), normal(directory)
    return one == other or one.startswith(other.rstrip("/") + "/")


def normal(path: str) -> str:
    """One spelling of an absolute path."""
    return posixpath.normpath(re.sub(r"\A//+", "/", path))


def at_least(version: str, since: str) -> bool:
    """Whether a known version is that one or newer; False for an unknown one."""
    return bool(version) and parts(version) >= parts(since)


@functools.cache
def _names(engine: str) -> frozenset[str]:
    return frozenset(_placed(engine, "", recipe.CACHE_ROOT)) - _NO_CACHE


def _root(workload: Workload, *, launcher: bool) -> tuple[str | None, Variable | None]:
    """The engine's own directory and the variable that says so."""
    environment = workload.container.environment
    own = _ROOTS.get(workload.engine.name)
    if own is None:
        return None, None
    found = environment.get(own)
    if found is not None:
        return _expanded(workload, found.value), found
    if launcher:
        return f"{_launched_root(workload) or recipe.CACHE_ROOT}/{workload.engine.name}", None
    if not environment.whole or workload.engine.opaque:
        return None, None
    if workload.engine.name != VLLM:
        return None, None
    for name, below_it in (("XDG_CACHE_HOME", "vllm"), ("HOME", ".cache/vllm")):
        found = environment.get(name)
        if found is not None:
            path = _expanded(workload, found.value)
            return (None if path is None else f"{path.rstrip('/')}/{below_it}"), found
    return ("/root/.cache/vllm" if _home_is_roots(workload) else None), None


def _begin(variable: Variable) -> str:
    """The directories that a path surely begins with, before the first reference that nobody knows."""
    return variable.at.text.partition("$")[0].rpartition("/")[0]


def _expanded(workload: Workload, path: str | None) -> str | None:
    """An absolute path, None for what cannot be known."""
    if path is None:
        return None
    if path == "~" or path.startswith("~/"):
        base = _home(workload)
        return None if base is None else base.rstrip("/") + path[1:]
    return path if path.startswith("/") else None


def _home(workload: Workload) -> str | None:
    """The home directory of whoever the engine runs as, None where the manifest does not tell."""
    set_to = workload.container.environment.get("HOME")
    if set_to is not None:
        return set_to.value
    return "/root" if _home_is_roots(workload) else None


def _home_is_roots(workload: Workload) -> bool:
    """Whether the home directory is `/root`: in vLLM's own image, unless the pod chooses a user. Others may have any."""
    image = workload.container.image
    return image is not None and images.read(image.text).starts_server and runs_as_root(workload)


def runs_as_root(workload: Workload) -> bool:
    """Whether nothing says that the engine runs as another user than its image's, which is root in the engines' own images."""
    contexts = (workload.container.value.get("securityContext"), workload.spec.get("securityContext"))
    for context in contexts:
        if context is not None and (context.get("runAsUser") or context.get("runAsNonRoot")):
            user = context.get("runAsUser")
            return user is not None and user.text == "0"
    return True


def _scratch(mount: Mount, by: Variable) -> bool:
    """Whether a variable that every program reads points to a directory for temporary files."""
    return by.name == "XDG_CACHE_HOME" and mount.path.startswith(_SCRATCH)


def _is_named(workload: Workload, mount: Mount) -> bool:
    """Whether a mount's name or path says that it holds compiled artifacts."""
    if mount.kind in _NO_STORAGE:
        return False
    words = f"{mount.name.lower()} {mount.path.lower()}"
    if "huggingface" in words or "glowplug" in mount.name:
        return False
    if any(_NAMED.search(word) for word in words.split()):
        return True
    if workload.engine.name == VLLM and mount.path.rstrip("/").endswith(_OWN_TREE):
        return True
    return any(_MAYBE.search(word) for word in words.split()) and not _used_otherwise(workload, mount)


def _used_otherwise(workload: Workload, mount: Mount) -> bool:
    """Whether something else than a compile cache is put into it: a model, a hub's cache, a download."""
    environment: Mapping[str, Variable] = workload.container.environment.variables
    names = _names(workload.engine.name)
    values = [one.value for name, one in environment.items() if name not in names and one.value]
    engine = workload.engine
    values += [one.value for one in engine.options.values() if one.value]
    if engine.model is not None and engine.model.value:
        values.append(engine.model.value)
    return bool(engine.opaque) or any(value.startswith("/") and below(value, mount.path) for value in values)
