"""Files that a container finds in a ConfigMap among the objects: what stands in one, and `--config FILE` of an engine."""

from __future__ import annotations

import json
import posixpath
import re
from typing import TYPE_CHECKING, Final

from glowplug.core.errors import UsageError
from glowplug.engines.vllm import arguments, config_file
from glowplug.lint import options
from glowplug.lint.view import Option
from glowplug.manifests.source import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from glowplug.lint.view import Container, Mount, Object
    from glowplug.manifests.values import Value

_KEY: Final = re.compile(r"""(?m)^(["']?)([\w.-]+)\1[ \t]*:[ \t]*(.*?)[ \t]*\r?$""")


def options_of(
    engine: str, given: Option, container: Container, config_map: Callable[[str], Object | None]
) -> Mapping[str, Option] | None:
    """The options of the file, None where it cannot be read."""
    path = given.value
    value = file(path, container, config_map) if path else None
    if value is None:
        return None
    try:
        found = config_file.parse(value.text, given.value or "")
    except UsageError:
        return None
    marks = {match.group(2): match for match in _KEY.finditer(value.text)}
    read: dict[str, Option] = {}
    for key, one in found.items():
        mark = marks.get(key)
        option = _option(engine, key, one, value, mark) if mark is not None else None
        if option is None:
            return None
        read[option.name] = option
    return read


def file(path: str, container: Container, config_map: Callable[[str], Object | None]) -> Value | None:
    """The text of a file, None for one that is in no ConfigMap of the input. A path that is not absolute begins where the
    container's `workingDir` says."""
    directory = container.value.get("workingDir")
    if not path.startswith("/") and directory is not None and directory.text.startswith("/"):
        path = posixpath.join(directory.text, path)
    mount = container.mount_of(path)
    if mount is None or mount.volume is None:
        return None
    volume = mount.volume.get("configMap")
    volumes = [volume] if volume is not None else []
    sources = mount.volume.get("projected", "sources")
    for source in sources.elements() if sources is not None else ():
        one = source.get("configMap")
        volumes += [one] if one is not None else []
    found = [value for one in volumes if (value := _file(path, mount, one, config_map)) is not None]
    # Of several sources with one path the last wins, as kubelet writes them.
    return found[-1] if found and not found[-1].is_mapping and not found[-1].is_sequence else None


def _file(path: str, mount: Mount, volume: Value, config_map: Callable[[str], Object | None]) -> Value | None:
    name = volume.get("name")
    configured = config_map(name.text) if name is not None else None
    below = posixpath.relpath(posixpath.normpath(path), posixpath.normpath(mount.path))
    inner = mount.value.get("subPath")
    key = (inner.text if below == "." else posixpath.join(inner.text, below)) if inner is not None else below
    if configured is None:
        return None
    items = volume.get("items")
    for item in items.elements() if items is not None else ():
        as_path, as_key = item.get("path"), item.get("key")
        if as_path is not None and as_key is not None and posixpath.normpath(as_path.text) == key:
            return configured.value.get("data", as_key.text)
    return configured.value.get("data", key) if items is None else None


def _option(engine: str, key: str, given: config_file.Value, value: Value, mark: re.Match[str]) -> Option | None:
    spelled = arguments.spelling(f"--{key}") if engine == "vllm" else None
    name = spelled.name if spelled else key.replace("_", "-") if engine == "vllm" else options.common(key)
    name_at = Place(value.source, value.part(mark.start(2), mark.end(2)))
    start, end = mark.span(3)
    # A list or mapping on lines of its own: then the key is what can be pointed at.
    at = Place(value.source, value.part(start, end)) if end > start else name_at
    flag = isinstance(given, bool)
    text = _text(given)
    if given is None:
        return None
    if spelled and spelled.off:
        text = "false"
    return Option(name, text, at, name_at, flag=flag, within=value)


def _text(given: config_file.Value) -> str:
    if isinstance(given, bool):
        return "" if given else "false"
    if isinstance(given, dict):
        return json.dumps(given)
    if isinstance(given, list):
        return ",".join(str(one) for one in given)
    return str(given)
