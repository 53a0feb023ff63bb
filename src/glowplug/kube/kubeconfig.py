"""A kubeconfig as kubectl reads it.

Several files are one, of two entries of one name the first counts, and paths are relative to their file. lightkube reads one
file, resolves its paths later and against that file alone, and drops the fields that it does not know; here files are joined
and their paths made absolute before lightkube sees them, and what it would drop is kept beside.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from glowplug.core.errors import BadInputError, UsageError
from glowplug.kube import answers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DEFAULT: Final = "~/.kube/config"
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_LARGEST: Final = 8 << 20
_LISTS: Final = (("clusters", "cluster"), ("users", "user"), ("contexts", "context"))
_PATHS: Final = {
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key", "tokenFile"),
    "context": (),
}


def paths(named: str, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The files to read: the one that is named, else those of KUBECONFIG, else ~/.kube/config, of which only what is there."""
    if named:
        return (Path(named).expanduser(),)
    listed = [Path(one).expanduser() for one in environ.get("KUBECONFIG", "").split(os.pathsep) if one]
    home = environ.get("HOME", "")
    if not listed and home:
        listed = [Path(home) / ".kube" / "config"]
    return tuple(one for one in listed if one.exists())


def read(files: Sequence[Path]) -> dict[str, Any]:
    """The files joined. Raises OSError, BadInputError."""
    joined: dict[str, Any] = {name: [] for name, _ in _LISTS}
    for file in files:
        one = _load(file)
        if one.get("current-context") and "current-context" not in joined:
            joined["current-context"] = str(one["current-context"])
        for name, inner in _LISTS:
            known = {item["name"] for item in joined[name]}
            for item in _items(one, name, inner, file):
                if item["name"] not in known:
                    joined[name].append({"name": item["name"], inner: _absolute(item[inner], inner, file)})
                    known.add(item["name"])
    return joined


def choose(
    config: Mapping[str, Any], context: str
) -> tuple[str, Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]:
    """The context's name, itself, its cluster and its user. Raises UsageError for one that is not there."""
    name = context or config.get("current-context", "")
    known = [str(item["name"]) for item in config["contexts"]]
    if not name:
        raise UsageError(
            "the kubeconfig has no current context", hint=f"give --context; there are {', '.join(known) or 'none'}"
        )
    chosen = _named(config["contexts"], name, "context")
    if chosen is None:
        raise UsageError(f"no context {name!r} in the kubeconfig", hint=f"there are {', '.join(known) or 'none'}")
    cluster = _named(config["clusters"], str(chosen.get("cluster", "")), "cluster")
    if cluster is None:
        raise UsageError(f"context {name!r} names cluster {chosen.get('cluster')!r}, which the kubeconfig lacks")
    user = _named(config["users"], str(chosen.get("user", "")), "user") if chosen.get("user") else {}
    if user is None:
        raise UsageError(f"context {name!r} names user {chosen.get('user')!r}, whom the kubeconfig lacks")
    return name, chosen, cluster, user


def _named(items: Sequence[Mapping[str, Any]], name: str, inner: str) -> Mapping[str, Any] | None:
    return next((item[inner] for item in items if item["name"] == name), None)


def _load(file: Path) -> Mapping[str, Any]:
    with file.open("rb") as stream:
        data = stream.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise BadInputError(f"{file}: too large for a kubeconfig")
    try:
        value = yaml.load(data, Loader=_LOADER)  # noqa: S506 - one of the two safe ones
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        place = getattr(error, "problem_mark", None)
        where = f" at line {place.line + 1}" if place else ""  # its text could be a token, so it is not shown
        raise BadInputError(f"{file}: a kubeconfig that is no YAML{where}", code="bad-yaml") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadInputError(f"{file}: no kubeconfig: a mapping expected, not {type(value).__name__}")
    return value


def _items(config: Mapping[str, Any], name: str, inner: str, file: Path) -> list[Mapping[str, Any]]:
    listed = config.get(name) or []
    if not isinstance(listed, list):
        raise BadInputError(f"{file}: {name}: a list expected, not {type(listed).__name__}")
    for place, item in enumerate(listed):
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise BadInputError(f"{file}: {name}[{place}] has no name")
        if not isinstance(item.get(inner) or {}, dict):
            raise BadInputError(f"{file}: {name}[{place}].{inner}: a mapping expected")
    return [{**item, inner: item.get(inner) or {}} for item in listed]


def _absolute(value: Mapping[str, Any], inner: str, file: Path) -> dict[str, Any]:
    base = Path(os.path.abspath(file)).parent  # noqa: PTH100 - a link to the file does not move its paths
    made = dict(value)
    for name in _PATHS[inner]:
        if isinstance(made.get(name), str) and made[name]:
            made[name] = str(base / made[name])
    program = made.get("exec")
    if inner == "user" and isinstance(program, dict):
        command = program.get("command")
        if isinstance(command, str) and "/" in command:
            made["exec"] = {**program, "command": str(base / command)}
    return made


def text(value: object, what: str) -> str:
    """A field that must be a text, "" where it is not there. Raises BadInputError."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadInputError(f"the kubeconfig's {what}: a text expected, not {answers.line(type(value).__name__)}")
    return value
