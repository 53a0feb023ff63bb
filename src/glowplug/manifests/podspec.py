"""A pod as the API gives it → the engine's start that it asks for: what can be known without looking into the pod.

Not of YAML as people write it (that is `lint/pods.py`, with places): plain objects, whose defaults the API server has filled in.
What the API does not show (a Secret's value, a ConfigMap's, what `envFrom` brings) has a stand-in, a word without meaning to a
shell: whoever reads a command around it asks `is_open` of the values that matter, and takes none that is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from glowplug.core.errors import UsageError
from glowplug.engines import registry
from glowplug.engines.command import resolve_references, see_through
from glowplug.engines.room import Room
from glowplug.engines.shell import OpaqueError
from glowplug.manifests import images, recipe

Object = Mapping[str, Any]

_UNSEEN: Final = "0unseen0"
_LAUNCHER: Final = ("sh", "-c")
_SERVER: Final = ("vllm", "serve")
# What kubelet adds for the services of a namespace (and for the API's own, which `enableServiceLinks` does not take away).
_OF_SERVICES: Final = re.compile(r"[A-Z][A-Z0-9_]*_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_\w+)?)")
# A service's name has 63 characters; longer text would be looked through again from each of its underscores.
_LONGEST_NAME: Final = 256
# Of the fields that a variable may refer to, those that nobody can change while the pod lives.
_FIXED: Final[Mapping[str, tuple[str, str]]] = {
    "metadata.name": ("metadata", "name"),
    "metadata.namespace": ("metadata", "namespace"),
    "metadata.uid": ("metadata", "uid"),
    "spec.nodeName": ("spec", "nodeName"),
    "spec.serviceAccountName": ("spec", "serviceAccountName"),
}


@dataclass(frozen=True)
class Asked:
    """The start that an engine's container asks for.

    `argv` is `command` and `args` with kubelet's references replaced, wrappers and glowplug's own launcher still before the engine.
    `environ` are the variables whose value stands in the pod; `unknown` the names of those that come from elsewhere (Secrets,
    ConfigMaps, the status); `open` whether there may be more of them (`envFrom`). `mode` is how glowplug is in the pod: `node`,
    `direct`, `shared` or "". `argv` is () where only the image knows what it starts.
    """

    container: str
    image: str
    argv: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    open: bool = False
    mode: str = ""


def stand_in(name: str) -> str:
    """The word that stands for the value of a variable that the API does not show."""
    return f"{_UNSEEN}{name}"


def is_open(text: str) -> bool:
    """Whether a text was made of a value that the API does not show."""
    return _UNSEEN in text


def asked(pod: Object) -> Asked | None:
    """What the engine's container of a pod asks for, None where no container is one. Raises nothing."""
    return next(iter(engines(pod)), None)


def engines(pod: Object) -> tuple[Asked, ...]:
    """The same of each container that is one: those that glowplug's launcher starts first. Raises nothing."""
    found = containers(pod)
    launched = [one for one in found if without_launcher(one.argv) is not None]
    return (*launched, *(one for one in found if one not in launched and _is_engine(one)))


def containers(pod: Object) -> tuple[Asked, ...]:
    """The same of each container, whatever it starts. Raises nothing."""
    return tuple(_asked(pod, one) for one in _items(_at(pod, "spec", "containers")))


def without_launcher(argv: Sequence[str]) -> tuple[str, ...] | None:
    """The words behind glowplug's own launcher, None where it is not in front of them."""
    if tuple(argv[:2]) != _LAUNCHER or tuple(argv[3:4]) != (recipe.SHELL_NAME,) or len(argv) < 5:
        return None
    ours = any(program in argv[2] for program in (recipe.NODE_PROGRAM, recipe.DIRECT_PROGRAM))
    return tuple(argv[4:]) if ours else None


def _asked(pod: Object, container: Object) -> Asked:
    variables = _variables(pod, container)
    image = _text(container.get("image"))
    words = _words(container, image)
    environ = {name: value for name, value in variables.items() if value is not None}
    unknown = frozenset(name for name, value in variables.items() if value is None)
    references = _References(variables, _may_come(pod, container))
    argv = tuple(references.resolved(word) for word in words)
    opened = bool(_items(container.get("envFrom")))
    mode = _mode(pod, container, argv)
    return Asked(_text(container.get("name")), image, argv, environ, unknown, opened, mode)


def _words(container: Object, image: str) -> list[str]:
    command = [_text(one) for one in _listed(container.get("command"))]
    arguments = [_text(one) for one in _listed(container.get("args"))]
    if command:
        return [*command, *arguments]
    if images.read(image).starts_server:
        return [*_SERVER, *arguments]
    # Whatever the image's own entry point is, it gets these; most that name a program there do so behind an `exec "$@"`.
    return arguments if arguments and not arguments[0].startswith("-") else []


def _variables(pod: Object, container: Object) -> dict[str, str | None]:
    """The variables of `env` in kubelet's order: a later one of a name wins; None for a value that does not stand in the pod."""
    found: dict[str, str | None] = {}
    may_come = _may_come(pod, container)
    room = Room()
    for entry in _items(container.get("env")):
        name, source = _text(entry.get("name")), entry.get("valueFrom")
        if not name:
            continue
        if isinstance(source, Mapping) and not entry.get("value"):
            found[name] = _referred(pod, source)
            continue
        value = _References(found, may_come, room).resolved(_text(entry.get("value")))
        found[name] = None if is_open(value) else value
    return found


def _referred(pod: Object, source: Object) -> str | None:
    path = _FIXED.get(_text(_at(source, "fieldRef", "fieldPath")))
    value = _at(pod, *path) if path else None
    return value if isinstance(value, str) else None


def _may_come(pod: Object, container: Object) -> Mapping[str, bool]:
    """Which of the names that the pod does not list kubelet may know all the same."""
    return _Unlisted(
        everything=bool(_items(container.get("envFrom"))),
        services=_at(pod, "spec", "enableServiceLinks") is not False,
    )


@dataclass(frozen=True)
class _Unlisted(Mapping[str, bool]):
    everything: bool
    services: bool

    def __getitem__(self, name: str) -> bool:
        of_service = len(name) <= _LONGEST_NAME and _OF_SERVICES.fullmatch(name) is not None
        return self.everything or (of_service and (self.services or name.startswith("KUBERNETES_")))

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0


class _References(Mapping[str, str]):
    """What kubelet puts in place of `$(NAME)`; without an entry the reference stays as it is written."""

    def __init__(
        self, variables: Mapping[str, str | None], may_come: Mapping[str, bool], room: Room | None = None
    ) -> None:
        self._variables = variables
        self._may_come = may_come
        self._room = room or Room()

    def resolved(self, text: str) -> str:
        """The text with its references replaced; a stand-in where they bring more than any program takes."""
        if "$" not in text:
            return text
        try:
            return resolve_references((text,), self, self._room)[0]
        except OpaqueError:
            return stand_in("TOO_LONG")

    def __getitem__(self, name: str) -> str:
        if name in self._variables:
            value = self._variables[name]
            return stand_in(name) if value is None else value
        if self._may_come[name]:
            return stand_in(name)
        raise KeyError(name)

    def __iter__(self) -> Any:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)


def _is_engine(one: Asked) -> bool:
    """Whether a container without our launcher starts an engine, by its command or, where that cannot be followed, its image."""
    if one.environ.get("GLOWPLUG_ENGINE"):
        return True
    if not one.argv:
        return bool(images.read(one.image).engine)
    environ = {**one.environ, **{name: stand_in(name) for name in one.unknown}}
    seen = see_through(one.argv, environ, pass_others=True)
    if seen.opaque:
        return bool(images.read(one.image).engine)
    try:
        return registry.recognise(seen, read_text=_not_here).engine != ""
    except UsageError:
        return True  # a server's command line that its engine would refuse


def _not_here(path: str) -> str:
    raise FileNotFoundError(f"{path} is in the pod")


def _mode(pod: Object, container: Object, argv: Sequence[str]) -> str:
    """By what the pod has: a label says what somebody wanted."""
    script = argv[2] if without_launcher(argv) is not None else ""
    if recipe.NODE_PROGRAM in script:
        return "node"
    if recipe.DIRECT_PROGRAM in script:
        return "direct"
    host = {
        _text(volume.get("name")): _text(_at(volume, "hostPath", "path"))
        for volume in _items(_at(pod, "spec", "volumes"))
    }
    mounted = [host.get(_text(mount.get("name")), "") for mount in _items(container.get("volumeMounts"))]
    return "shared" if any(path.rstrip("/").endswith("/compile-cache") for path in mounted) else ""


def _at(value: Any, *names: str) -> Any:
    """What lies below these names, None where something of another shape is in the way."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _items(value: Any) -> list[Object]:
    return [one for one in _listed(value) if isinstance(one, Mapping)]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
