"""Pods of the node that lint knows by what they run: glowplug's agent, its release, NVIDIA's device plugin, and whoever else
mounts a directory of the node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.manifests.marks import STARTUP_TAINT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Manifests, Object
    from glowplug.manifests.values import Value

_POD: Final = ("spec", "template", "spec")
_PROGRAM: Final = "glowplug"


@dataclass(frozen=True)
class Agent:
    """`glowplug agent`, or its `release`. `taint` is the key that it removes, "" where that cannot be known; `at` is where it says
    so, or would."""

    object: Object
    pod: Value
    container: Value
    shared: bool
    release: bool
    taint: str
    at: Value


@dataclass(frozen=True)
class DevicePlugin:
    """What makes `nvidia.com/gpu` allocatable. `pod` is what has its tolerations: a pod's spec, or the part of a ClusterPolicy that
    says them for all of the GPU operator's DaemonSets. `at` is where to point."""

    object: Object
    pod: Value
    at: Value
    operator: bool = False


def agents(manifests: Manifests) -> Iterator[Agent]:
    """In the order of the input."""
    for one in manifests.of_kind("DaemonSet", "Deployment"):
        pod = one.value.get(*_POD)
        for container in _containers(pod):
            found = _agent(one, pod, container) if pod is not None else None
            if found is not None:
                yield found


def _agent(one: Object, pod: Value, container: Value) -> Agent | None:
    words = _words(container)
    texts = [word.text for word in words]
    start = _after_program(texts, container)
    if start is None:
        return None
    release = texts[start : start + 1] == ["release"]
    mode, _ = _option("mode", words, container)
    taint, at = _option("taint", words, container)
    known = STARTUP_TAINT if taint is None else taint
    return Agent(
        object=one,
        pod=pod,
        container=container,
        shared=release or mode == "shared",
        release=release,
        taint="" if "$" in known else known,
        at=at or container.key("args") or container.key("command") or container,
    )


def _after_program(texts: list[str], container: Value) -> int | None:
    """Where the words after `glowplug agent` begin."""
    for place, text in enumerate(texts[:-1]):
        if text.rpartition("/")[2] == _PROGRAM and texts[place + 1] == "agent":
            return place + 2
    image = _image(container).partition("@")[0].rpartition("/")[2].partition(":")[0]
    if image == _PROGRAM and texts[:1] == ["agent"] and container.get("command") is None:
        return 1
    return None


def _option(name: str, words: list[Value], container: Value) -> tuple[str | None, Value | None]:
    """The value of an option of glowplug's, from the command line or from its flat variable."""
    for place, word in enumerate(words):
        before, equals, value = word.text.partition("=")
        if before != f"--{name}":
            continue
        if equals:
            return value, word
        if place + 1 < len(words):
            return words[place + 1].text, words[place + 1]
    variables = container.get("env")
    for entry in variables.elements() if variables is not None else ():
        known = entry.get("name")
        if known is not None and known.text == f"GLOWPLUG_{name.upper()}":
            value_at = entry.get("value")
            return ("$", entry) if value_at is None else (value_at.text, value_at)
    return None, None


def device_plugins(manifests: Manifests) -> Iterator[DevicePlugin]:
    """NVIDIA's, as a DaemonSet of its own or as the GPU operator makes it."""
    for one in manifests.of_kind("DaemonSet"):
        pod = one.value.get(*_POD)
        if pod is None or not any(_is_device_plugin(one.name, container) for container in _containers(pod)):
            continue
        yield DevicePlugin(one, pod, pod.key("tolerations") or one.value.get("metadata", "name") or pod)
    for one in manifests.of_kind("ClusterPolicy"):
        daemons = one.value.get("spec", "daemonsets")
        enabled = one.value.get("spec", "devicePlugin", "enabled")
        if one.group == "nvidia.com" and daemons is not None and (enabled is None or enabled.data is not False):
            yield DevicePlugin(one, daemons, daemons.key("tolerations") or daemons, operator=True)


def _is_device_plugin(name: str, container: Value) -> bool:
    image = _image(container)
    return "device-plugin" in image and "nvidia" in f"{image} {name}"


def mounting(manifests: Manifests, path: str) -> Iterator[Object]:
    """DaemonSets that have this directory of the node, or one that it lies in, in one of their volumes."""
    whole = path.rstrip("/") + "/"
    for one, directory, _ in _host_paths(manifests):
        if whole.startswith(directory.rstrip("/") + "/"):
            yield one


def writing(manifests: Manifests, path: str) -> Iterator[Object]:
    """DaemonSets that have exactly this directory mounted, and not read-only."""
    for one, directory, volume in _host_paths(manifests):
        if directory.rstrip("/") == path.rstrip("/") and _mounted_writable(one.value.get(*_POD), volume):
            yield one


def _host_paths(manifests: Manifests) -> Iterator[tuple[Object, str, str]]:
    """DaemonSets, and the directories of the node in their volumes, with the volumes' names."""
    for one in manifests.of_kind("DaemonSet"):
        volumes = one.value.get(*_POD, "volumes")
        for volume in volumes.elements() if volumes is not None else ():
            directory, name = volume.get("hostPath", "path"), volume.get("name")
            if directory is not None and name is not None:
                yield one, directory.text, name.text


def _mounted_writable(pod: Value | None, volume: str) -> bool:
    for name in ("initContainers", "containers"):
        containers = pod.get(name) if pod is not None else None
        for container in containers.elements() if containers is not None else ():
            mounts = container.get("volumeMounts")
            for mount in mounts.elements() if mounts is not None else ():
                named, read_only = mount.get("name"), mount.get("readOnly")
                if named is not None and named.text == volume and (read_only is None or read_only.data is not True):
                    return True
    return False


def _containers(pod: Value | None) -> Iterator[Value]:
    found = pod.get("containers") if pod is not None else None
    yield from found.elements() if found is not None else ()


def _words(container: Value) -> list[Value]:
    words: list[Value] = []
    for name in ("command", "args"):
        found = container.get(name)
        words += found.elements() if found is not None else ()
    return words


def _image(container: Value) -> str:
    image = container.get("image")
    return image.text if image is not None else ""
