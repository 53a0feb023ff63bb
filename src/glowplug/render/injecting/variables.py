"""Variables of the engine's container: those that place its caches, which a person's own win over, and those of the client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from glowplug.core import redact
from glowplug.core.documents.fingerprint import Layout
from glowplug.engines.adapter import Launch
from glowplug.engines.defaults import is_default
from glowplug.engines.places import below
from glowplug.engines.vllm.caches import REASONS
from glowplug.manifests import recipe
from glowplug.manifests.kubelet import escaped, literal
from glowplug.manifests.writing import noted, plain
from glowplug.plan import compiling
from glowplug.render import notice
from glowplug.render.injecting import carried, volumes
from glowplug.render.injecting.listing import Listing
from glowplug.render.injecting.part import Part
from glowplug.render.injecting.pod import RefusedError, text
from glowplug.render.options import Mode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from glowplug.manifests.recipe import Recipe, Variable
    from glowplug.manifests.values import Value
    from glowplug.render.injecting.pod import Pod
    from glowplug.render.options import Options

_TITLE: Final = "torch.compile cache"
_LOST: Final = "neither restored nor published"
_NOT_SHARED: Final = "not in the shared directory"
DOMAIN: Final = "GLOWPLUG_DOMAIN"
_STORE: Final = "GLOWPLUG_STORE"
_ROOT: Final = "GLOWPLUG_CACHE_ROOT"
_NO_PUBLISH: Final = "GLOWPLUG_NO_PUBLISH"
_OUTBOX: Final = "GLOWPLUG_OUTBOX"
_DISABLE: Final = "GLOWPLUG_DISABLE"
_CHOICES: Final = (_STORE, DOMAIN, _NO_PUBLISH)
"""What a person may have chosen otherwise without anything breaking."""


def compared(pod: Pod, options: Options, added: Recipe) -> Part:
    """What the container lacks, and what it has from another mode. Raises RefusedError."""
    part = Part()
    listed = Listing(pod.container, "env", ("args", "command", "image"))
    _caches(pod, options, listed, part)
    for variable in added.variables:
        _client(pod, options, added, variable, listed, part)
    _superfluous(pod, options, added, listed, part)
    part.operations += listed.operations()
    if added.prefix and pod.environ.get(_DISABLE) == "1":
        part.notes.append(f"{_DISABLE}=1 switches the client off: nothing is restored or published until it is gone")
    if options.store or _STORE not in pod.environ:
        part.notes += notice.of_store("deployment", options)
    if not pod.whole and part.changes:
        part.notes.append(
            "some variables come from ConfigMaps or Secrets that are not in the input; those that are set here win over them"
        )
    return part


def _caches(pod: Pod, options: Options, listed: Listing, part: Part) -> None:
    """The engine's own, from its adapter, as in what `render` makes."""
    launch = Launch(engine=pod.engine, model="", layout=Layout(), args={}, env={})
    known = {name: value for name, value in pod.environ.items() if value is not None}
    placed = compiling.place(launch, pod.version, recipe.CACHE_ROOT, known)
    wanted, _ = compiling.split(placed.variables)
    missing = [name for name in wanted if name not in pod.environ]
    for name in missing:
        first = len(missing) == len(wanted) and name == missing[0]
        listed.add(noted({"name": name, "value": literal(wanted[name])}, _TITLE if first else REASONS.get(name, "")))
        part.changes.append(f"variable {name}={wanted[name]}")
    kept, _ = compiling.split(placed.kept)
    part.notes += [_kept(name, value) for name, value in kept.items()]
    part.notes += [_kept(name, None) for name in wanted if name in pod.environ and pod.environ[name] is None]
    costs = [cost.replace(_LOST, _NOT_SHARED) if options.mode is Mode.SHARED else cost for cost in placed.costs]
    part.notes += [_shown(cost, known) for cost in costs]
    part.notes += _left_behind(pod, {name: wanted[name] for name in missing})


def _left_behind(pod: Pod, added: Mapping[str, str]) -> Iterator[str]:
    """Volumes at the places that these variables lead away from."""
    home = (pod.environ.get("XDG_CACHE_HOME") or "").rstrip("/")
    root = added.get("VLLM_CACHE_ROOT")
    for mount in pod.listed(pod.container, "volumeMounts"):
        where = f"the volume {text(mount, 'name')} at {text(mount, 'mountPath')}"
        path = text(mount, "mountPath").rstrip("/")
        name = next((name for name in added if is_default(name, path)), None)
        if name is not None:
            yield f"{where} is no longer used: {name} leads to {added[name]}"
        elif root and home and path and below(f"{home}/vllm", path) and root != f"{home}/vllm":
            yield f"{where} is no longer where vLLM keeps what it compiles: VLLM_CACHE_ROOT leads to {root}"


def _client(pod: Pod, options: Options, added: Recipe, variable: Variable, listed: Listing, part: Part) -> None:
    """One variable of the recipe, which stands there in the recipe's order."""
    entry = _entry(variable)
    found = listed.named(variable.name)
    if found is not None:
        if found[1].data == plain(entry) or _stays(options, variable, found[1], part):
            return
        listed.replace(found[0], entry)
    elif _is_set_elsewhere(pod, options, variable, part):
        return
    else:
        behind = added.variables[added.variables.index(variable) + 1 :]
        listed.add_before([one.name for one in behind if _is_there(listed, one)], entry)
    part.changes.append(f"variable {variable.name}={variable.field_path or variable.value}")


def _entry(variable: Variable) -> Any:
    return escaped({"containers": [{"env": [variable.entry()]}]})["containers"][0]["env"][0]


def _is_there(listed: Listing, variable: Variable) -> bool:
    """Whether it stands there, and not as a person's own, which stays wherever it is."""
    found = listed.named(variable.name)
    return found is not None and (variable.name != _NO_PUBLISH or bool(found[1].data == plain(_entry(variable))))


def _stays(options: Options, variable: Variable, found: Value, part: Part) -> bool:
    """Whether the value that is there is a person's own and may be. Raises RefusedError where it may not."""
    value = text(found, "value")
    if variable.name in (recipe.POD_UID, _ROOT):
        wanted = variable.value or f"the field {variable.field_path}"
        raise RefusedError(f"the variable {variable.name} is set, and not to {wanted}: take it out, or rename yours")
    if _is_asked_for(options, variable.name):
        return False
    if variable.name == _NO_PUBLISH:
        part.notes.append(_kept(variable.name, value))
        return True
    return False


def _is_set_elsewhere(pod: Pod, options: Options, variable: Variable, part: Part) -> bool:
    """Whether a ConfigMap or the command line sets it, and no option says otherwise."""
    if variable.name not in pod.environ or _is_asked_for(options, variable.name):
        return False
    value = pod.environ[variable.name]
    if value == variable.value and not variable.field_path:
        return True
    if variable.name not in _CHOICES:
        return False
    part.notes.append(_kept(variable.name, value))
    return True


def _is_asked_for(options: Options, name: str) -> bool:
    return {_STORE: options.store, DOMAIN: options.domain}.get(name) is not None


def _superfluous(pod: Pod, options: Options, added: Recipe, listed: Listing, part: Part) -> None:
    """What the recipe of another mode had set. A store that was named once stays the store until another one is named."""
    if options.mode is Mode.SHARED and not pod.was_ours:
        return  # without a client these are nobody's business
    wanted = {variable.name for variable in added.variables} | ({_STORE} if options.mode is Mode.DIRECT else set())
    if listed.named(_OUTBOX) is None or _is_referred_to(pod, recipe.POD_UID):
        wanted.add(recipe.POD_UID)
    for index, one in enumerate(listed.elements):
        name = text(one, "name")
        if name in carried.VARIABLES and name not in wanted:
            listed.remove(index)
            part.changes.append(f"variable {name} removed")


def _is_referred_to(pod: Pod, name: str) -> bool:
    """Whether a person's own words use a variable (the pod's UID, which node mode had set)."""
    reference = f"$({name})"
    mounts = pod.listed(pod.container, "volumeMounts")
    words = [text(one, "subPathExpr") for one in mounts if not volumes.is_own_mount(one.data)]
    for key in ("command", "args", "env"):
        words += [word for value in pod.listed(pod.container, key) for word in _texts(value.data)]
    return any(reference in word for word in words)


def _texts(data: Any) -> Iterator[str]:
    if isinstance(data, dict):
        for one in data.values():
            yield from _texts(one)
    elif isinstance(data, str):
        yield data


def _shown(sentence: str, environ: Mapping[str, str]) -> str:
    """A sentence about variables without what is secret in their values."""
    for name, value in environ.items():
        hidden = redact.value(name, value)
        if value and hidden != value:
            sentence = sentence.replace(value, hidden)
    return sentence


def _kept(name: str, value: str | None) -> str:
    shown = "" if value is None else f"={redact.value(name, value)}"
    return f"variable {name}{shown} stays as it is"
