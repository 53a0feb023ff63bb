"""Manifests as rules see them: workloads with their engine, variables and volumes; node pools with their classes.

Data only; `lint/objects.py`, `lint/pods.py`, `lint/commands.py` and `lint/nodes.py` make it. What cannot be known is None or
marked `known=False`, and a rule that would need it says nothing: a variable from a Secret, an option behind an unresolved
`$(VAR)`, a script that cannot be followed."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from glowplug.lint.quantities import quantity
from glowplug.manifests.recipe import MODE_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from glowplug.catalog.gpus import Gpu
    from glowplug.catalog.instances import Instance
    from glowplug.manifests.source import Place
    from glowplug.manifests.values import Value


# The directory, or one below it: (variable, what it adds to the root). None: its parent.
_CACHE_VARIABLES: Final[tuple[tuple[str, str | None], ...]] = (
    ("GLOWPLUG_CACHE_ROOT", ""),
    ("VLLM_CACHE_ROOT", "vllm"),
    ("XDG_CACHE_HOME", ""),
    ("TORCHINDUCTOR_CACHE_DIR", None),
    ("TRITON_CACHE_DIR", None),
)


@dataclass(frozen=True)
class Object:
    """One Kubernetes object. `value` is its root (an item of a List, too); namespace "" where none is written."""

    value: Value
    api_version: str
    kind: str
    name: str
    namespace: str

    @property
    def group(self) -> str:
        """The API group, "" for the core one."""
        return self.api_version.rpartition("/")[0]

    @property
    def title(self) -> str:
        """`Deployment default/vllm`, as findings name it; without a namespace `Deployment vllm`."""
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name}"


@dataclass(frozen=True)
class Variable:
    """A variable as the container gets it. `value` is None where it cannot be known (Secret, field reference, a ConfigMap that is
    not in the input, an unresolved reference). `at` is where the value stands; `entry` the item of `env`, None when it comes
    from `envFrom` or from the command line (`env A=b vllm …`). `origin`: value, configMap, secret, field, command.
    `holder`: the data of a ConfigMap that gives it by `envFrom`, as the key `key`."""

    name: str
    value: str | None
    at: Value | Place
    entry: Value | None
    origin: str
    holder: Value | None = None
    key: str = ""

    @property
    def name_at(self) -> Value | Place:
        """Where its name stands, or its value where the name stands nowhere by itself."""
        if self.holder is not None:
            return self.holder.key(self.key) or self.at
        named = self.entry.get("name") if self.entry is not None else None
        return named if named is not None else self.at


@dataclass(frozen=True, eq=False)
class Environment:
    """Variables of a container, in their order, the last of a name winning. `whole` is False where an `envFrom` cannot be looked
    into: then a variable that is not here may still be there."""

    variables: Mapping[str, Variable]
    whole: bool = True

    def get(self, name: str) -> Variable | None:
        """The variable of that name."""
        return self.variables.get(name)

    def value(self, name: str) -> str | None:
        """Its value where it is there and known."""
        found = self.variables.get(name)
        return found.value if found else None

    def lacks(self, name: str) -> bool:
        """Whether it is certainly not set."""
        return self.whole and name not in self.variables


@dataclass(frozen=True)
class Mount:
    """A volume as one container sees it. `volume` is the item of `volumes` (for a StatefulSet's claim template, the template), None
    where the manifest does not say. `kind` is emptyDir, hostPath, persistentVolumeClaim, nfs, csi, configMap …, "" for
    unknown. `host_path` is set for kind hostPath."""

    path: str
    value: Value
    read_only: bool
    name: str
    volume: Value | None
    kind: str
    host_path: str | None = None


@dataclass(frozen=True)
class Option:
    """One option of the engine's command line. `name` has dashes and no leading ones, aliases resolved (`tensor-parallel-size` for
    `-tp`); `value` is its text, None where it cannot be known, "" for a flag. `at` is where the value stands (the option
    itself for a flag), `option_at` where the option's name does. `words` says how to edit it: see `Words`. From a config
    file or a variable in the manifest `at` is there."""

    name: str
    value: str | None
    at: Value | Place
    option_at: Value | Place
    flag: bool = False
    first: int = -1
    """Index of its first word in `Engine.words`, -1 where it is not a word there."""
    count: int = 1
    """How many words it takes: 1 for `--a=b` and flags, 2 for `--a b`."""
    within: Value | None = None
    """The scalar that it stands in, where it is no word of the command line: the file in a ConfigMap, say."""
    dotted: tuple[Option, ...] = ()
    """For JSON given by keys (`--a.b=1`): those options, in order; `value` is then all of them as JSON."""


@dataclass(frozen=True)
class Word:
    """One word of the engine's command line after references are resolved. It stands in `value` (an item of command or args, or a
    script) at `start` to `end` of that scalar's text; `alone` says that it is the whole item. `known` is False where a
    reference in it could not be resolved."""

    text: str
    value: Value
    start: int
    end: int
    alone: bool
    known: bool = True
    shared: bool = False
    """Whether other words stand at the same place (an unquoted `$FLAGS`), so that it cannot be changed alone."""
    elsewhere: bool = False
    """Whether it stands in a file that other pods may start from, too, so that it is not changed for this one."""
    written: str = field(default="", repr=False, compare=False)
    """The text again, each character with the place it comes from (`engines/written.py`)."""


@dataclass(frozen=True, eq=False)
class Engine:
    """The engine in a container. `name` is vllm, sglang or tensorrt-llm; `version` that of the image's tag where it says one, ""
    where not. `words` are those after the program (`serve` included out: the engine's own arguments), `options` by name, the
    last winning. `model` is the positional or `--model` value. `opaque` says why the command cannot be followed; then words,
    options and model are empty and rules that need them say nothing."""

    name: str
    version: str
    words: tuple[Word, ...]
    options: Mapping[str, Option]
    model: Option | None
    opaque: str = ""
    whole: bool = True
    """False where options may be given that are not here: by a ServingRuntime, a file that is not in the input, a reference."""
    script: str = ""
    """Where the command line stands in a file (a key of a ConfigMap), the file's path: who has not the input cannot follow it."""
    given: tuple[Option, ...] = field(default=(), repr=False)
    """Every option in its order, those that a later one overrules included; dotted ones under the name of what they add to."""

    def option(self, *names: str) -> Option | None:
        """The first of these options that is given."""
        return next((self.options[name] for name in names if name in self.options), None)

    def value(self, *names: str) -> str | None:
        """Its text where it is given and known."""
        found = self.option(*names)
        return found.value if found else None

    def flag(self, name: str) -> bool:
        """Whether a switch is on (`--no-…` and `=false` turn it off)."""
        found = self.options.get(name)
        return found is not None and (found.value or "true").lower() in ("true", "1", "yes", "on")

    def lacks(self, *names: str) -> bool:
        """Whether certainly none of these options is given."""
        return self.whole and not self.opaque and not any(name in self.options for name in names)


@dataclass(frozen=True, eq=False)
class Container:
    """One container. `image` None where it is not written (KServe's runtime gives it)."""

    value: Value
    name: str
    image: Value | None
    environment: Environment
    mounts: tuple[Mount, ...]
    init: bool = False

    def mount_of(self, path: str) -> Mount | None:
        """The mount that an absolute path lies in: the longest that is a prefix of it by whole parts."""
        parts = _parts(path)
        if parts is None:
            return None
        best: tuple[int, Mount | None] = (-1, None)
        for mount in self.mounts:
            prefix = _parts(mount.path)
            if prefix is not None and len(prefix) > best[0] and parts[: len(prefix)] == prefix:
                best = (len(prefix), mount)
        return best[1]

    def quantity(self, kind: str, name: str) -> int | None:
        """`resources.<kind>.<name>` as a whole number (bytes, GPUs; CPU in millicores), None where it is missing or no quantity."""
        found = self.value.get("resources", kind, name)
        return quantity(found.text, milli=name == "cpu") if found is not None else None


@dataclass(frozen=True)
class Machine:
    """A kind of machine that a pod may run on: by instance type where it is named, by GPU alone where only that is known."""

    instance: Instance | None
    gpu: Gpu | None
    at: Value
    """What says so: a node selector's value, a NodePool's requirement."""


@dataclass(frozen=True, eq=False)
class Workload:
    """A pod with an engine. `template` has `metadata` and `spec` (the object itself for a Pod). `nodes` are the NodePools of the
    input that it may land on; `machines` what is known of where it runs, () for nothing. `compute` is karpenter, auto-mode,
    nodegroup or "" where nothing says it. `engine.opaque` set: only rules about the pod apply."""

    object: Object
    template: Value
    spec: Value
    container: Container
    engine: Engine
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...]
    volumes: Mapping[str, Value]
    nodes: tuple[Node, ...] = ()
    machines: tuple[Machine, ...] = ()
    compute: str = ""
    weights_bytes: int | None = None
    """`--size`, else the annotation `glowplug.dev/weights: 67GB` of pod template or object; None where nobody says."""
    everything: Manifests | None = field(default=None, repr=False)

    @property
    def mode(self) -> str:
        """The label glowplug.dev/mode of the pod: direct, node, or "" ."""
        label = self.template.get("metadata", "labels", MODE_LABEL)
        return label.text if label is not None else ""

    @property
    def cache_root(self) -> str | None:
        """The directory that the pod keeps compile caches in: where its cache variables or glowplug's point; None when unknown."""
        environment = self.container.environment
        for name, below in _CACHE_VARIABLES:
            variable = environment.get(name)
            if variable is None or variable.value == "":
                continue
            if variable.value is None or not variable.value.startswith("/"):
                return None
            return _root(variable.value, below)
        return None


@dataclass(frozen=True, eq=False)
class Node:
    """A NodePool with its node class where the input has it. `requirements` by label key."""

    pool: Object
    node_class: Object | None
    auto_mode: bool
    requirements: Mapping[str, Value] = field(default_factory=dict)
    machines: tuple[Machine, ...] = ()


@dataclass(frozen=True, eq=False)
class Manifests:
    """All that was given: objects, workloads, nodes, and what was skipped. `compute` is --compute, "" when not given."""

    objects: tuple[Object, ...]
    workloads: tuple[Workload, ...]
    nodes: tuple[Node, ...]
    compute: str = ""
    skipped: tuple[str, ...] = ()
    """What could not be looked at, in sentences."""
    notes: tuple[str, ...] = ()
    """What else is to be told, in sentences: a command that cannot be followed, a value that the API server refuses."""

    def of_kind(self, *kinds: str) -> tuple[Object, ...]:
        """The objects of these kinds."""
        return tuple(one for one in self.objects if one.kind in kinds)

    def named(self, kind: str, name: str, namespace: str = "") -> Object | None:
        """The object of that name; an empty namespace on either side is any."""
        for one in self._by_name.get((kind, name), ()):
            if not namespace or not one.namespace or one.namespace == namespace:
                return one
        return None

    @cached_property
    def _by_name(self) -> dict[tuple[str, str], list[Object]]:
        found: dict[tuple[str, str], list[Object]] = {}
        for one in self.objects:
            found.setdefault((one.kind, one.name), []).append(one)
        return found


@dataclass(frozen=True)
class JsonPart:
    """A value inside a JSON option (`--model-loader-extra-config`): its plain data, and where key and value stand in `value`'s
    text."""

    data: Any
    at: Place
    key_at: Place
    value: Value
    start: int
    end: int


def _parts(path: str) -> list[str] | None:
    """The parts of an absolute path, normalised; None for another."""
    if not path.startswith("/"):
        return None
    return [part for part in posixpath.normpath(path).split("/") if part]


def _root(path: str, below: str | None) -> str:
    path = "/" + posixpath.normpath(path).lstrip("/")
    parent, _, last = path.rpartition("/")
    return (parent or "/") if below is None or last == below else path
