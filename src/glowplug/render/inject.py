"""The same change to a pod as `render` makes, as an edit of a pod that is there already.

What is wanted is the recipe of the mode (`manifests/recipe.py`) and the engine's cache variables; what is there is compared with
it, part by part. So a second edit finds nothing to do, and another mode or store changes what differs: what the recipe of another
mode had brought goes (`injecting/carried.py` knows it), what a person wrote stays, and where the two want the same name the pod
is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from glowplug.manifests import recipe
from glowplug.manifests.edit import Operation, Put, Remove
from glowplug.manifests.kubelet import escaped, literal
from glowplug.manifests.writing import plain
from glowplug.render import pods
from glowplug.render.injecting import carried, knative, variables, volumes
from glowplug.render.injecting.listing import Listing
from glowplug.render.injecting.part import Part
from glowplug.render.injecting.pod import Pod, RefusedError, demand, text
from glowplug.render.options import Mode, Options

if TYPE_CHECKING:
    from glowplug.manifests.recipe import Recipe
    from glowplug.manifests.values import Value

__all__ = ["Injection", "Pod", "RefusedError", "inject"]

_INIT_CONTAINER: Final = "glowplug"
_BAKE: Final = "a bake job stays as it is: it publishes what the others restore"


@dataclass(frozen=True)
class Injection:
    """What to do to a pod. `changes` says it in a phrase each, nothing when there is nothing to do; `notes` what stays as a person
    had it, and what the pod lacks for that."""

    operations: tuple[Operation, ...] = ()
    changes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def inject(pod: Pod, options: Options) -> Injection:
    """The edit that gives a pod what `options` (mode, nodes, store, domain, image) say.

    Raises RefusedError with the reason why this pod is left alone, and UsageError for a name that Kubernetes would refuse.
    """
    if pod.is_bake:
        return Injection(notes=(_BAKE,))
    options = _with_kept_domain(pod, options)
    demand(pod, options)
    added = pods.warming(options, recipe.CACHE_ROOT)
    knative.demand(pod, options, added)
    parts = (
        _label(pod, added),
        _init_container(pod, options, added),
        _command(pod, options, added),
        variables.compared(pod, options, added),
        volumes.compared(pod, options, added),
    )
    changes = tuple(one for part in parts for one in part.changes)
    notes = [one for part in parts for one in part.notes]
    if changes:
        notes += knative.notes(pod, added)
    if pod.off:
        notes.append(f"{pod.off}: there is nothing to keep or restore until that is gone")
    return Injection(tuple(one for part in parts for one in part.operations), changes, tuple(notes))


def _with_kept_domain(pod: Pod, options: Options) -> Options:
    """A domain that was named once, and is not simply the namespace, stays the domain until another one is named."""
    env = Listing(pod.container, "env").named(variables.DOMAIN)
    value = text(env[1], "value") if env is not None else ""
    if options.domain or options.mode is Mode.SHARED or value in ("", pod.namespace):
        return options
    return replace(options, domain=value)


def _label(pod: Pod, added: Recipe) -> Part:
    """The pod's mode."""
    part = Part()
    wanted = added.labels.get(recipe.MODE_LABEL, "")
    labels = pod.labelled.get("labels") if pod.labelled is not None else None
    if pod.label == wanted:
        return part
    if not wanted:
        if labels is not None and pod.labelled is not None:
            alone = len(list(labels.items())) == 1
            part.operations.append(Remove(pod.labelled, "labels") if alone else Remove(labels, recipe.MODE_LABEL))
        part.changes.append(f"label {recipe.MODE_LABEL} removed")
        return part
    if pod.labelled is None:
        part.operations.append(Put(pod.template, "metadata", {"labels": dict(added.labels)}))
    elif labels is None or not labels.is_mapping:
        part.operations.append(Put(pod.labelled, "labels", dict(added.labels), after="name"))
    else:
        part.operations.append(Put(labels, recipe.MODE_LABEL, wanted))
    part.changes.append(f"label {recipe.MODE_LABEL}: {wanted}")
    return part


def _init_container(pod: Pod, options: Options, added: Recipe) -> Part:
    """The one that copies the client."""
    part = Part()
    listed = Listing(pod.spec, "initContainers", _in_front_of(pod.spec, "containers"))
    found = listed.named(_INIT_CONTAINER)
    own = found if found is not None and carried.is_own_init_container(found[1].data) else None
    if own is not None and added.init_containers:
        return _brought_up(own[1], options, added)
    if own is not None:
        listed.remove(own[0])
        part.changes.append(f"init container {_INIT_CONTAINER} removed")
    elif added.init_containers:
        listed.add_first(*escaped({"initContainers": added.init_containers})["initContainers"])
        part.changes.append(f"init container {_INIT_CONTAINER} ({pods.tool_image(options)})")
    part.operations += listed.operations()
    return part


def _brought_up(own: Value, options: Options, added: Recipe) -> Part:
    """One that is there gets what the recipe says now; an image stays where none was named, resources are a person's."""
    part = Part()
    wanted = plain(escaped({"initContainers": added.init_containers})["initContainers"])[0]
    keys = ("command", "volumeMounts", *(("image",) if options.glowplug_image else ()))
    for key in keys:
        there = own.get(key)
        if there is None or there.data != wanted[key]:
            part.operations.append(Put(own, key, wanted[key]))
            part.changes.append(
                f"init container {_INIT_CONTAINER}: {key}" + (f" {wanted[key]}" if key == "image" else "")
            )
    return part


def _command(pod: Pod, options: Options, added: Recipe) -> Part:
    """The client in front of the engine."""
    part = Part()
    prefix = [literal(word) for word in added.prefix]
    listed = Listing(pod.container, "command", ("image", "name"))
    if pod.is_wrapped and not prefix:
        for index in range(carried.PREFIX_WORDS):
            listed.remove(index)
        part.changes.append("command: without the client")
    elif pod.is_wrapped:
        if pod.command[carried.SCRIPT] != prefix[carried.SCRIPT]:
            listed.replace(carried.SCRIPT, prefix[carried.SCRIPT])
            part.changes.append(f"command: the client of mode {options.mode.value}")
    elif prefix:
        _wrap(pod, listed, prefix, part)
    part.operations += listed.operations()
    return part


def _wrap(pod: Pod, listed: Listing, prefix: list[str], part: Part) -> None:
    if pod.command:
        listed.add_first(*prefix)
        part.changes.append("command: the client in front")
    else:
        listed.add(*prefix, *(literal(word) for word in pod.entrypoint))
        part.changes.append(
            f"command: the client in front of the image's own entrypoint, `{' '.join(pod.entrypoint)}`, written out"
        )
    if pod.opaque:
        part.notes.append(
            f"the command cannot be followed by reading ({pod.opaque}): where the client cannot tell what it starts either, "
            "nothing is restored, and the engine starts as it always did"
        )


def _in_front_of(mapping: Value, key: str) -> tuple[str, ...]:
    """The keys before another, the nearest first: something to come after."""
    names = [name for name, _ in mapping.items()]
    return tuple(reversed(names[: names.index(key)])) if key in names else ()
