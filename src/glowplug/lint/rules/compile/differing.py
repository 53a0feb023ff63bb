"""Values that are another one in every pod, on every node or at every roll-out, by where they come from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from glowplug.core.tables import table
from glowplug.manifests.source import Place

if TYPE_CHECKING:
    from glowplug.lint.view import Option, Variable, Workload
    from glowplug.manifests.values import Value

_PACKAGE: Final = "glowplug.lint.rules.compile"
_KUBELET: Final = re.compile(r"(?<!\$)(?:\$\$)*\$\(([A-Za-z_][\w.-]*)\)")
_SHELL: Final = re.compile(r"\$[{(]?([A-Za-z_]\w*)[)}]?")
# What a shell makes anew each time, or from the machine it runs on.
_MADE: Final = (
    (re.compile(r"\$\{?RANDOM\b|\bshuf\b|\buuidgen\b|/proc/sys/kernel/random|\bdate\b|\$\$(?!\()"), "start"),
    (re.compile(r"\$\{?HOSTNAME\b|\bhostname\b|\bip (?:addr|route)\b"), "pod"),
)
SENTENCES: Final = {
    "pod": "is another one in every pod",
    "name": "is another one in every pod",
    "node": "is another one on every node",
    "rollout": "is another one after every roll-out",
    "start": "is made anew at every start",
}


def of_variable(workload: Workload, variable: Variable) -> str:
    """By what a variable's value differs: a key of SENTENCES, "" where it is the same everywhere or cannot be known."""
    return _first(workload, [variable])


def _first(workload: Workload, waiting: list[Variable]) -> str:
    """What the first of these says that says something, or one that it refers to. Each is asked once, however often others refer
    to it."""
    asked: set[str] = set()
    waiting.reverse()
    while waiting:
        variable = waiting.pop()
        if variable.name in asked or variable.value is not None:
            continue
        asked.add(variable.name)
        found, names = _said(workload, variable)
        if found:
            return found
        waiting += _named(workload, names)[::-1]
    return ""


def _said(workload: Workload, variable: Variable) -> tuple[str, list[str]]:
    """By what one differs by itself, and which others it refers to."""
    if variable.origin == "field" and variable.entry is not None:
        return _of_field(workload, field_of(variable)), []
    text = text_at(place_of(workload, variable))
    if variable.origin == "command":
        return next((by for pattern, by in _MADE if pattern.search(text)), ""), _SHELL.findall(text)
    return "", _KUBELET.findall(text) if variable.origin == "value" else []


def of_option(workload: Workload, option: Option) -> str:
    """The same for the value of an option."""
    if option.value is not None:
        return ""
    text = text_at(option.at)
    return _first(workload, _named(workload, [*_KUBELET.findall(text), *_SHELL.findall(text)]))


def of_text(workload: Workload, text: str) -> str:
    """The same for a text in which kubelet replaces references."""
    return _first(workload, _named(workload, _KUBELET.findall(text)))


def place_of(workload: Workload, variable: Variable) -> Value | Place:
    """What says the field, else where the value stands; in a script, all of what is assigned."""
    path = variable.entry.get("valueFrom", "fieldRef", "fieldPath") if variable.entry is not None else None
    if path is not None:
        return path
    if variable.origin != "command":
        return variable.at
    assigned = re.compile(rf"\b{re.escape(variable.name)}=([^\s;&|]+)")
    for key in ("command", "args"):
        words = workload.container.value.get(key)
        for word in words.elements() if words is not None else ():
            found = assigned.search(word.text)
            if found:
                return Place(word.source, word.part(*found.span(1)))
    return variable.at


def field_of(variable: Variable) -> str:
    """The field of the pod that a variable takes, "" for none."""
    path = variable.entry.get("valueFrom", "fieldRef", "fieldPath") if variable.entry is not None else None
    return path.text.replace('"', "'") if path is not None else ""


def text_at(at: Value | Place) -> str:
    """What is written there."""
    return at.text


def _of_field(workload: Workload, field: str) -> str:
    by = _FIELDS.get(field, "")
    stays = by == "name" and workload.object.kind == "StatefulSet"
    return "name" if stays else "pod" if by == "name" else by


def _named(workload: Workload, names: list[str]) -> list[Variable]:
    variables = workload.container.environment.variables
    return [variables[name] for name in dict.fromkeys(names) if name in variables]


_FIELDS: Final = {row["field"]: row["by"] for row in table(_PACKAGE, "differing")}
