"""Containers of a pod as the kubelet would start them: variables with their references resolved, volumes, mounts, quantities.

What the input does not say stays unknown: a Secret, a field of the pod, a ConfigMap that is not among the objects. Whatever is
not of the shape that Kubernetes wants (a list where a mapping belongs) is skipped: rules speak about what they can read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.engines.room import Room
from glowplug.engines.written import is_known
from glowplug.lint.references import resolved, written_in
from glowplug.lint.view import Container, Environment, Mount, Variable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from glowplug.lint.view import Object
    from glowplug.manifests.values import Value

# Which key of a volume is its kind; Kubernetes demands exactly one.
_NO_KIND: Final = frozenset({"name"})
CLAIM: Final = "persistentVolumeClaim"


def containers(
    spec: Value,
    key: str,
    volumes: Mapping[str, Value],
    config_map: Callable[[str], Object | None],
    given: Sequence[Variable] = (),
) -> tuple[Container, ...]:
    """The containers below `key` (`containers`, `initContainers`). `given`: variables that the workload's controller adds."""
    listed = spec.get(key)
    if listed is None:
        return ()
    return tuple(
        container(one, volumes, config_map, given, init=key == "initContainers")
        for one in listed.elements()
        if one.is_mapping
    )


def container(
    value: Value,
    volumes: Mapping[str, Value],
    config_map: Callable[[str], Object | None],
    given: Sequence[Variable] = (),
    *,
    init: bool = False,
) -> Container:
    """One container."""
    image = value.get("image")
    environ = environment(value, config_map, given)
    return Container(
        value=value,
        name=text_of(value.get("name")),
        image=image if image is not None and image.text and not _is_collection(image) else None,
        environment=environ,
        mounts=tuple(_mounts(value, volumes, environ)),
        init=init,
    )


def text_of(value: Value | None) -> str:
    """A scalar's text, "" for anything else."""
    return value.text if value is not None else ""


def _is_collection(value: Value) -> bool:
    return value.is_mapping or value.is_sequence


def environment(
    value: Value, config_map: Callable[[str], Object | None], given: Sequence[Variable] = ()
) -> Environment:
    """The variables of a container, as kubelet computes them: `envFrom` first, then `env` in its order."""
    found: dict[str, Variable] = {variable.name: variable for variable in given}
    whole = True
    sources = value.get("envFrom")
    for source in sources.elements() if sources is not None else ():
        variables, known = _from_source(source, config_map)
        whole = whole and known
        found.update(variables)
    entries = value.get("env")
    room = Room()
    for entry in entries.elements() if entries is not None else ():
        name = text_of(entry.get("name"))
        variable = _variable(name, entry, config_map, found, room) if name else None
        if variable is not None:
            found.pop(name, None)
            found[name] = variable
    return Environment(found, whole)


def _from_source(source: Value, config_map: Callable[[str], Object | None]) -> tuple[dict[str, Variable], bool]:
    prefix = text_of(source.get("prefix"))
    if source.get("configMapRef") is None:
        return {}, False
    name = text_of(source.get("configMapRef", "name"))
    configured = config_map(name) if name else None
    data = configured.value.get("data") if configured else None
    if configured is None:
        return {}, False
    found = {}
    for key, value in data.items() if data is not None else ():
        if not _is_collection(value):
            named = prefix + key
            found[named] = Variable(named, written_in(value), value, None, "configMap", data, key)
    return found, True


def _variable(
    name: str, entry: Value, config_map: Callable[[str], Object | None], before: Mapping[str, Variable], room: Room
) -> Variable | None:
    value = entry.get("value")
    if value is not None and not _is_collection(value) and value.text:
        text = resolved(written_in(value), before, room)
        return Variable(name, text if is_known(text) else None, value, entry, "value")
    source = entry.get("valueFrom")
    if source is None or not source.is_mapping:
        at = value if value is not None and not _is_collection(value) else entry
        return Variable(name, "", at, entry, "value")
    reference = source.get("configMapKeyRef")
    if reference is not None:
        return _from_config_map(name, entry, reference, config_map)
    origin = "secret" if source.get("secretKeyRef") is not None else "field"
    return Variable(name, None, source, entry, origin)


def _from_config_map(
    name: str, entry: Value, reference: Value, config_map: Callable[[str], Object | None]
) -> Variable | None:
    configured = config_map(text_of(reference.get("name")))
    if configured is None:
        return Variable(name, None, reference, entry, "configMap")
    value = configured.value.get("data", text_of(reference.get("key")))
    if value is None or _is_collection(value):
        optional = text_of(reference.get("optional")) == "true"
        return None if optional else Variable(name, None, reference, entry, "configMap")
    return Variable(name, written_in(value), value, entry, "configMap")


def volumes(spec: Value, claim_templates: Value | None = None) -> dict[str, Value]:
    """Volumes of a pod by name; a StatefulSet's claim templates win over volumes, as its controller has it."""
    found: dict[str, Value] = {}
    listed = spec.get("volumes")
    for volume in listed.elements() if listed is not None else ():
        name = text_of(volume.get("name"))
        if name:
            found[name] = volume
    for template in claim_templates.elements() if claim_templates is not None else ():
        name = text_of(template.get("metadata", "name"))
        if name:
            found[name] = template
    return found


def kind_of(volume: Value | None) -> str:
    """emptyDir, hostPath …: what a volume is, "" where nothing says it."""
    if volume is None:
        return ""
    if volume.get("spec") is not None and volume.get("metadata") is not None:
        return CLAIM
    return next((key for key, value in volume.items() if key not in _NO_KIND), "")


def _mounts(value: Value, volumes: Mapping[str, Value], environ: Environment) -> list[Mount]:
    found: list[Mount] = []
    listed = value.get("volumeMounts")
    for mount in listed.elements() if listed is not None else ():
        path, name = text_of(mount.get("mountPath")), text_of(mount.get("name"))
        if not path or not name:
            continue
        volume = volumes.get(name)
        kind = kind_of(volume)
        read_only = text_of(mount.get("readOnly")) == "true" or _is_read_only(volume, kind)
        host = _host_path(volume, mount) if kind == "hostPath" and volume is not None else None
        found.append(Mount(path, mount, read_only, name, volume, kind, host))
    return found


def _is_read_only(volume: Value | None, kind: str) -> bool:
    if kind in ("configMap", "secret", "downwardAPI", "projected", "image"):
        return True
    return volume is not None and bool(kind) and text_of(volume.get(kind, "readOnly")) == "true"


def _host_path(volume: Value, mount: Value) -> str | None:
    """The directory of the node; with a `subPath` the one below, with a `subPathExpr` as it is written."""
    path = text_of(volume.get("hostPath", "path"))
    below = text_of(mount.get("subPath")) or text_of(mount.get("subPathExpr"))
    if not path:
        return None
    return f"{path.rstrip('/')}/{below.strip('/')}" if below else path
