"""What kubelet does to the words of a pod: in `command`, `args` and values of `env` it replaces `$(NAME)` and reads `$$` as `$`.

So a word that is meant as it stands is escaped, in one place, where a manifest is finished (`escaped`): whoever builds a pod
writes what the container is to see. A word that kubelet is meant to read, or a script of ours in which `$(…)` is the shell's and
no variable has such a name, is `Verbatim`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from glowplug.manifests.writing import Noted

_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")


class Verbatim(str):
    """A word that goes to kubelet as it is."""

    __slots__ = ()


def literal(text: str) -> str:
    """A word of which the container gets exactly `text`."""
    if isinstance(text, Verbatim):
        return text
    return text.replace("$", "$$") if "$(" in text or "$$" in text else text


def escaped(value: Any) -> Any:
    """A document with the words of all containers in it escaped; notes stay."""
    if isinstance(value, Noted):
        return Noted(escaped(value.value), value.why)
    if isinstance(value, Mapping):
        return {key: _containers(item) if key in _CONTAINERS else escaped(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [escaped(item) for item in value]
    return value


def _containers(value: Any) -> Any:
    if isinstance(value, Noted):
        return Noted(_containers(value.value), value.why)
    return [_container(one) for one in value]


def _container(value: Any) -> Any:
    if isinstance(value, Noted):
        return Noted(_container(value.value), value.why)
    changed = {name: _words(value[name]) for name in ("command", "args", "env") if name in value}
    return {name: changed.get(name, item) for name, item in value.items()}


def _words(value: Any) -> Any:
    """A list of words, or of variables of which the `value` is one."""
    if isinstance(value, Noted):
        return Noted(_words(value.value), value.why)
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, Mapping):
        return {name: _words(item) if name == "value" else item for name, item in value.items()}
    return [_words(item) for item in value]
