"""Findings that somebody has decided to live with: the annotation `ignore.glowplug.dev/<rule>: "reason"`.

It stands on the object, or on its pod template for what concerns or lies in the pods. It counts only with a reason, since a bare
switch is what nobody dares to remove later; one without a reason, or for a rule that there is not, is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.core.printable import one_line
from glowplug.lint import objects
from glowplug.render.accepted import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from glowplug.lint.view import Manifests
    from glowplug.manifests.values import Value


class Ignored:
    """What the annotations of one reading say; each value's are read once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Value, Mapping[str, str]]] = {}

    def reason(self, rule: str, values: Sequence[Value]) -> str:
        """Why findings of this rule about these objects or templates are ignored, "" where they are not."""
        for value in values:
            given = self._of(value).get(rule, "")
            if given:
                return given
        return ""

    def _of(self, value: Value) -> Mapping[str, str]:
        known = self._known.get(id(value))
        if known is None:
            # The value is kept, so that its id stays its own.
            known = self._known[id(value)] = (value, {rule: _reason(at) for rule, _, at in _annotations(value)})
        return known[1]


def mistakes(manifests: Manifests, names: Mapping[str, object], nearest: Callable[[str], str]) -> Iterator[str]:
    """A line for each annotation that ignores nothing: without a reason, or for a rule that is not in `names`."""
    for value in (one for each in manifests.objects for one in (each.value, *objects.templates(each))):
        for rule, key, reason in _annotations(value):
            where = "{}:{}:{}".format(key.source.name, *key.source.position(key.span.start))
            name = one_line(rule[:80])
            if rule not in names:
                near = nearest(rule)
                yield f"{where}: {PREFIX}{name} ignores nothing: there is no such rule" + (
                    f" (did you mean {near}?)" if near else ""
                )
            elif reason.text.strip() and not reason.is_text:
                yield f"{where}: {PREFIX}{name} ignores nothing: its value is no string, which Kubernetes refuses; quote it"
            elif not _reason(reason):
                yield f"{where}: {PREFIX}{name} ignores nothing without a reason: write it as the value"


def _reason(value: Value) -> str:
    return value.text.strip() if value.is_text else ""


def _annotations(value: Value) -> Iterator[tuple[str, Value, Value]]:
    """Rule, key and reason of each."""
    annotations = value.get("metadata", "annotations")
    if annotations is None:
        return
    for name, reason in annotations.items():
        if name.startswith(PREFIX):
            yield name.removeprefix(PREFIX), annotations.key(name) or reason, reason
