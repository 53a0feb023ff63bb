"""Whether a pod can be warmed by an edit, decided before anything of it is changed: each reason not to is one sentence.

An edit that is refused costs a person a minute; one that is not and should have been costs a pod that does not start. So what
cannot be told from the manifest counts as a reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from glowplug.manifests import recipe
from glowplug.render.injecting import carried, shape
from glowplug.render.options import Mode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from glowplug.manifests.values import Value
    from glowplug.render.options import Options

_LEVELS: Final = ("privileged", "baseline", "restricted")
_CACHE_VARIABLES: Final = ("_CACHE_ROOT", "_CACHE_DIR", "_CACHE_HOME")
_CONTAINERS: Final = ("initContainers", "containers")


class RefusedError(Exception):
    """This pod stays as it is; the message says why."""


@dataclass(frozen=True)
class Pod:
    """A pod template as a manifest has it, and what was understood of the engine in it.

    `labelled` is the mapping whose `labels` the pod gets, None where it has to be made in `template`. `environ` are the variables
    that the container gets, None for a value that cannot be known; `whole` is False where there may be more. `opaque` says why
    the command cannot be followed, "" where it can. `entrypoint` is what the image starts where the manifest names no command,
    () where that is not known for certain. `engines` are the names of all containers of the pod with an engine. `pod_security`
    is the level that the namespace enforces, "" where the input does not say. `selected` are the labels that the object selects
    its pods by, `claims` the names of a StatefulSet's claim templates. `off` says what keeps the engine from compiling, or from
    keeping what it compiled. `knative` says whether Knative makes the pods, None where the cluster decides that.
    """

    template: Value
    labelled: Value | None
    spec: Value
    container: Value
    engine: str
    namespace: str = ""
    version: str = ""
    environ: Mapping[str, str | None] = field(default_factory=dict)
    whole: bool = True
    opaque: str = ""
    entrypoint: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    pod_security: str = ""
    selected: Mapping[str, str] = field(default_factory=dict)
    claims: tuple[str, ...] = ()
    off: str = ""
    knative: bool | None = False

    @property
    def command(self) -> list[str]:
        """The words of `command`."""
        return [value.text for value in self.listed(self.container, "command")]

    @property
    def name(self) -> str:
        """The container's."""
        return text(self.container, "name")

    @property
    def label(self) -> str:
        """The mode that its label says, "" where there is none."""
        return text(self.labelled, "labels", recipe.MODE_LABEL) if self.labelled is not None else ""

    @property
    def was_ours(self) -> bool:
        """Whether `render`, or an edit, has given it a client."""
        return self.is_wrapped or bool(self.label)

    @property
    def is_wrapped(self) -> bool:
        """Whether the client's prefix is there."""
        return carried.is_wrapped(self.command)

    @property
    def is_bake(self) -> bool:
        """Whether this is the pod of a bake job, which publishes what others restore."""
        return carried.is_bake(self.command)

    @staticmethod
    def listed(owner: Value, key: str) -> tuple[Value, ...]:
        """The elements of a list, none where it is not there."""
        found = owner.get(key)
        return tuple(found.elements()) if found is not None else ()

    def others(self) -> Iterator[Value]:
        """All containers but the engine's and glowplug's own."""
        for key in _CONTAINERS:
            for one in self.listed(self.spec, key):
                if one.node is not self.container.node and not carried.is_own_init_container(one.data):
                    yield one

    def mounting(self, volume: str) -> list[str]:
        """The names of the other containers that mount a volume."""
        return [
            text(one, "name")
            for one in self.others()
            if any(text(mount, "name") == volume for mount in self.listed(one, "volumeMounts"))
        ]


def text(value: Value, *path: str) -> str:
    """A scalar below a value, "" where there is none."""
    found = value.get(*path)
    return found.text if found is not None else ""


def demand(pod: Pod, options: Options) -> None:
    """Raises RefusedError with the first reason not to change this pod so."""
    for reason in _reasons(pod, options):
        raise RefusedError(reason)


def _reasons(pod: Pod, options: Options) -> Iterator[str]:
    for fault in shape.faults(pod.template, pod.spec, pod.container):
        yield f"{fault}, which Kubernetes demands"
    if text(pod.spec, "os", "name") == "windows" or text(pod.spec, "nodeSelector", "kubernetes.io/os") == "windows":
        yield "its nodes run Windows, which has neither sh nor these paths"
    yield from _of_security(pod, options)
    if recipe.MODE_LABEL in pod.selected:
        yield f"the object selects its pods by the label {recipe.MODE_LABEL}, which says the mode"
    if len(pod.engines) > 1:
        yield (
            f"several containers are engines ({', '.join(pod.engines)}): they would write one cache directory, and engines name "
            "temporary files by process id, which is the same in every container"
        )
    if options.mode is Mode.SHARED:
        yield from _of_user(pod)
        return
    if text(pod.spec, "hostNetwork") == "true":
        yield (
            "it is on the network of its node (hostNetwork), where it has the node's own rights to the store and not those of its "
            "service account; mode shared needs none"
        )
    if options.mode is Mode.NODE and not (options.domain or pod.namespace):
        yield "it names no namespace, which is the trust domain: give --namespace or --domain"
    yield from _of_command(pod)


def _of_security(pod: Pod, options: Options) -> Iterator[str]:
    """Pod Security admission, where a Namespace in the input says what it enforces."""
    needed = "baseline" if options.mode is Mode.DIRECT else "privileged"
    level = pod.pod_security if pod.pod_security in _LEVELS else ""
    if not level or _LEVELS.index(level) <= _LEVELS.index(needed):
        return
    if needed == "privileged":
        mode = options.mode.value
        yield f"its namespace enforces Pod Security {level}, which forbids the hostPath of mode {mode}; mode direct has none"
    elif text(pod.spec, "securityContext", "runAsNonRoot") != "true":
        yield (
            "its namespace enforces Pod Security restricted, and the init container has its user from the pod: set "
            "securityContext.runAsNonRoot of the pod, not of its containers"
        )


def _of_user(pod: Pod) -> Iterator[str]:
    """kubelet makes a missing hostPath as root 0755."""
    there = any(
        text(one, "name") == recipe.CACHE_VOLUME and carried.host_path(one.data)
        for one in pod.listed(pod.spec, "volumes")
    )
    if there and _mounts_the_cache(pod.container) and _keeps_its_cache_there(pod):
        return  # as it is already: nothing is made worse
    if any(_mounts_the_cache(one) for one in pod.listed(pod.spec, "initContainers")):
        return  # which gives it away, as is done for a hostPath
    user = _context(pod, "runAsUser")
    not_root = _context(pod, "runAsNonRoot") == "true"
    if (user and user != "0") or (not user and not_root):
        who = f"user {user}" if user else "another user than root"
        yield (
            f"it runs as {who}, and kubelet makes the shared directory as root with mode 0755: the engine cannot write it, and "
            "ends; mode direct gives the pod a directory of its own"
        )


def _mounts_the_cache(container: Value) -> bool:
    mounts = Pod.listed(container, "volumeMounts")
    return any(text(one, "name") == recipe.CACHE_VOLUME for one in mounts)


def _keeps_its_cache_there(pod: Pod) -> bool:
    """Whether a cache variable leads there already; else it is what is added here that has the engine write there."""
    return any(
        text(one, "name").endswith(_CACHE_VARIABLES) and text(one, "value").startswith(recipe.CACHE_ROOT)
        for one in pod.listed(pod.container, "env")
    )


def _context(pod: Pod, name: str) -> str:
    return text(pod.container, "securityContext", name) or text(pod.spec, "securityContext", name)


def _of_command(pod: Pod) -> Iterator[str]:
    command = pod.command
    words = [*command, *(value.text for value in pod.listed(pod.container, "args"))]
    image = text(pod.container, "image")
    if not command and not image:
        yield "its image and command are those of a serving runtime: give the ServingRuntime, or write `image` and `command`"
    elif not command and not pod.entrypoint:
        yield (
            f"container {pod.name} has no command, and what {image} starts by itself is not known for certain: write its "
            "entrypoint as `command`"
        )
    if not pod.is_wrapped and _is_run(words):
        yield "it starts through `glowplug run` already, which restores and publishes by itself"
    for name in _taken_names(pod):
        yield f"a container is called {name}, which is the name of glowplug's own"


def _is_run(words: list[str]) -> bool:
    for place, word in enumerate(words):
        if word.rpartition("/")[2] == "glowplug" and words[place + 1 : place + 2] == ["run"]:
            return True
        if "glowplug run " in word:
            return True
    return False


def _taken_names(pod: Pod) -> Iterator[str]:
    for key in _CONTAINERS:
        for one in pod.listed(pod.spec, key):
            if text(one, "name") == "glowplug" and not carried.is_own_init_container(one.data):
                yield "glowplug"
