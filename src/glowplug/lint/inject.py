"""`glowplug inject` over whole inputs: which pods, what is known of each, and texts in which all or nothing of a file is changed.

The edit of one pod is `render/inject.py`; here is what only reading the manifests together tells (which container is the engine,
which variables it gets, what its namespace enforces). A file in which one object is refused stays as it is: half a change is
harder to see than none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from glowplug.core import redact
from glowplug.core.documents import codec
from glowplug.core.errors import GlowplugError, NotFoundError
from glowplug.engines.vllm.caches import behaviour
from glowplug.lint import knative, objects
from glowplug.lint.nvme import on_its_nodes
from glowplug.lint.rules.compile.off import caches_off, compiling_off
from glowplug.manifests import edit
from glowplug.manifests.source import Source
from glowplug.render import inject as one_pod

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from glowplug.lint.view import Manifests, Object, Workload
    from glowplug.manifests.edit import Operation
    from glowplug.manifests.values import Value
    from glowplug.render.inject import Injection, Pod
    from glowplug.render.options import Options

Outcome = Literal["changed", "unchanged", "refused"]

# What Helm replaces; a chat template (`{{ messages }}`) in an argument looks almost like it.
_TEMPLATE: Final = re.compile(
    r"\{\{-?\s*(?:\.[A-Z]|\$|include\b|template\b|toYaml\b|tpl\b|if\b|range\b|with\b|end\b|define\b)"
)
_CHART: Final = "it is a chart's template: inject what `helm template` prints, through -"
_OTHER: Final = "another object of this file is refused, and a file is changed as a whole or not at all"
# The maker's own image and no mirror of it: others may have another entrypoint under the same name.
_VLLM_IMAGE: Final = re.compile(
    r"(?:docker\.io/|index\.docker\.io/)?vllm/vllm-openai(?::[\w.-]+)?(?:@sha256:[0-9a-f]{64})?"
)
_ENFORCED: Final = "pod-security.kubernetes.io/enforce"
_LABELLED_SPECS: Final = ("ServingRuntime", "ClusterServingRuntime")
_IMMUTABLE: Final = {
    "Pod": "a Pod that runs cannot be changed so: delete it before you apply this",
    "Job": "a Job's pod cannot be changed: delete the Job before you apply this",
}


@dataclass(frozen=True)
class Injected:
    """What became of one object (`Deployment default/vllm`); of a whole file where `object` is "".

    `reason` says why it is refused, or why it stays as it is though nothing is wrong with it, "" where that needs no words;
    `changes` says what was done, `notes` what was left as a person had it.
    """

    file: str
    object: str
    outcome: Outcome
    reason: str = ""
    changes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Document:
    """What `glowplug inject` did. `diff` is set with `--diff`, which writes nothing; `text` is the text of stdin as it is now."""

    objects: tuple[Injected, ...]
    diff: str | None = None
    text: str | None = None
    schema: str = "glowplug.inject/1"


@dataclass(frozen=True)
class Result:
    """The sources, changed or not, in their order, and what became of each object; `skipped` says what was not looked at."""

    sources: tuple[Source, ...]
    objects: tuple[Injected, ...]
    skipped: tuple[str, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether anything was."""
        return any(one.outcome == "refused" for one in self.objects)


def to_document(document: Document) -> dict[str, Any]:
    """The JSON value, `schema` first."""
    value: dict[str, Any] = codec.to_json(document)
    return {"schema": value.pop("schema"), **value}


def is_template(source: Source) -> bool:
    """Whether Helm has still to print this text."""
    return bool(_TEMPLATE.search(source.text))


def refused_template(source: Source) -> Injected:
    """What is said of one."""
    return Injected(source.name, "", "refused", _CHART)


def inject(sources: Sequence[Source], options: Options, chosen: Sequence[str] = (), namespace: str = "") -> Result:
    """Give every pod with an engine what `options` say, or those of the objects `chosen` by KIND/NAME (KIND/NAMESPACE/NAME).

    `namespace` is that of objects that name none. Raises BadInputError for a source that is no YAML, NotFoundError for a chosen
    object that is not there, or where nothing of all this is a pod with an engine.
    """
    # What makes the nodes is asked of the manifests first; `options` say it where they do not.
    manifests = objects.read(sources)
    groups = _groups(manifests, chosen)
    levels = _levels(manifests)
    tried = [_tried(group, options, levels, namespace) for group in groups]
    texts = {id(source): _text(source, [one for one in tried if one.source is source]) for source in sources}
    found = tuple(Source(source.name, texts[id(source)].text) for source in sources)
    rows = [row for source in sources for row in texts[id(source)].rows]
    return Result(found, tuple(map(_untold, rows)), tuple(map(redact.known_forms, manifests.skipped)))


def unwritten(result: Result, failed: Mapping[str, str]) -> Result:
    """The same where files could not be written: by their name why, "" for those that were."""
    rows = tuple(
        replace(
            row, outcome="refused", reason=f"the file could not be written: {failed[row.file]}", changes=(), notes=()
        )
        if row.outcome == "changed" and failed.get(row.file)
        else row
        for row in result.objects
    )
    return replace(result, objects=rows)


@dataclass(frozen=True)
class _Tried:
    """One object: its row, and the operations that it stands for."""

    source: Source
    row: Injected
    operations: tuple[Operation, ...] = ()


def _untold(row: Injected) -> Injected:
    """Without credentials, whatever the values are called that it names."""
    hidden = redact.known_forms
    changes, notes = tuple(map(hidden, row.changes)), tuple(map(hidden, row.notes))
    return replace(row, reason=hidden(row.reason), changes=changes, notes=notes)


@dataclass(frozen=True)
class _Text:
    text: str
    rows: tuple[Injected, ...]


def _groups(manifests: Manifests, chosen: Sequence[str]) -> list[list[Workload]]:
    """The pods with an engine, those of one object together, in the order of the input."""
    grouped: dict[int, list[Workload]] = {}
    for workload in manifests.workloads:
        grouped.setdefault(id(workload.object.value.node), []).append(workload)
    there = list(grouped.values())
    if not there:
        raise NotFoundError(
            "nothing here is a pod with an engine",
            hint="an engine is known by its command (`vllm serve`) or by its image; `glowplug lint` says what it sees",
        )
    names = ", ".join(dict.fromkeys(f"{group[0].object.kind}/{group[0].object.name}" for group in there))
    for name in chosen:
        if not any(_is_called(group[0].object, name) for group in there):
            raise NotFoundError(f"--object {name}: no pod with an engine is called so", hint=f"there are {names}")
    return [group for group in there if not chosen or any(_is_called(group[0].object, name) for name in chosen)]


def _is_called(found: Object, name: str) -> bool:
    kind, _, rest = name.partition("/")
    return kind.lower() == found.kind.lower() and rest in (found.name, f"{found.namespace}/{found.name}")


def _levels(manifests: Manifests) -> dict[str, str]:
    """What each namespace of the input enforces."""
    found = {}
    for one in manifests.of_kind("Namespace"):
        level = one.value.get("metadata", "labels", _ENFORCED)
        found[one.name] = level.text if level is not None else ""
    return found


def _tried(group: Sequence[Workload], options: Options, levels: Mapping[str, str], namespace: str) -> _Tried:
    whole = group[0].object
    source = whole.value.source
    where = whole.namespace or namespace
    if is_template(Source(source.name, source.cut(whole.value.span))):
        return _Tried(source, Injected(source.name, whole.title, "refused", _CHART))
    try:
        # Whatever the manifest's own namespace is: only the name of a domain is held to a rule of ours.
        own = replace(options, namespace=where) if where else options
        level = levels.get(where, "")
        done = [(workload, _injected(workload, group, own, where, level)) for workload in group]
    except one_pod.RefusedError as reason:
        return _Tried(source, Injected(source.name, whole.title, "refused", str(reason)))
    except GlowplugError as error:
        return _Tried(source, Injected(source.name, whole.title, "refused", error.message))
    operations = tuple(operation for _, injection in done for operation in injection.operations)
    changes = tuple(_named(done, "changes"))
    notes = [*_named(done, "notes"), *([_IMMUTABLE[whole.kind]] if changes and whole.kind in _IMMUTABLE else [])]
    row = Injected(source.name, whole.title, "changed" if changes else "unchanged", "", changes, tuple(notes))
    return _Tried(source, row, operations)


def _injected(workload: Workload, group: Sequence[Workload], options: Options, namespace: str, level: str) -> Injection:
    """The edit of one pod, with paths of the nodes that the input says it lands on."""
    placed, note = on_its_nodes(workload, options)
    found = one_pod.inject(_pod(workload, group, namespace, level), placed)
    return replace(found, notes=(*found.notes, note)) if note and found.changes else found


def _named(done: Sequence[tuple[Workload, Injection]], what: str) -> Iterator[str]:
    """Changes or notes, with the container's name where there is more than one."""
    for workload, injection in done:
        own: Iterable[str] = getattr(injection, what)
        for one in own:
            yield f"{workload.container.name}: {one}" if len(done) > 1 else one


def _text(source: Source, tried: Sequence[_Tried]) -> _Text:
    """The text with all changes or none."""
    rows = [one.row for one in tried]
    operations = [operation for one in tried for operation in one.operations]
    if operations and not any(row.outcome == "refused" for row in rows):
        try:
            return _Text(edit.apply(source, operations), tuple(rows))
        except edit.CannotEditError as error:
            rows = _blamed(source, tried, str(error))
    if any(row.outcome == "refused" for row in rows):
        rows = [replace(row, outcome="unchanged", reason=_OTHER, changes=()) if row.changes else row for row in rows]
    return _Text(source.text, tuple(rows))


def _blamed(source: Source, tried: Sequence[_Tried], why: str) -> list[Injected]:
    """The rows where an edit cannot be written: refused are those whose own edit cannot be, or all, if only the whole cannot."""
    found: dict[int, str] = {}
    for place, one in enumerate(tried):
        try:
            edit.apply(source, one.operations)
        except edit.CannotEditError as error:
            found[place] = str(error)
    found = found or {place: why for place, one in enumerate(tried) if one.operations}
    return [
        replace(one.row, outcome="refused", reason=found[place], changes=()) if place in found else one.row
        for place, one in enumerate(tried)
    ]


def _pod(workload: Workload, group: Sequence[Workload], namespace: str, level: str) -> Pod:
    """What is known of a pod, for the edit."""
    container, engine = workload.container, workload.engine
    same = [one for one in group if one.spec.node is workload.spec.node]
    root = workload.object.value
    return one_pod.Pod(
        template=workload.template,
        labelled=_labelled(workload),
        spec=workload.spec,
        container=container.value,
        engine=engine.name,
        namespace=namespace,
        version=engine.version,
        environ={
            name: None if variable.value is None else str(variable.value)
            for name, variable in container.environment.variables.items()
        },
        whole=container.environment.whole,
        opaque=engine.opaque or ("a shell script in a file" if engine.script else ""),
        entrypoint=_entrypoint(container.image.text if container.image is not None else "", engine.version),
        engines=tuple(one.container.name for one in same),
        pod_security=level,
        selected=_labels(root.get("spec", "selector", "matchLabels")),
        claims=_names(root.get("spec", "volumeClaimTemplates")),
        off=next((one.why for one in (*compiling_off(workload), *caches_off(workload))), ""),
        knative=knative.makes_pods(workload.object),
    )


def _labelled(workload: Workload) -> Value | None:
    """Where the labels of the pod stand: a serving runtime's own labels are not those of its pods."""
    if workload.object.kind in _LABELLED_SPECS:
        return workload.spec
    metadata = workload.template.get("metadata")
    return metadata if metadata is not None and metadata.is_mapping else None


def _entrypoint(image: str, version: str) -> tuple[str, ...]:
    """What the engine's own image starts, () where that is not known for this very version."""
    return tuple(behaviour("image_entrypoint", version).split()) if version and _VLLM_IMAGE.fullmatch(image) else ()


def _labels(value: Value | None) -> dict[str, str]:
    return {name: one.text for name, one in value.items()} if value is not None else {}


def _names(templates: Value | None) -> tuple[str, ...]:
    found = (one.get("metadata", "name") for one in templates.elements()) if templates is not None else ()
    return tuple(name.text for name in found if name is not None)
