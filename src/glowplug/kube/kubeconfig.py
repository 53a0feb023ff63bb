"""A kubeconfig as kubectl reads it.

Several files are one, of two entries of one name the first counts, and paths are relative to their file: they are made absolute
before the files are joined. Only the chosen context is looked at closely, since other people's entries may well be broken. A field
that is of another type than Kubernetes says is refused and not passed over, since it may be the one that keeps a connection safe.
"""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import yaml

from glowplug.core.errors import BadInputError, UsageError
from glowplug.kube import answers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_T = TypeVar("_T")
DEFAULT: Final = "~/.kube/config"
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_LARGEST: Final = 8 << 20
_LISTS: Final = (("clusters", "cluster"), ("users", "user"), ("contexts", "context"))
_PATHS: Final = {
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key", "tokenFile"),
    "context": (),
}


@dataclass(frozen=True)
class Cluster:
    """Where a cluster is, and by what it is known. Of data (PEM) and a file the data counts, which is how kubectl resolves it."""

    server: str
    authority: bytes = b""
    authority_file: str = ""
    insecure: bool = False
    server_name: str = ""
    """The name in the server's certificate, where it is not that of its address."""
    proxy: str = ""


@dataclass(frozen=True)
class Program:
    """`users[].user.exec`: a program that prints a token."""

    command: str
    arguments: Sequence[str]
    variables: Mapping[str, str]
    api_version: str
    hint: str = ""
    wants_cluster: bool = False
    """Whether it is told what the kubeconfig says of the cluster (`provideClusterInfo`)."""


@dataclass(frozen=True)
class User:
    """Who asks; nobody in particular where all is empty. Of data (PEM) and a file the data counts. No text shows a secret."""

    token: str = field(default="", repr=False)
    token_file: str = ""
    name: str = ""
    password: str = field(default="", repr=False)
    certificate: bytes = b""
    certificate_file: str = ""
    key: bytes = field(default=b"", repr=False)
    key_file: str = ""
    program: Program | None = None
    outdated: bool = False
    """An `auth-provider`, which Kubernetes gave up."""
    acts_as: str = ""
    acts_in: str = ""
    """A group. To leave these two out would be to act with other rights than the file says."""


@dataclass(frozen=True)
class Context:
    """One context, with all that it names."""

    name: str
    namespace: str
    cluster: Cluster
    user: User


def paths(named: str, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The files to read: the one that is named, else those of KUBECONFIG, else ~/.kube/config, of which only what is there."""
    if named:
        return (Path(named).expanduser(),)
    listed = by_variable(environ)
    home = environ.get("HOME", "")
    if not listed and home:
        listed = (Path(home) / ".kube" / "config",)
    return tuple(one for one in listed if one.exists())


def by_variable(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The files that KUBECONFIG names, whether they are there or not."""
    return tuple(Path(one).expanduser() for one in environ.get("KUBECONFIG", "").split(os.pathsep) if one)


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


def choose(config: Mapping[str, Any], named: str) -> Context:
    """The context of this name ("": the current one). Raises UsageError for one that is not there, BadInputError."""
    name = named or config.get("current-context", "")
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
    where = f"the kubeconfig's context {name!r}: "
    namespace = _Fields(chosen, where).text("namespace") or "default"
    return Context(
        name, namespace, _cluster(_Fields(cluster, f"{where}cluster.")), _user(_Fields(user, f"{where}user."))
    )


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


def _cluster(fields: _Fields) -> Cluster:
    server = fields.text("server")
    if not server:
        raise fields.wrong("server", "the address of the cluster is not there")
    return Cluster(
        server=server,
        authority=fields.data("certificate-authority-data"),
        authority_file=fields.text("certificate-authority"),
        insecure=fields.truth("insecure-skip-tls-verify"),
        server_name=fields.text("tls-server-name"),
        proxy=fields.text("proxy-url"),
    )


def _user(fields: _Fields) -> User:
    acts_as, acts_in = _acting(fields)
    program = fields.inner("exec")
    return User(
        token=fields.text("token"),
        token_file=fields.text("tokenFile"),
        name=fields.text("username"),
        password=fields.text("password"),
        certificate=fields.data("client-certificate-data"),
        certificate_file=fields.text("client-certificate"),
        key=fields.data("client-key-data"),
        key_file=fields.text("client-key"),
        program=None if program is None else _program(program),
        outdated=fields.inner("auth-provider") is not None,
        acts_as=acts_as,
        acts_in=acts_in,
    )


def _program(fields: _Fields) -> Program:
    command = fields.text("command")
    if not command:
        raise fields.wrong("command", "the program's name is not there")
    return Program(
        command=command,
        arguments=fields.texts("args"),
        variables={one.text("name"): one.text("value") for one in fields.inners("env")},
        api_version=fields.text("apiVersion"),
        hint=answers.line(fields.text("installHint")),
        wants_cluster=fields.truth("provideClusterInfo"),
    )


def _acting(fields: _Fields) -> tuple[str, str]:
    """Whom `as` names, and a group."""
    who, groups = fields.text("as"), fields.texts("as-groups")
    others = [name for name in fields.names() if name.startswith("as-") and name != "as-groups"]
    if others or len(groups) > 1 or (groups and not who):
        told = ", ".join(others) or "several groups, or a group alone"
        raise BadInputError(f"the kubeconfig impersonates by {told}, which is not supported")
    return who, groups[0] if groups else ""


class _Fields:
    """A mapping of a kubeconfig, by the types that Kubernetes gives its fields; null is a field that is not there.

    Raises BadInputError, which names the field and shows nothing of its value: that may be a secret.
    """

    def __init__(self, fields: Mapping[Any, Any], where: str) -> None:
        self._fields = fields
        self._where = where

    def wrong(self, name: str, words: str) -> BadInputError:
        """What is wrong with a field."""
        return BadInputError(f"{self._where}{name}: {words}")

    def names(self) -> list[str]:
        """The fields that say something."""
        return sorted(name for name, value in self._fields.items() if isinstance(name, str) and value)

    def text(self, name: str) -> str:
        return self._of(name, str, "a text") or ""

    def truth(self, name: str) -> bool:
        return self._of(name, bool, "true or false") or False

    def data(self, name: str) -> bytes:
        """Base64, over several lines too, as YAML's block texts bring it."""
        try:
            return base64.b64decode(self.text(name).replace("\r", "").replace("\n", ""), validate=True)
        except ValueError:
            raise self.wrong(name, "base64 expected") from None

    def texts(self, name: str) -> tuple[str, ...]:
        listed = self._of(name, list, "a list") or []
        return tuple(_Fields({name: one}, self._where).text(name) for one in listed)

    def inner(self, name: str) -> _Fields | None:
        value = self._of(name, dict, "a mapping")
        return None if value is None else _Fields(value, f"{self._where}{name}.")

    def inners(self, name: str) -> list[_Fields]:
        listed = self._of(name, list, "a list") or []
        found = [_Fields({name: one}, self._where).inner(name) for one in listed]
        return [one for one in found if one is not None]

    def _of(self, name: str, kind: type[_T], expected: str) -> _T | None:
        value = self._fields.get(name)
        if value is not None and not isinstance(value, kind):
            raise self.wrong(name, f"{expected} expected, not {answers.line(type(value).__name__)}")
        return value
